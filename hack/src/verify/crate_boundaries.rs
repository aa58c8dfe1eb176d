//! Allowed dependencies between crates, and names that only the platforms may use.
//!
//! Dependencies point one way, and the engine can neither wait nor access a cluster. This check enforces it
//! in the manifests. Only normal dependencies count; dev-dependencies are not restricted. The module `names`
//! checks the sources, and `registry` that each platform is registered.

mod names;
mod registry;

use anyhow::Result;
use serde_json::Value;

use super::packages;
use super::sources::SourceTree;

/// The restrictions of one crate.
#[derive(Debug)]
pub(super) struct CrateBoundary {
    pub(super) package: &'static str,
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

pub(super) const WALLS: &[CrateBoundary] = &[
    CrateBoundary { package: "vmpool-api", ours: &[], barred: CLIENTS },
    CrateBoundary { package: "vmpool-feature-gates", ours: &[], barred: KUBERNETES },
    CrateBoundary { package: "vmpool-decision", ours: &[], barred: IMPURE },
    CrateBoundary {
        package: "vmpool-engine",
        ours: &["vmpool-api", "vmpool-decision", "vmpool-feature-gates"],
        barred: IMPURE,
    },
    // A platform translates, so it needs no client and no runtime. It does not know other platforms.
    CrateBoundary {
        package: "vmpool-platform",
        ours: &["vmpool-api", "vmpool-decision", "vmpool-engine"],
        barred: CLIENTS,
    },
    CrateBoundary {
        package: "vmpool-dvp",
        ours: &["vmpool-api", "vmpool-engine", "vmpool-platform"],
        barred: CLIENTS,
    },
    CrateBoundary {
        package: "vmpool-kubevirt",
        ours: &["vmpool-api", "vmpool-decision", "vmpool-engine", "vmpool-instancetype", "vmpool-platform"],
        barred: CLIENTS,
    },
    // Only the registry names the platforms, and programs use them through it.
    CrateBoundary {
        package: "vmpool-platforms",
        ours: &["vmpool-dvp", "vmpool-engine", "vmpool-instancetype", "vmpool-kubevirt", "vmpool-platform"],
        barred: CLIENTS,
    },
    // The kit serves any controller, so it knows no pools, images or platforms.
    CrateBoundary { package: "vmpool-kit", ours: &["vmpool-api", "vmpool-runtime"], barred: &[] },
    CrateBoundary {
        package: "vmpool-instancetype",
        ours: &["vmpool-api", "vmpool-decision", "vmpool-engine", "vmpool-platform"],
        barred: CLIENTS,
    },
    CrateBoundary { package: "vmpool-diskimage", ours: &["vmpool-api", "vmpool-decision"], barred: IMPURE },
    CrateBoundary { package: "vmpool-autoscaler", ours: &["vmpool-api"], barred: IMPURE },
    CrateBoundary { package: "vmpool-runtime", ours: &["vmpool-api", "vmpool-feature-gates"], barred: &[] },
    // The simulator verifies the controller, so it shares no code with it.
    CrateBoundary { package: "vmpool-simulator", ours: &["vmpool-api"], barred: &[] },
    // The test cluster can be used for any controller, so it knows nothing of vmpool.
    CrateBoundary {
        package: "vmpool-test-cluster",
        ours: &["vmpool-image-archive", "vmpool-process-stat"],
        barred: &[],
    },
    CrateBoundary { package: "vmpool-image-archive", ours: &[], barred: IMPURE },
    CrateBoundary { package: "vmpool-process-stat", ours: &[], barred: IMPURE },
    // The invariants verify all programs, so they share only the API with them.
    CrateBoundary { package: "vmpool-invariants", ours: &["vmpool-api", "vmpool-test-cluster"], barred: &[] },
    CrateBoundary {
        package: "vmpool-controller",
        ours: &[
            "vmpool-api",
            "vmpool-autoscaler",
            "vmpool-decision",
            "vmpool-diskimage",
            "vmpool-engine",
            "vmpool-feature-gates",
            "vmpool-kit",
            "vmpool-platforms",
            "vmpool-runtime",
        ],
        barred: &[],
    },
    CrateBoundary {
        package: "vmpool-cli",
        ours: &[
            "vmpool-api",
            "vmpool-autoscaler",
            "vmpool-controller",
            "vmpool-diskimage",
            "vmpool-engine",
            "vmpool-platforms",
            "vmpool-runtime",
        ],
        barred: &[],
    },
    CrateBoundary {
        package: "vmpool-webhook",
        ours: &[
            "vmpool-api",
            "vmpool-autoscaler",
            "vmpool-decision",
            "vmpool-diskimage",
            "vmpool-engine",
            "vmpool-feature-gates",
            "vmpool-platforms",
            "vmpool-runtime",
        ],
        barred: &[],
    },
    CrateBoundary {
        package: "vmpool-apiserver",
        ours: &[
            "vmpool-api",
            "vmpool-autoscaler",
            "vmpool-engine",
            "vmpool-feature-gates",
            "vmpool-platforms",
            "vmpool-runtime",
        ],
        barred: &[],
    },
];

/// # Errors
/// A source cannot be read or is not Rust.
pub(super) fn find_crossed_boundaries(tree: &SourceTree) -> Result<Vec<String>> {
    let mut found = forbidden_dependencies(&tree.metadata);
    found.extend(registry::unlisted_platforms(&tree.metadata, &tree.text(registry::TABLE)?));
    found.extend(names::find_platform_names(tree)?);
    Ok(found)
}

/// The crates of this workspace that a crate may use; `None` if it has no rule.
pub(super) fn allowed_crates(package: &str) -> Option<Vec<String>> {
    let wall = WALLS.iter().find(|wall| wall.package == package)?;
    Some(wall.ours.iter().map(ToString::to_string).collect())
}

/// The forbidden dependencies in a workspace's metadata.
pub(super) fn forbidden_dependencies(metadata: &Value) -> Vec<String> {
    let all = packages::json_list(metadata, "packages");
    let names: Vec<&str> = all.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut found = Vec::new();
    for wall in WALLS {
        let Some(package) = all.iter().find(|package| package["name"] == wall.package) else {
            found.push(format!("{} has a rule, but is not in the workspace", wall.package));
            continue;
        };
        let dependencies = packages::json_list(package, "dependencies");
        let normal = dependencies.iter().filter(|dependency| dependency["kind"].is_null());
        for name in normal.filter_map(|dependency| dependency["name"].as_str()) {
            if wall.barred.contains(&name) || (names.contains(&name) && !wall.ours.contains(&name)) {
                found.push(format!("{} must not depend on {name}", wall.package));
            }
        }
    }
    found
}
