//! The prose of a file: its text with everything else replaced by spaces, so that the numbers of lines stay.

use std::path::Path;

use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};

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

/// The prose of a text. `read_tokens` returns its tokens if it is Rust.
///
/// # Errors
/// The text is not of this syntax.
pub(super) fn extract_prose(
    syntax: Syntax,
    text: &str,
    read_tokens: impl FnOnce() -> Result<TokenStream>,
) -> Result<String> {
    Ok(match syntax {
        Syntax::Markdown => without_code(text),
        Syntax::Rust => without_code(&extract_comments(text, read_tokens()?)?),
        Syntax::Plain => {
            let lines: Vec<String> = text.lines().map(|line| without_spans(line, &mut false)).collect();
            lines.join("\n")
        }
    })
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

/// The comments of a Rust source, without their markers: what remains without its tokens.
///
/// # Errors
/// A token ends within a letter.
fn extract_comments(text: &str, tokens: TokenStream) -> Result<String> {
    let mut comments = text.as_bytes().to_vec();
    hide_tokens(tokens, text, &mut comments);
    let comments = String::from_utf8(comments).context("a token ends within a letter")?;
    Ok(comments.replace(['/', '!', '*'], " "))
}

/// Replaces tokens by spaces, apart from comments of documentation, which are tokens, too.
fn hide_tokens(tokens: TokenStream, text: &str, bytes: &mut [u8]) {
    for token in tokens {
        let range = token.span().byte_range();
        if ["//", "/*"].iter().any(|mark| text[range.clone()].starts_with(mark)) {
            continue;
        }
        if let TokenTree::Group(group) = token {
            hide_bytes(&mut bytes[group.span_open().byte_range()]);
            hide_bytes(&mut bytes[group.span_close().byte_range()]);
            hide_tokens(group.stream(), text, bytes);
        } else {
            hide_bytes(&mut bytes[range]);
        }
    }
}

fn hide_bytes(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}
