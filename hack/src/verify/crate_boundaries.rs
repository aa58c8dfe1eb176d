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

/// The crates that a platform may use. It translates, so it needs no client and no runtime. It does not know
/// other platforms.
const USED_BY_PLATFORMS: &[&str] =
    &["vmpool-api", "vmpool-decision", "vmpool-engine", "vmpool-instancetype", registry::INTERFACE];

/// The crates with rules of their own. All platforms have [`USED_BY_PLATFORMS`].
pub(super) const WALLS: &[CrateBoundary] = &[
    CrateBoundary { package: "vmpool-api", ours: &[], barred: CLIENTS },
    CrateBoundary { package: "vmpool-feature-gates", ours: &[], barred: KUBERNETES },
    CrateBoundary { package: "vmpool-decision", ours: &[], barred: IMPURE },
    CrateBoundary {
        package: "vmpool-engine",
        ours: &["vmpool-api", "vmpool-decision", "vmpool-feature-gates"],
        barred: IMPURE,
    },
    CrateBoundary {
        package: "vmpool-platform",
        ours: &["vmpool-api", "vmpool-decision", "vmpool-engine"],
        barred: CLIENTS,
    },
    // The registry also uses all platforms. Programs use them through it.
    CrateBoundary {
        package: registry::REGISTRY,
        ours: &["vmpool-engine", "vmpool-instancetype", "vmpool-platform"],
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

/// The crates of this workspace that a crate may use; `None` if it has no rule of its own.
pub(super) fn allowed_crates(metadata: &Value, package: &str) -> Option<Vec<String>> {
    let wall = WALLS.iter().find(|wall| wall.package == package)?;
    Some(wall.crates(&registry::platform_names(metadata)).into_iter().map(str::to_owned).collect())
}

impl CrateBoundary {
    /// The crates of this workspace that it may use.
    fn crates<'a>(&self, platforms: &[&'a str]) -> Vec<&'a str> {
        let platforms = if self.package == registry::REGISTRY { platforms } else { &[] };
        self.ours.iter().chain(platforms).copied().collect()
    }
}

/// The forbidden dependencies in a workspace's metadata.
pub(super) fn forbidden_dependencies(metadata: &Value) -> Vec<String> {
    let all = packages::json_list(metadata, "packages");
    let platforms = registry::platform_names(metadata);
    let mut found = Vec::new();
    for wall in WALLS {
        match all.iter().find(|package| package["name"] == wall.package) {
            Some(package) => found.extend(crossed_rules(all, package, &wall.crates(&platforms), wall.barred)),
            None => found.push(format!("{} has a rule, but is not in the workspace", wall.package)),
        }
    }
    let is_platform = |package: &&Value| platforms.iter().any(|platform| package["name"] == *platform);
    for package in all.iter().filter(is_platform) {
        found.extend(crossed_rules(all, package, USED_BY_PLATFORMS, CLIENTS));
    }
    found
}

/// The dependencies of a package that are crates of this workspace other than `ours`, or `barred`.
fn crossed_rules(all: &[Value], package: &Value, ours: &[&str], barred: &[&str]) -> Vec<String> {
    let is_in_workspace = |name: &str| all.iter().any(|package| package["name"] == name);
    let dependencies = packages::json_list(package, "dependencies").iter();
    let normal = dependencies.filter(|dependency| dependency["kind"].is_null());
    normal
        .filter_map(|dependency| dependency["name"].as_str())
        .filter(|name| barred.contains(name) || (is_in_workspace(name) && !ours.contains(name)))
        .map(|name| format!("{} must not depend on {name}", package["name"].as_str().unwrap_or_default()))
        .collect()
}
