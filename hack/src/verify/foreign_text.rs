//! Branches on sentences that other programs wrote. The API server, platforms and webhooks write messages for
//! people, in words that change. Programs decide by codes, reasons, causes and fields, or by what they have
//! attempted.
//!
//! The check sees a comparison of something that is called `message` with a literal or a constant, and any
//! search for a literal of several words. It cannot see what becomes of a message under another name.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use super::sources::SourceTree;
use crate::workspace::rust_files;

/// The folders of the programs that users run. Their crates are in these folders, or one level below.
const FOLDERS: [&str; 6] = ["apiserver", "cli", "controller", "feature-gates", "runtime", "webhook"];

/// Files that may read foreign text, because no code or reason exists.
///
/// The platform reports the answer of the server of an image only as text, and the reason
/// `MissingSourceArtifact` needs the status code in it. If the text changes, the import fails by its time
/// limit instead.
///
/// The API server says only in the message which webhook has refused a request. The plugin shortens such
/// messages for its user, and `doctor` recognizes the webhook of vmpool. If the text changes, the user reads
/// the whole message, and `doctor` reports that it does not know.
const EXEMPT: [&str; 2] = ["cli/src/explain.rs", "controller/diskimage/src/failure.rs"];

/// Methods that compare or search text.
const METHODS: [&str; 12] = [
    "contains",
    "ends_with",
    "eq",
    "eq_ignore_ascii_case",
    "find",
    "match_indices",
    "matches",
    "rfind",
    "split_once",
    "starts_with",
    "strip_prefix",
    "strip_suffix",
];

/// # Errors
/// A source cannot be read or is not Rust.
pub(super) fn find_foreign_text(tree: &SourceTree) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for file in program_sources(tree.root())? {
        let branches = find_branches(tree.source(&file)?.tokens.clone());
        let place = tree.relative_path(&file).display();
        found.extend(branches.into_iter().map(|branch| format!("{place}: {branch}")));
    }
    Ok(found)
}

/// The sources of the programs without their tests.
pub(super) fn program_sources(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        for sources in source_folders(&root.join(folder))? {
            files.extend(rust_files(&sources)?);
        }
    }
    let is_test = |file: &Path| {
        file.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "testing")))
            || file.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("tests"))
    };
    files.retain(|file| !(is_test(file) || EXEMPT.iter().any(|exempt| file.ends_with(exempt))));
    Ok(files)
}

/// The folders of sources of the crates in this folder, or one level below.
fn source_folders(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = vec![folder.join("src")];
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let crate_folder = entry?.path();
        if crate_folder.join("Cargo.toml").is_file() {
            folders.push(crate_folder.join("src"));
        }
    }
    folders.sort();
    Ok(folders)
}

/// The branches on foreign text in a source file, outside its tests.
fn find_branches(tokens: TokenStream) -> Vec<String> {
    let mut found = Vec::new();
    read(&tokens.into_iter().collect::<Vec<_>>(), &mut found);
    found
}

fn read(tokens: &[TokenTree], found: &mut Vec<String>) {
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if is_test_attribute(&tokens[at..]) {
            at = end_of_item(tokens, at + 2);
            continue;
        }
        if let TokenTree::Group(group) = token {
            read(&group.stream().into_iter().collect::<Vec<_>>(), found);
        }
        found.extend(search(tokens, at).or_else(|| comparison(tokens, at)));
        at += 1;
    }
}

/// A call such as `status.message.contains("denied")`, whose dot is at this position.
fn search(tokens: &[TokenTree], at: usize) -> Option<String> {
    let [TokenTree::Punct(dot), TokenTree::Ident(method), TokenTree::Group(arguments), ..] = &tokens[at..]
    else {
        return None;
    };
    let method = method.to_string();
    if dot.as_char() != '.' || !METHODS.contains(&&*method) || arguments.delimiter() != Delimiter::Parenthesis
    {
        return None;
    }
    let is_message = receiver(&tokens[..at]).is_some_and(|name| name == "message");
    let wanted = first(arguments)?;
    let is_phrase = wanted.starts_with('"') && has_phrase(&wanted);
    (is_message && is_fixed(&wanted) || is_phrase).then(|| format!(".{method}({wanted})"))
}

