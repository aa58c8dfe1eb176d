//! The programs of vmpool and the platform simulator on a test cluster.
//!
//! From the top layer down:
//!
//! * [`installation`] is a control plane with CRDs, roles and the platform simulator, and if guarded, webhook
//!   and aggregated API; its programs are child processes that use the accounts, roles and arguments of the
//!   chart;
//! * [`node_install`] and [`release`] are the chart as a user installs it with helm, on a cluster with nodes;
//! * [`fault_proxy`] is the fault proxy between a program and the API server;
//! * [`metrics_api`] provides metrics for autoscalers;
//! * [`programs`] runs the project's binaries as processes.
//!
//! Progress is logged through `tracing`, at level info.

use std::path::Path;

mod api_service;
pub mod fault_proxy;
pub mod installation;
pub mod metrics_api;
pub mod node_install;
pub mod programs;
pub mod release;

/// The namespace of the release.
pub const SYSTEM_NAMESPACE: &str = "vmpool-system";

/// The root of this workspace.
pub fn workspace_root() -> &'static Path {
    let manifest: &'static Path = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).unwrap_or(manifest)
}
