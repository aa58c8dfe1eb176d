//! Refuses names and signatures that do not tell what they are where they stand alone: in a stack trace, in
//! the result of a search, in a diff.

mod rules;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use self::rules::{Finding, SourceScope, VisibleType, inspect_source};
use super::sources::{SourceTree, package_files};

/// The top folders of packages that are not part of a product: functions of one word and errors without a
/// source are allowed there.
const TOOLS: &[&str] = &["e2e", "fuzz", "hack"];

/// Files that a program writes.
const GENERATED: &str = "api/src/generated";

/// Names that several visible types may have, each with the reason.
const SHARED_TYPE_NAMES: &[(&str, &str)] = &[
    ("Error", "the error of a crate or module, as in the standard library"),
    ("K3sServer", "two variants for two configurations of a build"),
    ("MachineTemplate", "public API, in the module of its platform"),
    ("TemplateMetadata", "public API, in the module of its platform"),
];

/// Checks all Rust sources of the workspace.
///
/// # Errors
/// A source cannot be read or is not Rust.
pub(super) fn find_unclear_signatures(tree: &SourceTree) -> Result<Vec<String>> {
    let files: Result<Vec<_>> = tree.package_folders().map(package_files).collect();
    let mut found = Vec::new();
    let mut types: BTreeMap<String, Vec<VisibleType>> = BTreeMap::new();
    for path in files?.concat() {
        let relative = tree.relative_path(&path);
        if relative.starts_with(GENERATED) {
            continue;
        }
        let source = tree.source(&path)?;
        let inspected = inspect_source(&source.syntax, &source.text, rule_scope(relative));
        found.extend(inspected.findings.iter().map(|finding| located_finding(relative, finding)));
        for visible in inspected.types {
            let visible = VisibleType { file: relative.to_owned(), ..visible };
            types.entry(visible.name.clone()).or_default().push(visible);
        }
    }
    found.extend(shared_type_names(&types));
    Ok(found)
}

fn located_finding(file: &Path, finding: &Finding) -> String {
    format!("{}:{}: {}", file.display(), finding.line, finding.what)
}

/// Which rules apply to a file.
fn rule_scope(file: &Path) -> SourceScope {
    let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
    let is_tool = parts.first().is_some_and(|first| TOOLS.contains(&&**first));
    let is_test = parts.iter().any(|part| {
        let part = part.trim_end_matches(".rs");
        ["tests", "testing", "simulation", "fixtures", "laws", "examples", "benches"].contains(&part)
            || part.ends_with("_tests")
    });
    if is_tool || is_test { SourceScope::Test } else { SourceScope::Product }
}

/// The type names that several visible types have.
fn shared_type_names(types: &BTreeMap<String, Vec<VisibleType>>) -> Vec<String> {
    let shared = types.iter().filter(|(name, places)| {
        places.len() > 1 && !SHARED_TYPE_NAMES.iter().any(|(allowed, _)| allowed == name)
    });
    let list = |places: &[VisibleType]| {
        let places: Vec<String> =
            places.iter().map(|place| format!("{}:{}", place.file.display(), place.line)).collect();
        places.join(", ")
    };
    shared.map(|(name, places)| format!("several types have the name {name}: {}", list(places))).collect()
}
