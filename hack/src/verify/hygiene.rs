//! Finds tests that never run: ignored ones, those of targets without tests, and files that no module
//! declares. Also finds packages that the build of the images would lack.
//!
//! It reads attributes line by line, as rustfmt formats them: examples in comments count, too.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Result;
use syn::{File, Item};

use super::packages;
use super::sources::{SourceTree, declared_modules, package_files};

/// What an image build receives.
const DOCKERIGNORE: &str = ".dockerignore";

/// # Errors
/// A source cannot be read or is not Rust.
pub(super) fn find_unused_sources(tree: &SourceTree) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let sent = tree.text(DOCKERIGNORE)?;
    for Package { folder: package, roots, untested } in read_packages(tree)? {
        let package_path = tree.relative_path(&package);
        if !is_sent(&sent, package_path) {
            found.push(format!(
                "{}: {DOCKERIGNORE} excludes this package, so that cargo cannot read the workspace in an image build",
                package_path.display()
            ));
        }
        for file in declared_source_files(tree, &untested)? {
            if has_tests(&tree.source(&file)?.text) {
                found.push(format!("{}: tests of a target that does not run them", file.display()));
            }
        }
        let declared = declared_source_files(tree, &roots)?;
        for file in package_files(&package)? {
            let lines = ignored_test_lines(&tree.source(&file)?.text);
            found.extend(lines.iter().map(|line| format!("{}:{line}: an ignored test", file.display())));
            if !declared.contains(&file) {
                found.push(format!("{}: no module declares this file", file.display()));
            }
        }
    }
    Ok(found)
}

/// Whether the exceptions of an ignore file that excludes everything name the top folder of this path.
fn is_sent(ignore_file: &str, path: &Path) -> bool {
    let top = path.components().next().map(|top| top.as_os_str().to_string_lossy());
    top.is_some_and(|top| ignore_file.lines().any(|line| line.strip_prefix('!') == Some(&*top)))
}

/// A package of the workspace.
struct Package {
    folder: PathBuf,
    /// The root files of its targets.
    roots: Vec<PathBuf>,
    /// The root files of targets that ignore the attribute `#[test]`: programs with `test = false`, and tests
    /// with a runner of their own.
    untested: Vec<PathBuf>,
}

fn read_packages(tree: &SourceTree) -> Result<Vec<Package>> {
    let mut found = Vec::new();
    let folders = tree.package_folders().map(Path::to_owned);
    for (package, folder) in packages::json_list(&tree.metadata, "packages").iter().zip(folders) {
        let (mut roots, mut untested) = (Vec::new(), Vec::new());
        for target in packages::json_list(package, "targets") {
            let Some(root) = target["src_path"].as_str().map(PathBuf::from) else { continue };
            let is_untested = match target["kind"][0].as_str() {
                Some("bin") => target["test"] == false,
                Some("test") => has_main(&tree.source(&root)?.syntax),
                _ => false,
            };
            untested.extend(is_untested.then(|| root.clone()));
            roots.push(root);
        }
        found.push(Package { folder, roots, untested });
    }
    Ok(found)
}

/// The root files and all files that they declare, directly or indirectly.
pub(super) fn declared_source_files(tree: &SourceTree, roots: &[PathBuf]) -> Result<BTreeSet<PathBuf>> {
    let mut declared = BTreeSet::new();
    let mut open: Vec<(PathBuf, bool)> = roots.iter().map(|root| (root.clone(), true)).collect();
    while let Some((file, is_root)) = open.pop() {
        let modules = declared_modules(&tree.source(&file)?.syntax);
        let places = modules.iter().filter_map(|module| module.locate(&file, is_root));
        open.extend(places.filter(|place| !declared.contains(place)).map(|place| (place, false)));
        declared.insert(file);
    }
    Ok(declared)
}

/// The line numbers of ignored tests: by attribute, or in the header of a documentation example.
pub(super) fn ignored_test_lines(text: &str) -> Vec<usize> {
    let ignores = |line: &str| {
        let attribute =
            line.starts_with("#[ignore") || (line.starts_with("#[cfg_attr(") && line.contains(", ignore"));
        let example = ["/// ```", "//! ```"]
            .iter()
            .filter_map(|fence| line.strip_prefix(fence))
            .any(|head| head.contains("ignore"));
        attribute || example
    };
    text.lines().enumerate().filter(|(_, line)| ignores(line.trim())).map(|(index, _)| index + 1).collect()
}

/// Whether a test target has a main function, which only one with a runner of its own can have.
fn has_main(root: &File) -> bool {
    root.items.iter().any(|item| matches!(item, Item::Fn(function) if function.sig.ident == "main"))
}

/// Whether the text contains tests.
pub(super) fn has_tests(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .any(|line| line == "#[test]" || line == "#[rstest]" || line.starts_with("#[tokio::test"))
}