/// A comparison such as `message == "denied"`, whose operator is at this position.
fn comparison(tokens: &[TokenTree], at: usize) -> Option<String> {
    let [TokenTree::Punct(first), TokenTree::Punct(second), wanted, ..] = &tokens[at..] else { return None };
    let is_operator = matches!(first.as_char(), '=' | '!') && second.as_char() == '=';
    let is_message = receiver(&tokens[..at]).is_some_and(|name| name == "message");
    let wanted = wanted.to_string();
    (is_operator && is_message && wanted.starts_with('"')).then(|| format!("message == {wanted}"))
}

/// The last field or variable before a method call, without conversions such as `as_str()`.
fn receiver(before: &[TokenTree]) -> Option<String> {
    let mut rest = before;
    loop {
        match rest {
            [front @ .., TokenTree::Punct(dot), TokenTree::Ident(_), TokenTree::Group(call)]
                if dot.as_char() == '.' && call.delimiter() == Delimiter::Parenthesis =>
            {
                rest = front;
            }
            [front @ .., TokenTree::Punct(question)] if question.as_char() == '?' => rest = front,
            [.., TokenTree::Ident(name)] => return Some(name.to_string()),
            _ => return None,
        }
    }
}

fn first(arguments: &Group) -> Option<String> {
    let mut tokens = arguments.stream().into_iter().map(|token| token.to_string());
    let first = tokens.next()?;
    if first == "&" { tokens.next() } else { Some(first) }
}

/// Whether an argument is a literal or a constant.
fn is_fixed(argument: &str) -> bool {
    let is_constant = |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_';
    argument.starts_with(['"', '\'']) || argument.chars().all(is_constant)
}

/// Whether a literal contains two words of letters.
fn has_phrase(literal: &str) -> bool {
    let words = literal.trim_matches('"').split(' ');
    words.filter(|word| !word.is_empty() && word.chars().all(char::is_alphabetic)).count() > 1
}

fn is_test_attribute(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [TokenTree::Punct(hash), TokenTree::Group(attribute), ..]
        if hash.as_char() == '#' && attribute.stream().to_string().replace(' ', "") == "cfg(test)")
}

/// The position after the item that begins here.
fn end_of_item(tokens: &[TokenTree], from: usize) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        _ => false,
    };
    tokens[from..].iter().position(ends).map_or(tokens.len(), |end| from + end + 1)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::a_message(r#"if status.message.contains("denied") {}"#, &[r#".contains("denied")"#])]
    #[case::a_constant("if message.contains(WEBHOOK_FAILURE) {}", &[".contains(WEBHOOK_FAILURE)"])]
    #[case::converted(r#"x.message.as_deref().unwrap_or("").starts_with("No")"#, &[r#".starts_with("No")"#])]
    #[case::a_phrase(r#"lowercase.contains("manifest unknown")"#, &[r#".contains("manifest unknown")"#])]
    #[case::equality(r#"if message == "denied" {}"#, &[r#"message == "denied""#])]
    #[case::inside_a_macro(r#"matches!(e, Api(status) if status.message.contains("no"))"#, &[r#".contains("no")"#])]
    #[case::own_text("conditions.any(|condition| condition.message.contains(note))", &[])]
    #[case::a_word_of_a_field(r#"path.contains("spec")"#, &[])]
    #[case::a_reason(r#"if status.reason == "Conflict" {}"#, &[])]
    #[case::a_test(r#"#[cfg(test)] mod tests { fn a() { error.message.contains("x"); } }"#, &[])]
    fn a_branch_on_foreign_text_is_found(#[case] source: &str, #[case] expected: &[&str]) {
        let source = format!("fn f() {{ {source} }}");
        assert_eq!(find_branches(source.parse().unwrap()), expected);
    }
}
