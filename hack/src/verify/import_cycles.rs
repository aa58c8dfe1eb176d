//! Import cycles between the files of a crate. Modules have layers, and imports lead from higher to lower
//! layers, so there is no cycle.
//!
//! The check reads `use` declarations and the paths in code that begin with `crate`, `super`, `self`, a child
//! module or an imported name. It skips files and modules that exist in tests only. Three rules:
//!
//! * A path through a re-export counts as an import of the file that defines the item. The re-export itself
//!   (`pub use`) is an import only if the same file uses the name. So a `lib.rs` or `mod.rs` may list what
//!   its children offer.
//! * A parent and its child are two files like any others: the child may import the parent (`super::Item`),
//!   or the parent the child, and not both. Move what both need into a third file.
//! * Calls of methods are no imports, because they name no path. A path that only a macro of another crate
//!   generates is not detected.

mod cycles;
mod graph;
mod source;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::Value;

use self::graph::Imports;
use super::packages;
use super::sources::SourceTree;

/// # Errors
/// A source cannot be read or is not Rust.
pub(super) fn find_import_cycles(tree: &SourceTree) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (package, roots) in roots(&tree.metadata) {
        let mut components = Vec::new();
        for root in roots {
            components.extend(cyclic_imports(tree, &root)?);
        }
        found.extend(describe_cycles(&package, &components, tree));
    }
    Ok(found)
}

/// The root files of the library and the programs of each package.
fn roots(metadata: &Value) -> BTreeMap<String, Vec<PathBuf>> {
    let is_program = |target: &&Value| matches!(target["kind"][0].as_str(), Some("lib" | "bin"));
    packages::json_list(metadata, "packages")
        .iter()
        .filter_map(|package| {
            let targets = packages::json_list(package, "targets").iter().filter(is_program);
            let roots = targets.filter_map(|target| target["src_path"].as_str().map(PathBuf::from));
            Some((package["name"].as_str()?.to_owned(), roots.collect()))
        })
        .collect()
}

/// The groups of files that import each other, directly or indirectly, in the crate with this root file.
fn cyclic_imports(tree: &SourceTree, root: &Path) -> Result<Vec<Imports>> {
    let imports = graph::crate_imports(tree, root)?;
    Ok(cycles::cyclic_components(&imports))
}

/// The text for a package with cycles, with one cycle of each group.
fn describe_cycles(package: &str, components: &[Imports], tree: &SourceTree) -> Option<String> {
    if components.is_empty() {
        return None;
    }
    let files: usize = components.iter().map(Imports::len).sum();
    let mut lines = vec![format!("{package}: {files} files are in import cycles")];
    for component in components {
        let cycle = cycles::shortest_cycle(component);
        let name = |file: &PathBuf| tree.relative_path(file).display().to_string();
        lines.push(format!("    a cycle in a group of {} files:", component.len()));
        for (index, file) in cycle.iter().enumerate() {
            let next = &cycle[(index + 1) % cycle.len()];
            let path = component.get(file).and_then(|imports| imports.get(next)).map_or("", String::as_str);
            lines.push(format!("      {} imports {} ({path})", name(file), name(next)));
        }
    }
    Some(lines.join("\n"))
}

#[cfg(test)]
mod tests;
