//! A terminal in memory, which understands what [`crate::screen`] and log lines write.

use anyhow::{Context, bail};

use crate::screen::TerminalSize;

/// The rows of a terminal, including those that have been scrolled out at the top.
#[derive(Debug)]
pub struct VirtualTerminal {
    size: TerminalSize,
    rows: Vec<Vec<char>>,
    /// The first row that is visible. The cursor cannot move above it.
    top: usize,
    row: usize,
    column: usize,
}

impl VirtualTerminal {
    /// An empty terminal.
    pub fn new(size: TerminalSize) -> Self {
        Self { size, rows: vec![Vec::new()], top: 0, row: 0, column: 0 }
    }

    /// Writes to the terminal, as a program whose line ends are `\r\n`.
    ///
    /// # Errors
    /// An escape sequence that this terminal does not have.
    pub fn feed(&mut self, output: &str) -> anyhow::Result<()> {
        let mut rest = output.chars();
        while let Some(character) = rest.next() {
            match character {
                '\r' => self.column = 0,
                '\n' => self.move_down(),
                '\x1b' => self.apply_sequence(&mut rest)?,
                character => self.put(character),
            }
        }
        Ok(())
    }

    /// All rows without trailing spaces, up to the last one that is not empty.
    pub fn rows(&self) -> Vec<String> {
        let text = |row: &Vec<char>| row.iter().collect::<String>().trim_end().to_owned();
        let mut rows: Vec<String> = self.rows.iter().map(text).collect();
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        rows
    }

    /// `ESC [ <number> <letter>`.
    fn apply_sequence(&mut self, rest: &mut impl Iterator<Item = char>) -> anyhow::Result<()> {
        if rest.next() != Some('[') {
            bail!("an escape sequence without [");
        }
        let mut parameters = String::new();
        let letter = loop {
            match rest.next().context("an incomplete escape sequence")? {
                character if character.is_ascii_digit() || character == ';' => parameters.push(character),
                letter => break letter,
            }
        };
        match letter {
            'A' => self.move_up(parameters.parse().unwrap_or(1)),
            'J' if parameters.is_empty() => self.clear_below(),
            // Colors.
            'm' => {}
            _ => bail!("the escape sequence [{parameters}{letter}"),
        }
        Ok(())
    }

    fn put(&mut self, character: char) {
        if self.column == self.size.columns {
            self.move_down();
            self.column = 0;
        }
        let Some(row) = self.rows.get_mut(self.row) else { return };
        row.resize(row.len().max(self.column + 1), ' ');
        row[self.column] = character;
        self.column += 1;
    }

    /// At the last visible row, all rows are scrolled.
    fn move_down(&mut self) {
        self.row += 1;
        self.rows.resize(self.rows.len().max(self.row + 1), Vec::new());
        self.top = self.top.max((self.row + 1).saturating_sub(self.size.rows));
    }

    fn move_up(&mut self, count: usize) {
        self.row = self.row.saturating_sub(count).max(self.top);
    }

    fn clear_below(&mut self) {
        self.rows.truncate(self.row + 1);
        if let Some(row) = self.rows.get_mut(self.row) {
            row.truncate(self.column);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_of(output: &str) -> Vec<String> {
        let mut terminal = VirtualTerminal::new(TerminalSize { columns: 4, rows: 2 });
        terminal.feed(output).unwrap();
        terminal.rows()
    }

    #[test]
    fn long_lines_continue_at_the_next_row() {
        assert_eq!(rows_of("abcd\r\nabcdef\r\n"), ["abcd", "abcd", "ef"]);
    }

    #[test]
    fn the_cursor_does_not_leave_the_visible_rows() {
        assert_eq!(rows_of("a\r\nb\r\nc\r\n\x1b[9A\x1b[Jx"), ["a", "b", "x"]);
    }

    #[test]
    fn an_unknown_sequence_is_an_error() {
        let mut terminal = VirtualTerminal::new(TerminalSize { columns: 4, rows: 2 });
        assert!(terminal.feed("\x1b[2K").is_err());
    }
}
