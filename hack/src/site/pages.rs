//! The pages of the site: copies of the documentation whose links lead to the site or to the repository.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

/// The repository, to which links to other files lead.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// The table of contents, which names the files of the pages.
const SUMMARY: &str = "SUMMARY.md";

/// Copies a folder of pages.
///
/// # Errors
/// A file cannot be read or written.
pub(super) fn copy_pages(docs: &Path, target: &Path) -> Result<()> {
    copy_folder(docs, Path::new(""), target)
}

fn copy_folder(docs: &Path, below: &Path, target: &Path) -> Result<()> {
    let (from, to) = (docs.join(below), target.join(below));
    fs::create_dir_all(&to).with_context(|| format!("creating {}", to.display()))?;
    for entry in fs::read_dir(&from).with_context(|| format!("listing {}", from.display()))? {
        let name = entry.with_context(|| format!("listing {}", from.display()))?.file_name();
        let (source, path) = (from.join(&name), below.join(&name));
        if source.is_dir() {
            copy_folder(docs, &path, target)?;
        } else if source.extension().is_some_and(|extension| extension == "md") && name != SUMMARY {
            let text =
                fs::read_to_string(&source).with_context(|| format!("reading {}", source.display()))?;
            let text = rewrite_links(&text, |link| rewrite_link(docs, below, link));
            fs::write(to.join(&name), text).with_context(|| format!("writing {}", path.display()))?;
        } else {
            fs::copy(&source, to.join(&name)).with_context(|| format!("copying {}", source.display()))?;
        }
    }
    Ok(())
}

/// Replaces the targets of the links of a page. Links in code stay.
fn rewrite_links(text: &str, rewrite: impl Fn(&str) -> Option<String>) -> String {
    let mut rewritten = String::with_capacity(text.len());
    for (place, part) in text.split('`').enumerate() {
        if place > 0 {
            rewritten.push('`');
        }
        if place % 2 == 1 {
            rewritten.push_str(part);
            continue;
        }
        let mut pieces = part.split("](");
        rewritten.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            let (link, rest) = piece.split_once(')').unwrap_or((piece, ""));
            let end = if piece.contains(')') { ")" } else { "" };
            rewritten.push_str("](");
            rewritten.push_str(&rewrite(link).unwrap_or_else(|| link.to_owned()));
            rewritten.push_str(end);
            rewritten.push_str(rest);
        }
    }
    rewritten
}

/// Another link, if the site does not have the target: to the repository, for a file outside of the
/// documentation or a folder; to the index page that mdBook makes of a README.
fn rewrite_link(docs: &Path, below: &Path, link: &str) -> Option<String> {
    let target = link.split('#').next().filter(|target| !target.is_empty() && !target.contains(':'))?;
    let path = normalize_path(&Path::new("docs").join(below).join(target));
    let is_page = path.starts_with("docs");
    let is_folder = docs.parent()?.join(&path).is_dir();
    let anchor = &link[target.len()..];
    if is_page && !is_folder {
        return target.strip_suffix("README.md").map(|folder| format!("{folder}index.md{anchor}"));
    }
    let kind = if is_folder { "tree" } else { "blob" };
    Some(format!("{REPOSITORY}/{kind}/main/{}{anchor}", path.display()))
}

/// The path without `.` and `..`.
fn normalize_path(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::workspace::Workspace;

    #[rstest]
    #[case("", "pools.md#names", None)]
    #[case("reference", "../pools.md", None)]
    #[case("", "https://kubernetes.io", None)]
    #[case("", "#names", None)]
    #[case("", "../CONTRIBUTING.md#words", Some("REPOSITORY/blob/main/CONTRIBUTING.md#words"))]
    #[case("reference", "../../README.md", Some("REPOSITORY/blob/main/README.md"))]
    #[case("", "examples", Some("REPOSITORY/tree/main/docs/examples"))]
    #[case("", "reference/README.md#kubevirt", Some("reference/index.md#kubevirt"))]
    fn links_to_other_files_lead_to_the_repository(
        #[case] below: &str,
        #[case] link: &str,
        #[case] expected: Option<&str>,
    ) {
        let docs = Workspace::locate().unwrap().path("docs");
        let expected = expected.map(|link| link.replace("REPOSITORY", REPOSITORY));
        assert_eq!(rewrite_link(&docs, Path::new(below), link), expected);
    }

    #[test]
    fn the_table_of_contents_names_the_files() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let docs = from.path().join("docs");
        fs::create_dir(&docs).unwrap();
        for file in [SUMMARY, "a.md", "b.svg"] {
            fs::write(docs.join(file), "[A](reference/README.md)").unwrap();
        }
        copy_pages(&docs, to.path()).unwrap();
        let copied = |file: &str| fs::read_to_string(to.path().join(file)).unwrap();
        assert_eq!(copied(SUMMARY), "[A](reference/README.md)");
        assert_eq!(copied("a.md"), "[A](reference/index.md)");
        assert_eq!(copied("b.svg"), "[A](reference/README.md)");
    }

    #[test]
    fn links_in_code_stay() {
        let rewritten = rewrite_links("[a](x) `[b](x)` [c](x#y), [d](", |_| Some("z".to_owned()));
        assert_eq!(rewritten, "[a](z) `[b](x)` [c](z), [d](z");
    }
}
