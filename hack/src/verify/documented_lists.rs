//! Lists of code in the documentation, which must name exactly what the code has: the crates and what they
//! may use, the planners, the stages of apply, the traits of a platform, and the files that an extension
//! changes.
//!
//! Lists of flags, conditions, events, labels and metrics need the compiled programs, so the tests in
//! `e2e/tests/docs.rs` check them.

mod markdown;
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use self::markdown::{arrow_list, code_spans, first_column_names, numbered_doc_items, table_rows};
use self::source::{called_modules, enum_variants, public_traits};
use super::sources::SourceTree;
use super::{crate_boundaries, packages};
use crate::workspace::rust_files;

/// The page with the lists.
const ARCHITECTURE: &str = "docs/architecture.md";

/// The page about extensions, which names files.
const EXTENDING: &str = "docs/extending.md";

/// The module with the function that calls the planners. Its documentation lists them, too.
const PLAN: &str = "controller/engine/src/plan/mod.rs";

/// The function that calls the planners.
const PLAN_FUNCTION: &str = "plan_pass";

/// The file with the stages of apply.
const STAGES: &str = "controller/engine/src/plan/action.rs";

/// The enum of the stages of apply, in their order.
const STAGE_ENUM: &str = "ApplyStage";

/// The folder with the traits of a platform.
const TRAITS: &str = "controller/platform/src/platform";

/// Public traits without a row in the table of traits, each with the reason.
const TRAITS_WITHOUT_ROW: &[(&str, &str)] = &[
    ("ApiObject", "a name for the bounds of API objects; a platform implements nothing for it"),
    ("CopySource", "the objects that `TemplateCopies` lists: part of that trait"),
    ("CopySourceVisitor", "the caller of `TemplateCopies`, which the controller implements"),
];

/// Compares the lists of the documentation with the sources.
///
/// # Errors
/// A file cannot be read or is not Rust.
pub(super) fn find_outdated_lists(tree: &SourceTree) -> Result<Vec<String>> {
    let architecture = tree.text(ARCHITECTURE)?;
    let plan = tree.source(Path::new(PLAN))?;
    let called = called_modules(&plan.syntax, PLAN_FUNCTION);
    let stages = tree.source(Path::new(STAGES))?;
    let mut found = crate_table_differences(&architecture, &tree.metadata);
    found.extend(list_differences(
        &format!("the planners in {ARCHITECTURE}"),
        &first_column_names(&architecture, "Planner"),
        &called,
    ));
    found.extend(list_differences(
        &format!("the planners in the docs of {PLAN}"),
        &numbered_doc_items(&plan.text),
        &called,
    ));
    found.extend(list_differences(
        &format!("the stages of apply in {ARCHITECTURE}"),
        &arrow_list(&architecture, "├── apply"),
        &enum_variants(&stages.syntax, STAGE_ENUM),
    ));
    found.extend(trait_table_differences(&architecture, &platform_traits(tree)?));
    found.extend(missing_paths(tree.root(), &tree.text(EXTENDING)?));
    Ok(found)
}

/// The public traits of all platforms.
fn platform_traits(tree: &SourceTree) -> Result<Vec<String>> {
    let mut traits = Vec::new();
    for path in rust_files(&tree.root().join(TRAITS))? {
        traits.extend(public_traits(&tree.source(&path)?.syntax));
    }
    Ok(traits)
}

/// What is wrong with a list that must have exactly these names in this order.
fn list_differences(list: &str, documented: &[String], expected: &[String]) -> Vec<String> {
    let mut found = name_differences(list, documented, expected);
    if found.is_empty() && documented != expected {
        found.push(format!("{list} have another order than the code: {}", expected.join(", ")));
    }
    found
}

/// What is wrong with a list that must have exactly these names in any order.
fn name_differences(list: &str, documented: &[String], expected: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for name in documented {
        if !expected.contains(name) {
            found.push(format!("{list} contain {name}, which the code does not have"));
        } else if !seen.insert(name) {
            found.push(format!("{list} contain {name} twice"));
        }
    }
    let missing = expected.iter().filter(|name| !documented.contains(name));
    found.extend(missing.map(|name| format!("{list} lack {name}")));
    found
}

/// What is wrong with the table of traits.
fn trait_table_differences(page: &str, traits: &[String]) -> Vec<String> {
    let has_row = |name: &String| !TRAITS_WITHOUT_ROW.iter().any(|(exception, _)| exception == name);
    let expected: Vec<String> = traits.iter().filter(|name| has_row(name)).cloned().collect();
    let list = format!("the traits in {ARCHITECTURE}");
    let mut found = name_differences(&list, &first_column_names(page, "Trait"), &expected);
    let stale =
        TRAITS_WITHOUT_ROW.iter().filter(|(exception, _)| !traits.iter().any(|name| name == exception));
    found
        .extend(stale.map(|(exception, _)| format!("{exception} is an exception, but no trait in {TRAITS}")));
    found
}

/// What is wrong with the table of crates. For a crate with a rule, its last column lists what the rule
/// allows, and for another one the dependencies of its manifest.
fn crate_table_differences(page: &str, metadata: &Value) -> Vec<String> {
    let all = packages::json_list(metadata, "packages");
    let names: Vec<String> =
        all.iter().filter_map(|package| package["name"].as_str().map(str::to_owned)).collect();
    let rows = table_rows(page, "Folder");
    let documented: Vec<String> =
        rows.iter().filter_map(|row| row.get(1)).flat_map(|cell| code_spans(cell)).collect();
    let mut found = name_differences(&format!("the crates in {ARCHITECTURE}"), &documented, &names);
    for row in &rows {
        let [_, name, _, used] = row.as_slice() else {
            found.push(format!("a row of the crates in {ARCHITECTURE} has {} cells, and not 4", row.len()));
            continue;
        };
        for name in code_spans(name) {
            let allowed = crate_boundaries::allowed_crates(metadata, &name);
            let expected = allowed.unwrap_or_else(|| workspace_dependencies(all, &names, &name));
            let list = format!("the crates for {name} in {ARCHITECTURE}");
            found.extend(name_differences(&list, &code_spans(used), &expected));
            if expected.is_empty() && used != "none" {
                found.push(format!("{list} must be the word none"));
            }
        }
    }
    found
}

/// The normal dependencies of a package in its own workspace.
fn workspace_dependencies(all: &[Value], names: &[String], package: &str) -> Vec<String> {
    let dependencies = all
        .iter()
        .filter(|candidate| candidate["name"] == package)
        .flat_map(|candidate| packages::json_list(candidate, "dependencies"))
        .filter(|dependency| dependency["kind"].is_null())
        .filter_map(|dependency| dependency["name"].as_str());
    let ours: BTreeSet<&str> =
        dependencies.filter(|name| names.iter().any(|candidate| candidate == name)).collect();
    ours.into_iter().map(str::to_owned).collect()
}

/// The paths of a page that do not exist. A path begins with a folder of the repository.
fn missing_paths(root: &Path, page: &str) -> Vec<String> {
    let is_path = |text: &String| {
        let first = text.split('/').next().filter(|first| !first.is_empty() && first.len() < text.len());
        first.is_some_and(|first| root.join(first).is_dir())
    };
    let paths = page.lines().flat_map(code_spans).filter(is_path);
    let missing: BTreeSet<String> = paths.filter(|path| !root.join(path).exists()).collect();
    missing.into_iter().map(|path| format!("{EXTENDING} names {path}, which does not exist")).collect()
}
