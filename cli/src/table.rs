//! Text in columns, with styles that the terminal shows. The output stream removes the styles if it is no
//! terminal.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use crate::visible::{escape_except_lines, escape_to_one_line};

/// How important a text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Nothing special.
    #[default]
    Plain,
    /// A heading.
    Heading,
    /// As it should be.
    Good,
    /// In progress, or worth a look.
    Notice,
    /// A problem.
    Bad,
    /// Less important.
    Faint,
}

impl Tone {
    const ALL: [Self; 6] = [Self::Plain, Self::Heading, Self::Good, Self::Notice, Self::Bad, Self::Faint];

    /// The sequences that begin and end the styles of all tones.
    pub(crate) fn sequences() -> Vec<String> {
        let styles = Self::ALL.iter().map(|tone| tone.style());
        let sequences =
            styles.flat_map(|style| [style.render().to_string(), style.render_reset().to_string()]);
        sequences.filter(|sequence| !sequence.is_empty()).collect()
    }

    fn style(self) -> Style {
        let color = |color: AnsiColor| Style::new().fg_color(Some(color.into()));
        match self {
            Self::Plain => Style::new(),
            Self::Heading => Style::new().bold(),
            Self::Good => color(AnsiColor::Green),
            Self::Notice => color(AnsiColor::Yellow),
            Self::Bad => color(AnsiColor::Red),
            Self::Faint => Style::new().dimmed(),
        }
    }

    /// The text in this tone. It may come from another program.
    pub(crate) fn paint(self, text: &str) -> String {
        let (style, text) = (self.style(), escape_except_lines(text));
        format!("{style}{text}{style:#}")
    }
}

/// A cell of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::toned(text, Tone::Plain)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl Cell {
    /// A cell in this tone. The text may come from another program.
    pub(crate) fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: escape_to_one_line(&text.into()).into_owned(), tone }
    }
}

/// The rows in columns that are as wide as their widest cell, below a heading. Columns without any text are
/// omitted.
pub(crate) fn render_table(headings: &[&str], rows: &[Vec<Cell>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.text.chars().count());
        cells.max().filter(|width| *width > 0).map(|width| width.max(headings[column].chars().count()))
    };
    let widths: Vec<Option<usize>> = (0..headings.len()).map(width).collect();
    let mut text = String::new();
    let heading: Vec<Cell> = headings.iter().map(|heading| Cell::toned(*heading, Tone::Heading)).collect();
    for row in std::iter::once(&heading).chain(rows) {
        let mut line = String::new();
        let mut padding = 0;
        for (cell, width) in row.iter().zip(&widths) {
            let Some(width) = width else { continue };
            if !cell.text.is_empty() {
                let _ = write!(line, "{:padding$}{}", "", cell.tone.paint(&cell.text));
                padding = 0;
            }
            padding += width - cell.text.chars().count() + 2;
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_empty_columns_are_omitted() {
        let rows = [
            vec![Cell::from("web-a"), "".into(), "Running".into(), "".into()],
            vec!["b".into(), "".into(), "".into(), "10.0.0.1".into()],
        ];
        let text = render_table(&["NAME", "NODE", "STATE", "ADDRESS"], &rows);
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(plain, "NAME   STATE    ADDRESS\nweb-a  Running\nb               10.0.0.1\n");
    }
}
