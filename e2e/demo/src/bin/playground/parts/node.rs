//! A one-node cluster, with the chart installed as users install it.

use vmpool_installation::node_install as install;
use vmpool_test_cluster::control_plane::{AuditLog, ControlPlane};
use vmpool_test_cluster::node::{NodeCluster, NodeOptions};

use crate::directory::PlaygroundDirectory;
use crate::output::PROGRESS;

/// All running programs. Dropping this kills them.
pub(crate) struct OnNode {
    node: NodeCluster,
}

impl OnNode {
    /// Starts all programs, and prints a line for each step.
    ///
    /// # Errors
    /// The error of the first program that does not start.
    pub(super) async fn start(place: &PlaygroundDirectory) -> anyhow::Result<Self> {
        println!("{PROGRESS}images of the programs");
        let options = NodeOptions {
            directory: Some(place.cluster()),
            // It is not read, and would grow for weeks.
            audit: AuditLog::Off,
            ..install::node_options("playground")?
        };
        println!("{PROGRESS}control plane, scheduler, containerd, kubelet, kube-proxy");
        let node = NodeCluster::start(options).await?;
        println!("{PROGRESS}the platform simulator, and the chart: two replicas of everything");
        let installed = install::install_on_node(&node, install::VALUES).await;
        // If the installation fails, the logs are kept.
        installed.inspect_err(|_| node.keep_directory())?;
        Ok(Self { node })
    }

    /// The control plane.
    pub(super) fn cluster(&self) -> &ControlPlane {
        self.node.cluster()
    }

    /// Checks that every component of the node runs. The kubelet restarts Pods.
    ///
    /// # Errors
    /// A component has exited.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        Ok(self.node.check().inspect_err(|_| self.node.keep_directory())?)
    }

    /// Stops all programs.
    ///
    /// # Errors
    /// A program had to be killed. Even then nothing is left running.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        Ok(self.node.stop().await?)
    }
}
