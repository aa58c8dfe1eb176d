//! The lists in `deny.toml`, checked with `cargo metadata`: licenses, sources, banned crates and wildcards.
//!
//! cargo-deny checks the same, and more, but it takes long to build, and the advisories need the network.
//! `make audit` runs it.

mod license;

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use super::packages::json_list;
use crate::workspace::{Workspace, command_output};

/// The only source of crates besides the workspace, as cargo names it.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The parts of `deny.toml` that this check reads.
#[derive(Debug, Deserialize)]
struct Policy {
    graph: Graph,
    licenses: Licenses,
    bans: Bans,
}

#[derive(Debug, Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Debug, Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    /// The crates that may use it.
    #[serde(default)]
    wrappers: BTreeSet<String>,
    reason: String,
}

/// # Errors
/// `deny.toml` cannot be read, or cargo cannot resolve the dependencies.
pub(super) fn find_refused_dependencies(workspace: &Workspace) -> Result<Vec<String>> {
    let text = fs::read_to_string(workspace.path("deny.toml")).context("reading deny.toml")?;
    let policy: Policy = toml::from_str(&text).context("reading deny.toml")?;
    let mut command = workspace.cargo();
    command.args(["metadata", "--locked", "--all-features", "--format-version", "1"]);
    for target in &policy.graph.targets {
        command.args(["--filter-platform", target]);
    }
    let metadata = command_output(&mut command, "cargo metadata")?;
    let metadata = serde_json::from_slice(&metadata).context("reading cargo metadata")?;
    Ok(violations(&policy, &metadata))
}

/// What the packages of a workspace violate.
fn violations(policy: &Policy, metadata: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for package in json_list(metadata, "packages") {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let shown = format!("{} {}", text("name"), text("version"));
        // Members of the workspace have no source.
        let Some(source) = package["source"].as_str() else {
            let wild = json_list(package, "dependencies")
                .iter()
                .filter(|used| used["req"] == "*" && used["path"].is_null());
            let names = wild.filter_map(|used| used["name"].as_str());
            found.extend(names.map(|name| format!("{shown}: the dependency {name} has no version")));
            continue;
        };
        if source != REGISTRY {
            found.push(format!("{shown}: comes from {source}"));
        }
        match package["license"].as_str() {
            None => found.push(format!("{shown}: has no license")),
            Some(license) if license::is_allowed(license, &policy.licenses.allow) => {}
            Some(license) => found.push(format!("{shown}: the license is {license}")),
        }
        for ban in policy.bans.deny.iter().filter(|ban| ban.name == text("name")) {
            let users = users(metadata, text("id"));
            let others: Vec<_> = users.into_iter().filter(|user| !ban.wrappers.contains(*user)).collect();
            if !others.is_empty() {
                found.push(format!("{shown}: {} must not use it: {}", others.join(", "), ban.reason));
            }
        }
    }
    found
}

/// The names of the packages that depend on the one with this id.
fn users<'a>(metadata: &'a Value, id: &str) -> BTreeSet<&'a str> {
    let uses = |node: &&Value| json_list(node, "dependencies").iter().any(|used| used == id);
    let users: BTreeSet<&str> = json_list(&metadata["resolve"], "nodes")
        .iter()
        .filter(uses)
        .filter_map(|node| node["id"].as_str())
        .collect();
    let packages = json_list(metadata, "packages").iter();
    let named = packages.filter(|package| package["id"].as_str().is_some_and(|id| users.contains(id)));
    named.filter_map(|package| package["name"].as_str()).collect()
}

#[cfg(test)]
mod tests;
