//! A control plane of a test's own, with the objects that the chart installs for KubeVirt.

use std::sync::Arc;

use anyhow::Result;
use vmpool_installation::installation::{
    ClusterInstallation, GuardOptions, cluster_options, kubevirt_definitions,
};
use vmpool_installation::workspace_root;
use vmpool_test_cluster::control_plane::ControlPlane;

/// Starts a control plane with the definitions of KubeVirt and those in a folder of `api/crds`, and webhook
/// and aggregated API with these values of the chart.
pub(crate) async fn start(
    name: &str,
    definitions: &str,
    values: &[&str],
) -> Result<(Arc<ControlPlane>, ClusterInstallation)> {
    let mut options = cluster_options(name);
    options.manifests.extend(kubevirt_definitions());
    options.manifests.push(workspace_root().join("api/crds").join(definitions));
    let cluster = Arc::new(ControlPlane::start(options).await?);
    let options = GuardOptions::default().value("platforms.kubevirt.enabled=true");
    let options = values.iter().fold(options, |options, value| options.value(value));
    let installation = ClusterInstallation::guarded(cluster.clone(), options).await?;
    Ok((cluster, installation))
}

/// As [`start`], for instance types in a cluster without KubeVirt.
pub(crate) async fn standalone(
    name: &str,
    values: &[&str],
) -> Result<(Arc<ControlPlane>, ClusterInstallation)> {
    let values = [&["instancetype.mode=Standalone"], values].concat();
    start(name, "instancetype", &values).await
}
