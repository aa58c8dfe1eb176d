//! The prose of a file: its text with everything else replaced by spaces, so that the numbers of lines stay.

use std::path::Path;

/// How prose and code are distinguished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// The whole text is prose, except code in backticks and in fences.
    Markdown,
    /// Only comments are prose.
    Rust,
    /// The whole text is prose, except code in backticks.
    Plain,
}

impl Syntax {
    /// The syntax of a file, by its name. None, if the file contains no prose.
    pub(super) fn of(path: &Path) -> Option<Self> {
        if path.file_name().is_some_and(|name| name == "Makefile" || name == "Dockerfile") {
            return Some(Self::Plain);
        }
        match path.extension()?.to_str()? {
            "md" => Some(Self::Markdown),
            "rs" => Some(Self::Rust),
            "yaml" | "yml" | "tpl" | "txt" | "json" | "toml" => Some(Self::Plain),
            _ => None,
        }
    }
}

/// The prose of a text.
pub(super) fn extract_prose(syntax: Syntax, text: &str) -> String {
    match syntax {
        Syntax::Markdown => without_code(text),
        Syntax::Rust => without_code(&comments(text)),
        Syntax::Plain => {
            let lines: Vec<String> = text.lines().map(|line| without_spans(line, &mut false)).collect();
            lines.join("\n")
        }
    }
}

/// A text in Markdown without its code. A fence with the language `text` contains prose, for example a
/// diagram.
fn without_code(text: &str) -> String {
    let mut prose = String::with_capacity(text.len());
    let (mut is_fenced, mut is_prose, mut in_span) = (false, false, false);
    for line in text.lines() {
        if let Some(language) = line.trim().strip_prefix("```") {
            is_prose = !is_fenced && language == "text";
            (is_fenced, in_span) = (!is_fenced, false);
        } else if is_prose {
            prose.push_str(line);
        } else if !is_fenced {
            // A span ends with its paragraph.
            in_span &= !line.trim().is_empty();
            prose.push_str(&without_spans(line, &mut in_span));
        }
        prose.push('\n');
    }
    prose
}

/// A line without its code in backticks. `in_span` says whether the line begins inside such code, and is
/// updated.
fn without_spans(line: &str, in_span: &mut bool) -> String {
    let hide = |letter: char| {
        *in_span ^= letter == '`';
        if *in_span || letter == '`' { '.' } else { letter }
    };
    line.chars().map(hide).collect()
}

/// The comments of a Rust source, without their markers.
fn comments(text: &str) -> String {
    let mut comments = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (length, is_comment) = token(rest);
        let (token, after) = rest.split_at(length);
        let keep = |letter: char| match letter {
            '\n' => '\n',
            _ if !is_comment => ' ',
            '/' | '!' | '*' => ' ',
            _ => letter,
        };
        comments.extend(token.chars().map(keep));
        rest = after;
    }
    comments
}

/// The length in bytes of the first token of a Rust source, and whether it is a comment. Tokens that cannot
/// contain the start of a comment may be shorter than those of Rust.
fn token(text: &str) -> (usize, bool) {
    let until =
        |end: &str, from: usize| text[from..].find(end).map_or(text.len(), |at| from + at + end.len());
    if text.starts_with("//") {
        return (text.find('\n').unwrap_or(text.len()), true);
    }
    if text.starts_with("/*") {
        return (until("*/", 2), true);
    }
    let mut letters = text.chars();
    match letters.next() {
        Some('"') => (string(text), false),
        Some('\'') => {
            // A character, or else the quote of a lifetime.
            let length = match letters.next() {
                Some('\\') => until("'", 3.min(text.len())),
                Some(letter) if letters.next() == Some('\'') => 2 + letter.len_utf8(),
                _ => 1,
            };
            (length, false)
        }
        Some(letter) if letter.is_alphabetic() || letter == '_' => {
            let name =
                text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len());
            let hashes = text[name..].chars().take_while(|letter| *letter == '#').count();
            let is_raw = matches!(&text[..name], "r" | "br" | "cr") && text[name + hashes..].starts_with('"');
            let end = format!("\"{}", "#".repeat(hashes));
            (if is_raw { until(&end, name + hashes + 1) } else { name }, false)
        }
        Some(letter) => (letter.len_utf8(), false),
        None => (0, false),
    }
}

/// The length in bytes of the string literal with which the text begins.
fn string(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}
