//! What the documentation as a site needs: a table of contents with each page, and messages on the page about
//! troubleshooting that the programs really write.
//!
//! A message is the first column of a table with the title `Message`, in backticks. `...` stands for names
//! and numbers. Each part between them must be in one string of the programs.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};
use syn::LitStr;

use super::foreign_text::program_sources;
use super::sources::SourceTree;

/// The table of contents.
const SUMMARY: &str = "docs/SUMMARY.md";

/// The page with messages.
const TROUBLESHOOTING: &str = "docs/troubleshooting.md";

/// The title of the column with messages. Tables of messages of Kubernetes have another one.
const TITLE: &str = "Message";

/// # Errors
/// A file cannot be read or is not Rust.
pub(super) fn find_problems_of_book(tree: &SourceTree) -> Result<Vec<String>> {
    let docs = tree.root().join("docs");
    let mut found = missing_pages(&tree.text(SUMMARY)?, &page_paths(&docs, Path::new(""))?);
    let mut strings = Vec::new();
    for file in program_sources(tree.root())? {
        collect_strings(tree.source(&file)?.tokens.clone(), &mut strings);
    }
    found.extend(unknown_messages(&tree.text(TROUBLESHOOTING)?, &strings));
    Ok(found)
}

/// The pages below a folder, as paths from `docs`.
fn page_paths(docs: &Path, below: &Path) -> Result<BTreeSet<String>> {
    let folder = docs.join(below);
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("listing {}", folder.display()))? {
        let name = entry.with_context(|| format!("listing {}", folder.display()))?.file_name();
        let path = below.join(&name);
        if docs.join(&path).is_dir() {
            found.extend(page_paths(docs, &path)?);
        } else if path.extension().is_some_and(|extension| extension == "md") && name != "SUMMARY.md" {
            found.insert(path.to_string_lossy().into_owned());
        }
    }
    Ok(found)
}

/// Pages that the table of contents lacks, and entries without a page.
fn missing_pages(summary: &str, pages: &BTreeSet<String>) -> Vec<String> {
    let listed: BTreeSet<String> =
        summary.split("](").skip(1).filter_map(|rest| rest.split(')').next()).map(str::to_owned).collect();
    let lacking = pages.difference(&listed).map(|page| format!("{SUMMARY} lacks {page}"));
    let dead = listed.difference(pages).map(|page| format!("{SUMMARY} has {page}, which does not exist"));
    lacking.chain(dead).collect()
}

/// The strings of a source, also those in macros.
fn collect_strings(tokens: TokenStream, strings: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => collect_strings(group.stream(), strings),
            TokenTree::Literal(literal) => {
                let text = syn::parse_str::<LitStr>(&literal.to_string());
                strings.extend(text.ok().map(|text| text.value()));
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

/// Messages of which a part is in no string.
fn unknown_messages(page: &str, strings: &[String]) -> Vec<String> {
    let is_known = |part: &str| strings.iter().any(|text| text.contains(part));
    let messages = quoted_messages(page);
    let unknown =
        messages.iter().filter(|message| message.split("...").map(str::trim).any(|part| !is_known(part)));
    unknown.map(|message| format!("{TROUBLESHOOTING}: no program writes {message:?}")).collect()
}

/// The messages in the tables of a page.
fn quoted_messages(page: &str) -> Vec<&str> {
    let mut is_wanted = false;
    let mut messages = Vec::new();
    for row in page.lines() {
        let Some(first) = row.strip_prefix("| ").and_then(|row| row.split(" |").next()) else {
            is_wanted = false;
            continue;
        };
        if first == TITLE {
            is_wanted = true;
        } else if is_wanted && let Some(message) = first.strip_prefix('`') {
            messages.push(message.trim_end_matches('`'));
        }
    }
    messages
}
