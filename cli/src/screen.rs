//! A text that replaces the previous one on the same screen of a terminal.

use std::fmt::Write as _;
use std::io::IsTerminal as _;

use terminal_size::{Height, terminal_size};

/// The number of lines of a terminal whose size is unknown.
const USUAL_HEIGHT: usize = 24;

/// Whether the standard output is a terminal.
pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// The number of lines of the terminal.
pub(crate) fn terminal_height() -> usize {
    terminal_size().map_or(USUAL_HEIGHT, |(_, Height(height))| usize::from(height))
}

/// The control sequences and the text that draw `text` from the top of a screen with this number of lines.
/// What does not fit is counted in the last line. `is_first` clears the screen.
///
/// Lines are cut at the right edge, since a line that continues below would push others off the screen.
pub(crate) fn draw_screen(text: &str, height: usize, is_first: bool) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let room = height.saturating_sub(1).max(1);
    let shown = if lines.len() > room { room - 1 } else { lines.len() };
    let mut screen = String::new();
    if is_first {
        screen.push_str("\u{1b}[2J");
    }
    // To the top left, without continuing lines.
    screen.push_str("\u{1b}[H\u{1b}[?7l");
    for line in &lines[..shown] {
        // Each line replaces a longer one completely.
        let _ = writeln!(screen, "{line}\u{1b}[K");
    }
    if shown < lines.len() {
        let _ = writeln!(screen, "and {} more lines; enlarge the terminal\u{1b}[K", lines.len() - shown);
    }
    screen.push_str("\u{1b}[J\u{1b}[?7h");
    screen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_text_replaces_a_longer_one() {
        let first = draw_screen("one line\ntwo\n", 24, true);
        assert_eq!(first, "\u{1b}[2J\u{1b}[H\u{1b}[?7lone line\u{1b}[K\ntwo\u{1b}[K\n\u{1b}[J\u{1b}[?7h");
        let next = draw_screen("one\n", 24, false);
        assert_eq!(next, "\u{1b}[H\u{1b}[?7lone\u{1b}[K\n\u{1b}[J\u{1b}[?7h");
    }

    #[test]
    fn a_text_does_not_scroll_the_screen() {
        let lines: Vec<String> = (0..60).map(|line| format!("line {line}\n")).collect();
        let text = lines.concat();
        let screen = draw_screen(&text, 10, false);
        // The cursor is below the last line.
        assert_eq!(screen.matches('\n').count(), 9);
        assert!(screen.contains("line 7\u{1b}[K\nand 52 more lines; enlarge the terminal"), "{screen:?}");
        assert_eq!(draw_screen("a\nb\n", 1, false).matches('\n').count(), 1);
    }
}
