//! Finds tests that never run: ignored ones, those of targets without tests, and files that no module
//! declares. Also finds packages that the build of the images would lack.
//!
//! It reads sources line by line, as rustfmt formats them, so it needs no parser.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::packages;
use crate::workspace::Workspace;

/// Folders of a package that hold Rust sources.
pub(super) const SOURCES: &[&str] = &["src", "tests", "examples", "benches"];

/// What an image build receives.
const DOCKERIGNORE: &str = ".dockerignore";

/// # Errors
/// One error after all problems were listed.
pub(crate) fn check_test_sources(workspace: &Workspace) -> Result<()> {
    let mut found = Vec::new();
    let sent = read(&workspace.path(DOCKERIGNORE))?;
    for Package { folder: package, roots, untested } in packages(workspace)? {
        let package_path = package.strip_prefix(workspace.root()).unwrap_or(&package);
        if !is_sent(&sent, package_path) {
            found.push(format!(
                "{}: {DOCKERIGNORE} excludes this package, so that cargo cannot read the workspace in an image build",
                package_path.display()
            ));
        }
        for file in declared_source_files(&untested)? {
            if has_tests(&read(&file)?) {
                found.push(format!("{}: tests of a target that does not run them", file.display()));
            }
        }
        let files = SOURCES
            .iter()
            .map(|folder| rust_files(&package.join(folder)))
            .collect::<Result<Vec<_>>>()?
            .concat();
        for file in &files {
            let text = read(file)?;
            found.extend(
                ignored_test_lines(&text)
                    .into_iter()
                    .map(|line| format!("{}:{line}: an ignored test", file.display())),
            );
        }
        let declared = declared_source_files(&roots)?;
        let lost = files.iter().filter(|file| !declared.contains(*file));
        found.extend(lost.map(|file| format!("{}: no module declares this file", file.display())));
    }
    if found.is_empty() {
        return Ok(());
    }
    for line in &found {
        eprintln!("  {line}");
    }
    bail!("{} places would be left out of the tests or of an image build", found.len())
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

fn packages(workspace: &Workspace) -> Result<Vec<Package>> {
    let metadata = packages::workspace_metadata(workspace)?;
    let path = |value: &Value| value.as_str().map(PathBuf::from);
    Ok(packages::json_list(&metadata, "packages")
        .iter()
        .filter_map(|package| {
            let folder = path(&package["manifest_path"])?.parent()?.to_owned();
            let targets = packages::json_list(package, "targets");
            let untested = targets.iter().filter(|target| match target["kind"][0].as_str() {
                Some("bin") => target["test"] == false,
                Some("test") => path(&target["src_path"]).is_some_and(|root| has_main(&root)),
                _ => false,
            });
            Some(Package {
                folder,
                roots: targets.iter().filter_map(|target| path(&target["src_path"])).collect(),
                untested: untested.filter_map(|target| path(&target["src_path"])).collect(),
            })
        })
        .collect())
}

/// Every Rust file below a folder, which may not exist. Nested packages are skipped: examples for external
/// users have their own manifests.
pub(super) fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        let path = entry.with_context(|| format!("listing {}", folder.display()))?.path();
        if path.join("Cargo.toml").is_file() {
            continue;
        }
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The root files and all files that they declare, directly or indirectly.
pub(super) fn declared_source_files(roots: &[PathBuf]) -> Result<BTreeSet<PathBuf>> {
    let mut declared = BTreeSet::new();
    let mut open: Vec<(PathBuf, bool)> = roots.iter().map(|root| (root.clone(), true)).collect();
    while let Some((file, is_root)) = open.pop() {
        if !declared.insert(file.clone()) {
            continue;
        }
        let parent = file.parent().unwrap_or(Path::new(""));
        // Modules of `main.rs`, `lib.rs` and `mod.rs` are in the same folder, those of other files in a
        // folder with the file's name.
        let own = is_root || file.file_name().is_some_and(|name| name == "mod.rs");
        let folder = if own { parent.to_owned() } else { file.with_extension("") };
        for module in declared_modules(&read(&file)?) {
            let places = match &module {
                ModuleLocation::Named(name) => {
                    vec![folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs")]
                }
                ModuleLocation::At(path) => vec![parent.join(path)],
            };
            open.extend(places.into_iter().filter(|place| place.is_file()).map(|place| (place, false)));
        }
    }
    Ok(declared)
}

/// A module in another file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ModuleLocation {
    /// `mod name;`
    Named(String),
    /// `#[path = "..."] mod name;`
    At(String),
}

/// The modules that a file declares.
pub(super) fn declared_modules(text: &str) -> Vec<ModuleLocation> {
    let mut path = None;
    let mut modules = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(value) = line.strip_prefix("#[path = \"").and_then(|rest| rest.strip_suffix("\"]")) {
            path = Some(value.to_owned());
            continue;
        }
        if line.starts_with("#[") {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = match words.as_slice() {
            ["mod", name, ..] | [_, "mod", name, ..] | [_, _, "mod", name, ..] => name.strip_suffix(';'),
            _ => None,
        };
        let attribute = path.take();
        if let Some(name) = name.filter(|_| !line.starts_with("//")) {
            modules
                .push(attribute.map_or_else(|| ModuleLocation::Named(name.to_owned()), ModuleLocation::At));
        }
    }
    modules
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
fn has_main(root: &Path) -> bool {
    fs::read_to_string(root).is_ok_and(|text| text.lines().any(|line| line.starts_with("fn main(")))
}

/// Whether the text contains tests.
pub(super) fn has_tests(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .any(|line| line == "#[test]" || line == "#[rstest]" || line.starts_with("#[tokio::test"))
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))
}
