//! Text that other programs wrote, in a form in which it cannot control the terminal.
//!
//! Annotations, events, conditions and responses can contain any characters. A terminal would carry out
//! escape sequences in them: they can hide lines, change the title, or write into the clipboard.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text in one line, with escapes such as `\u001b` instead of control characters and of characters that
/// reorder text.
pub(crate) fn escape_to_one_line(text: &str) -> Cow<'_, str> {
    escape_letters(text, is_unsafe)
}

/// The same as [`escape_to_one_line`], but line ends and tabs stay.
pub(crate) fn escape_except_lines(text: &str) -> Cow<'_, str> {
    escape_letters(text, |letter| is_unsafe(letter) && !matches!(letter, '\n' | '\t'))
}

/// A text of this program as [`escape_except_lines`], but each of `styles` stays.
///
/// It is the last step before a terminal, in case a text was put into another one without
/// [`escape_to_one_line`].
pub(crate) fn escape_except_styles(text: &str, styles: &[String]) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('\u{1b}') {
        shown.push_str(&escape_except_lines(&rest[..start]));
        rest = &rest[start..];
        let style = styles.iter().find(|style| rest.starts_with(style.as_str()));
        let end = style.map_or(1, String::len);
        shown.push_str(&style.map_or_else(|| escape_to_one_line(&rest[..end]), |style| Cow::Borrowed(style)));
        rest = &rest[end..];
    }
    shown.push_str(&escape_except_lines(rest));
    shown
}

fn escape_letters(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_escaped(letter) {
            // The notation of JSON, in which the output can be, too.
            let _ = write!(shown, "\\u{:04x}", u32::from(letter));
        } else {
            shown.push(letter);
        }
    }
    Cow::Owned(shown)
}

/// Control characters of both ranges, and the characters that change the direction of the text after them.
fn is_unsafe(letter: char) -> bool {
    let is_direction = matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    letter.is_control() || is_direction
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain("Running since 5m, größer", "Running since 5m, größer")]
    #[case::clear_screen("a\u{1b}[2Jb", "a\\u001b[2Jb")]
    #[case::title("\u{1b}]0;pwned\u{7}", "\\u001b]0;pwned\\u0007")]
    #[case::one_character_of_eight_bits("\u{9b}2J", "\\u009b2J")]
    #[case::a_forged_line("ok\nReady", "ok\\u000aReady")]
    #[case::a_line_over_another_one("bad\rgood", "bad\\u000dgood")]
    #[case::reordered("\u{202e}txt", "\\u202etxt")]
    fn foreign_text_cannot_control_a_terminal(#[case] text: &str, #[case] shown: &str) {
        assert_eq!(escape_to_one_line(text), shown);
    }

    #[test]
    fn lines_and_tabs_of_a_text_stay() {
        assert_eq!(escape_except_lines("a\n\tb\u{1b}[0m"), "a\n\tb\\u001b[0m");
    }

    #[test]
    fn only_styles_of_this_program_stay() {
        let styles = ["\u{1b}[31m".to_owned(), "\u{1b}[0m".to_owned()];
        let text = "\u{1b}[31mbad\u{1b}[0m \u{1b}[5mblink\u{1b}\n\u{1b}[2J";
        let shown = "\u{1b}[31mbad\u{1b}[0m \\u001b[5mblink\\u001b\n\\u001b[2J";
        assert_eq!(escape_except_styles(text, &styles), shown);
    }
}
