//! Allowed dependencies between crates, and names that only the platforms may use.
//!
//! Dependencies point one way, and the engine can neither wait nor access a cluster. This check enforces it in the
//! manifests. Only normal dependencies count; dev-dependencies are not restricted. The module `names` checks the sources.

mod names;

use anyhow::{Result, bail};
use serde_json::Value;

use super::packages;
use crate::workspace::Workspace;

/// The restrictions of one crate.
#[derive(Debug)]
struct Wall {
    package: &'static str,
    /// Crates of this workspace that it may use.
    ours: &'static [&'static str],
    /// External crates that it must not use.
    barred: &'static [&'static str],
}

/// Clients, runtimes, clocks and sources of randomness.
const IMPURE: &[&str] = &[
    "async-std",
    "axum",
    "fastrand",
    "futures",
    "getrandom",
    "hyper",
    "kube",
    "kube-client",
    "kube-runtime",
    "rand",
    "reqwest",
    "rustix",
    "smol",
    "tokio",
    "uuid",
];

/// Crates of Kubernetes types and clients.
const KUBERNETES: &[&str] = &["k8s-openapi", "kube", "kube-client", "kube-core", "kube-runtime"];

/// Crates that a crate of pure object types must not use.
const CLIENTS: &[&str] = &["kube-client", "kube-runtime", "tokio"];

const WALLS: &[Wall] = &[
    Wall { package: "vmpool-api", ours: &[], barred: CLIENTS },
    Wall { package: "vmpool-feature-gates", ours: &[], barred: KUBERNETES },
    Wall { package: "vmpool-engine", ours: &["vmpool-api", "vmpool-feature-gates"], barred: IMPURE },
    // A platform translates, so it needs no client and no runtime.
    Wall {
        package: "vmpool-platforms",
        ours: &["vmpool-api", "vmpool-engine", "vmpool-instancetype"],
        barred: CLIENTS,
    },
    Wall { package: "vmpool-instancetype", ours: &["vmpool-api"], barred: IMPURE },
    Wall { package: "vmpool-diskimage", ours: &["vmpool-api"], barred: IMPURE },
    Wall { package: "vmpool-runtime", ours: &["vmpool-api", "vmpool-feature-gates"], barred: &[] },
    // The simulator verifies the controller, so it shares no code with it.
    Wall { package: "vmpool-simulator", ours: &["vmpool-api"], barred: &[] },
    // The test cluster can be used for any controller, so it knows nothing of vmpool.
    Wall { package: "vmpool-test-cluster", ours: &["vmpool-process-stat"], barred: &[] },
    Wall { package: "vmpool-process-stat", ours: &[], barred: IMPURE },
    // The invariants verify all programs, so they share only the API with them.
    Wall { package: "vmpool-invariants", ours: &["vmpool-api", "vmpool-test-cluster"], barred: &[] },
    Wall {
        package: "vmpool-controller",
        ours: &[
            "vmpool-api",
            "vmpool-diskimage",
            "vmpool-engine",
            "vmpool-feature-gates",
            "vmpool-platforms",
            "vmpool-runtime",
        ],
        barred: &[],
    },
    Wall {
        package: "vmpool-cli",
        ours: &[
            "vmpool-controller",
            "vmpool-diskimage",
            "vmpool-engine",
            "vmpool-platforms",
            "vmpool-runtime",
        ],
        barred: &[],
    },
    Wall {
        package: "vmpool-webhook",
        ours: &[
            "vmpool-api",
            "vmpool-diskimage",
            "vmpool-engine",
            "vmpool-feature-gates",
            "vmpool-platforms",
            "vmpool-runtime",
        ],
        barred: &[],
    },
    Wall {
        package: "vmpool-apiserver",
        ours: &["vmpool-api", "vmpool-engine", "vmpool-feature-gates", "vmpool-platforms", "vmpool-runtime"],
        barred: &[],
    },
];

/// # Errors
/// One error after all violations were listed.
pub(super) fn check(workspace: &Workspace) -> Result<()> {
    let mut found = breaches(&packages::metadata(workspace)?);
    found.extend(names::found(workspace.root())?);
    if found.is_empty() {
        return Ok(());
    }
    for line in &found {
        eprintln!("  {line}");
    }
    bail!("{} forbidden dependencies and names; hack/src/verify/walls.rs contains the rules", found.len())
}

/// The forbidden dependencies in a workspace's metadata.
pub(super) fn breaches(metadata: &Value) -> Vec<String> {
    let all = packages::list(metadata, "packages");
    let names: Vec<&str> = all.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut found = Vec::new();
    for wall in WALLS {
        let Some(package) = all.iter().find(|package| package["name"] == wall.package) else {
            found.push(format!("{} has a rule, but is not in the workspace", wall.package));
            continue;
        };
        let dependencies = packages::list(package, "dependencies");
        let normal = dependencies.iter().filter(|dependency| dependency["kind"].is_null());
        for name in normal.filter_map(|dependency| dependency["name"].as_str()) {
            if wall.barred.contains(&name) || (names.contains(&name) && !wall.ours.contains(&name)) {
                found.push(format!("{} must not depend on {name}", wall.package));
            }
        }
    }
    found
}
