//! The output of `cargo metadata`.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::workspace::{Workspace, command_output};

/// The workspace's own packages, as `cargo metadata` describes them.
///
/// # Errors
/// Cargo cannot be started or cannot read a manifest.
pub(super) fn workspace_metadata(workspace: &Workspace) -> Result<Value> {
    let mut command = workspace.cargo();
    command.args(["metadata", "--no-deps", "--format-version", "1"]);
    serde_json::from_slice(&command_output(&mut command, "cargo metadata")?).context("reading cargo metadata")
}

/// The names of the tested targets of a kind, such as `test` or `bin`.
pub(super) fn tested_target_names(metadata: &Value, kind: &str) -> BTreeSet<String> {
    let targets = json_list(metadata, "packages").iter().flat_map(|package| json_list(package, "targets"));
    let tested = targets.filter(|target| target["test"] == true && target["kind"][0] == kind);
    tested.filter_map(|target| target["name"].as_str().map(str::to_owned)).collect()
}

/// The list under a key.
pub(super) fn json_list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}
