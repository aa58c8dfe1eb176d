//! Installs the platform simulator and the chart with locally built images.

use std::path::{Path, PathBuf};

use vmpool_test_cluster::control_plane::AuditLog;
use vmpool_test_cluster::error::{Error, Result};
use vmpool_test_cluster::node::images::{self, ContainerImage};
use vmpool_test_cluster::node::{NodeCluster, NodeOptions};

use crate::installation::AUDIT_RULES;
use crate::release::{HelmRelease, platform};

/// Chart values for the locally built images.
pub const VALUES: &str = "\
# Images that are there already: the cluster has no registry.
image:
  registry: vmpool.local
  tag: test
  pullPolicy: Never
";

/// The programs of the chart, and the plugin, which its test runs.
const PROGRAMS: [&str; 4] = ["vmpool-controller", "vmpool-webhook", "vmpool-apiserver", "kubectl-vmpool"];

/// Options for a cluster with this name and the images of all programs.
///
/// # Errors
/// As [`images::of_program`].
pub fn node_options(name: &str) -> Result<NodeOptions> {
    let programs = PROGRAMS.into_iter().chain([platform::SIMULATOR]);
    let images = programs.map(images::of_program).collect::<Result<Vec<ContainerImage>>>()?;
    let audit = AuditLog::WithRules(AUDIT_RULES.to_owned());
    Ok(NodeOptions { name: name.to_owned(), images, audit, ..NodeOptions::default() })
}

/// Installs the platform, then the chart with values such as [`VALUES`].
///
/// # Errors
/// As [`platform::install_platform`] and [`HelmRelease::install`].
pub async fn install_on_node(node: &NodeCluster, values: &str) -> Result<HelmRelease> {
    let access = node.cluster().access();
    let simulator = images::of_program(platform::SIMULATOR)?;
    let file = write(&access.home, values)?;
    platform::install_platform(&access, &simulator.reference).await?;
    HelmRelease::install(&access, &file).await
}

/// Writes the values file that the release is installed and upgraded with.
fn write(directory: &Path, values: &str) -> Result<PathBuf> {
    let file = directory.join("values.yaml");
    std::fs::write(&file, values).map_err(Error::file("writing", &file))?;
    Ok(file)
}
