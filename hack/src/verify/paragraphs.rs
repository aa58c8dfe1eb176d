//! Refuses long paragraphs on the pages of the documentation: a paragraph, or an item of a list, has at most
//! 80 words.
//!
//! Code in fences, tables and generated pages are not read.

#[cfg(test)]
mod tests;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::sources::SourceTree;

/// The most words of a paragraph.
const MOST_WORDS: usize = 80;

/// Where pages for readers are, from the root. Each folder is read without its subfolders: the pages in
/// `docs/reference` are generated.
const FOLDERS: &[&str] = &["", "docs", "charts/vmpool"];

/// A paragraph of a page.
#[derive(Debug, PartialEq, Eq)]
struct Paragraph {
    /// The number of its first line.
    line: usize,
    words: usize,
}

/// # Errors
/// A page cannot be read.
pub(super) fn find_long_paragraphs(tree: &SourceTree) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for page in list_pages(tree)? {
        let text = fs::read_to_string(&page).with_context(|| format!("reading {}", page.display()))?;
        let long = split_paragraphs(&text).into_iter().filter(|paragraph| paragraph.words > MOST_WORDS);
        let name = tree.relative_path(&page).display();
        found.extend(long.map(|Paragraph { line, words }| format!("{name}:{line}: {words} words")));
    }
    Ok(found)
}

fn list_pages(tree: &SourceTree) -> Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    for folder in FOLDERS.iter().map(|folder| tree.root().join(folder)) {
        let entries = fs::read_dir(&folder).with_context(|| format!("listing {}", folder.display()))?;
        let paths = entries.flatten().map(|entry| entry.path());
        pages.extend(paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    pages.sort();
    Ok(pages)
}

/// The paragraphs and the items of lists in a page. Headings, tables and code are left out.
fn split_paragraphs(page: &str) -> Vec<Paragraph> {
    let mut found: Vec<Paragraph> = Vec::new();
    let (mut is_fenced, mut is_open) = (false, false);
    for (number, line) in (1..).zip(page.lines().map(str::trim)) {
        let is_fence = line.starts_with("```");
        is_fenced ^= is_fence;
        if is_fence || is_fenced || ends_paragraph(line) {
            is_open = false;
            continue;
        }
        if !is_open || begins_item(line) {
            found.push(Paragraph { line: number, words: 0 });
        }
        is_open = true;
        if let Some(paragraph) = found.last_mut() {
            paragraph.words += line.split_whitespace().count();
        }
    }
    found
}

/// Whether a line is outside of paragraphs: an empty line, a heading or a row of a table.
fn ends_paragraph(line: &str) -> bool {
    line.is_empty() || line.starts_with(['#', '|'])
}

/// Whether a line begins an item of a list.
fn begins_item(line: &str) -> bool {
    let after_number = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    line.starts_with("- ")
        || line.starts_with("* ")
        || (after_number.len() < line.len() && after_number.starts_with(". "))
}
