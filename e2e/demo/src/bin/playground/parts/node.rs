//! A whole cluster of one node, with the chart installed as its users install it.

use vmpool_installation::node_install as install;
use vmpool_test_cluster::control_plane::{AuditLog, ControlPlane};
use vmpool_test_cluster::node::{NodeCluster, NodeOptions};

use crate::place::Place;
use crate::supervisor::PROGRESS;

/// Everything that runs. Dropping it kills all of it.
pub(crate) struct OnNode {
    node: NodeCluster,
}

impl OnNode {
    /// Starts everything and says so line by line.
    ///
    /// # Errors
    /// The first part that does not start.
    pub(super) async fn start(place: &Place) -> anyhow::Result<Self> {
        println!("{PROGRESS}images of our programs");
        let options = NodeOptions {
            directory: Some(place.cluster()),
            // Nobody reads it, and a playground may stay for weeks.
            audit: AuditLog::Off,
            ..install::options("playground")?
        };
        println!("{PROGRESS}control plane, scheduler, containerd, kubelet, kube-proxy");
        let node = NodeCluster::start(options).await?;
        println!("{PROGRESS}the platform simulator, and the chart: two replicas of everything");
        let installed = install::install(&node, install::VALUES).await;
        // Whoever fails to start wants the logs.
        installed.inspect_err(|_| node.keep_directory())?;
        Ok(Self { node })
    }

    /// The control plane.
    pub(super) fn cluster(&self) -> &ControlPlane {
        self.node.cluster()
    }

    /// Whether every part of the node runs. Pods are the kubelet's concern.
    ///
    /// # Errors
    /// The part that ended.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        Ok(self.node.check().inspect_err(|_| self.node.keep_directory())?)
    }

    /// Stops everything.
    ///
    /// # Errors
    /// A part that had to be killed; nothing is left running even then.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        Ok(self.node.stop().await?)
    }
}
