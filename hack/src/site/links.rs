//! The links of the built site.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Links of pages to files or headings that do not exist.
///
/// # Errors
/// A page cannot be read.
pub(super) fn find_broken_links(book: &Path) -> Result<Vec<String>> {
    let book = book.canonicalize().with_context(|| format!("finding {}", book.display()))?;
    let mut pages = BTreeMap::new();
    read_pages(&book, &mut pages)?;
    let mut broken = Vec::new();
    for (page, text) in &pages {
        // It has all pages in one, with links that begin at another place.
        if page.ends_with("print.html") {
            continue;
        }
        let dead =
            attribute_values(text, "href").into_iter().filter(|link| !leads_somewhere(&pages, page, link));
        let shown = page.strip_prefix(&book).unwrap_or(page);
        broken.extend(dead.map(|link| format!("{}: {link}", shown.display())));
    }
    Ok(broken)
}

fn read_pages(folder: &Path, pages: &mut BTreeMap<PathBuf, String>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        let path = entry.with_context(|| format!("listing {}", folder.display()))?.path();
        if path.is_dir() {
            read_pages(&path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "html") {
            let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            pages.insert(path, text);
        }
    }
    Ok(())
}

/// The values of an attribute, as the page writes them.
fn attribute_values<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let begin = format!(" {name}=\"");
    page.split(&begin).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

fn leads_somewhere(pages: &BTreeMap<PathBuf, String>, page: &Path, link: &str) -> bool {
    // Other sites, and the root of the site on the page for missing pages.
    if link.contains(':') || link.starts_with('/') {
        return true;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let Some(folder) = page.parent() else { return false };
    let target = if file.is_empty() { page.to_owned() } else { folder.join(file) };
    let Ok(target) = target.canonicalize() else { return false };
    match pages.get(&target) {
        Some(text) => anchor.is_empty() || attribute_values(text, "id").contains(&anchor),
        None => target.is_file(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_missing_files_and_headings_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write(
            "a.html",
            r##"<a href="b.html#x"> <a href="b.html#y"> <a href="c.html"> <a href="https://a"> <a href="#z">"##,
        );
        write("b.html", r#"<h2 id="x">"#);
        let broken = find_broken_links(folder.path()).unwrap();
        assert_eq!(broken, ["a.html: b.html#y", "a.html: c.html", "a.html: #z"]);
    }
}
