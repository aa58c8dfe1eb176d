//! The output of the demo: lines, and below them one table that is redrawn in place.
//!
//! To redraw the table, the cursor moves up by its height. That erases other lines if any program has written
//! below the table since. Therefore lines and log lines go through the same [`LiveScreen`]: a line leaves the
//! table above it as it is, and a log line is written above the table.

use std::io::{IsTerminal, Stdout, Write};
use std::sync::Arc;

use parking_lot::Mutex;

#[cfg(test)]
mod tests;

/// Width and height of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Width.
    pub columns: usize,
    /// Height.
    pub rows: usize,
}

impl TerminalSize {
    /// The size if a terminal does not report one.
    const DEFAULT: Self = Self { columns: 80, rows: 24 };

    /// The size of the terminal of the standard output; `None` if the output is no terminal.
    pub fn measure_stdout() -> Option<Self> {
        let output = std::io::stdout();
        output.is_terminal().then(|| match rustix::termios::tcgetwinsize(&output) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Self { columns: size.ws_col.into(), rows: size.ws_row.into() }
            }
            Ok(_) | Err(_) => Self::DEFAULT,
        })
    }
}

/// The only writer of a terminal. If the output is no terminal, each new table is printed below the last one.
///
/// Errors of the output are ignored, so that a closed pipe does not end the demo.
pub struct LiveScreen<W> {
    output: W,
    measure: fn() -> Option<TerminalSize>,
    /// The current table; empty if a line has been printed since.
    table: String,
    /// The number of rows of the current table that the cursor is below; 0 if it cannot be redrawn.
    drawn_rows: usize,
}

impl<W: Write> LiveScreen<W> {
    /// An empty screen. `measure` returns the size of the terminal, or `None` if the output is none.
    pub fn new(output: W, measure: fn() -> Option<TerminalSize>) -> Self {
        Self { output, measure, table: String::new(), drawn_rows: 0 }
    }

    /// Prints a line. The current table stays above it, and the next one begins below it.
    pub fn print_line(&mut self, line: &str) {
        self.table.clear();
        self.drawn_rows = 0;
        let _ = writeln!(self.output, "{line}");
        let _ = self.output.flush();
    }

    /// Replaces the current table, unless the new one is the same.
    pub fn show_table(&mut self, table: &str) {
        let size = (self.measure)();
        let table = size.map_or_else(|| table.to_owned(), |size| fit_table(table, size));
        if table == self.table {
            return;
        }
        self.erase_table();
        self.draw_table(table, size.is_some());
    }

    /// Writes a log line to `log`, which may be the same terminal, above the current table.
    pub fn write_log(&mut self, log: &mut impl Write, line: &[u8]) {
        let is_drawn = self.drawn_rows > 0;
        self.erase_table();
        let _ = self.output.flush();
        let _ = log.write_all(line);
        let _ = log.flush();
        if is_drawn {
            let table = std::mem::take(&mut self.table);
            self.draw_table(table, true);
        }
    }

    /// Moves the cursor to the start of the current table, and clears everything below.
    fn erase_table(&mut self) {
        if self.drawn_rows > 0 {
            let _ = write!(self.output, "\r\x1b[{}A\x1b[J", self.drawn_rows);
            self.drawn_rows = 0;
        }
    }

    fn draw_table(&mut self, table: String, can_be_redrawn: bool) {
        let _ = writeln!(self.output, "{table}");
        let _ = self.output.flush();
        self.drawn_rows = if can_be_redrawn { table.lines().count() } else { 0 };
        self.table = table;
    }
}

/// A table that takes one row for each of its lines, and leaves a row for the cursor. Otherwise the cursor
/// could not return to its start.
fn fit_table(table: &str, size: TerminalSize) -> String {
    // In the last column, some terminals continue at the next row at once.
    let width = size.columns.saturating_sub(1).max(1);
    let height = size.rows.saturating_sub(1).max(1);
    let mut lines: Vec<String> = table.lines().map(|line| line.chars().take(width).collect()).collect();
    if lines.len() > height {
        let hidden = lines.len() - (height - 1);
        lines.truncate(height - 1);
        lines.push(format!("  ... and {hidden} more").chars().take(width).collect());
    }
    lines.join("\n")
}

/// The screen of the demo, which the story and the log share.
pub type SharedScreen = Arc<Mutex<LiveScreen<Stdout>>>;

/// Writes log lines to the standard error output, above the table. Each call of `write` must contain whole
/// lines.
#[derive(Clone)]
pub struct LogWriter(pub SharedScreen);

impl Write for LogWriter {
    fn write(&mut self, lines: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write_log(&mut std::io::stderr(), lines);
        Ok(lines.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
