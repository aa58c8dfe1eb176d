//! Refuses words that hide the actor of a sentence, in all texts for users and developers.
//!
//! It reads the prose of the tree: Markdown, comments of Rust, and the complete text of YAML files, chart
//! templates, dashboards and build files. Code in backticks is not prose. CONTRIBUTING.md has the rule for
//! writers.

mod text;

#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use self::text::{Syntax, extract_prose};
use super::sources::SourceTree;

/// The refused words and phrases, in lower case. Each stands where a sentence must name a component, an
/// object or a user.
pub(super) const REFUSED: &[&str] =
    &["nobody", "somebody", "anybody", "everybody", "whoever", "whomever", "whom", "everything that"];

/// Folders that contain no text of the project.
const SKIPPED: &[&str] = &[".git", "target"];

/// Checks the prose of all files.
///
/// # Errors
/// A file cannot be read.
pub(super) fn find_refused_words(tree: &SourceTree) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for path in files(tree.root())? {
        let relative = tree.relative_path(&path);
        let Some(syntax) = Syntax::of(relative) else { continue };
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let read_tokens = || Ok(tree.source(&path)?.tokens.clone());
        let prose = extract_prose(syntax, &text, read_tokens)
            .with_context(|| format!("reading {}", path.display()))?;
        let refused = refused(&prose);
        found.extend(refused.iter().map(|(line, word)| format!("{}:{line}: {word:?}", relative.display())));
    }
    Ok(found)
}

/// All files below a folder, in the order of their names.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        let entry = entry.with_context(|| format!("listing {}", folder.display()))?;
        let kind =
            entry.file_type().with_context(|| format!("reading the type of {}", entry.path().display()))?;
        if kind.is_file() {
            found.push(entry.path());
        } else if kind.is_dir() && !SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
            found.extend(files(&entry.path())?);
        }
    }
    found.sort();
    Ok(found)
}

/// The refused words in a text, with the numbers of their lines.
fn refused(prose: &str) -> Vec<(usize, &'static str)> {
    let words = words(prose);
    let mut found = Vec::new();
    for (index, first) in words.iter().enumerate() {
        let phrase = REFUSED.iter().find(|phrase| {
            let mut expected = phrase.split(' ').enumerate();
            expected.all(|(offset, part)| {
                let word = words.get(index + offset);
                word.is_some_and(|word| word.text == part && (offset == 0 || word.follows))
            })
        });
        found.extend(phrase.map(|phrase| (first.line, *phrase)));
    }
    found
}

/// One word of a text.
#[derive(Debug, PartialEq, Eq)]
struct Word {
    /// In lower case.
    text: String,
    line: usize,
    /// Whether only white space is between this word and the one before it.
    follows: bool,
}

/// The words of a text. An identifier with underscores is one word.
fn words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let (mut line, mut follows, mut is_open) = (1, false, false);
    for letter in text.chars() {
        if letter.is_alphanumeric() || letter == '_' {
            if !is_open {
                words.push(Word { text: String::new(), line, follows });
                (is_open, follows) = (true, true);
            }
            if let Some(word) = words.last_mut() {
                word.text.extend(letter.to_lowercase());
            }
            continue;
        }
        is_open = false;
        follows &= letter.is_whitespace();
        line += usize::from(letter == '\n');
    }
    words
}
