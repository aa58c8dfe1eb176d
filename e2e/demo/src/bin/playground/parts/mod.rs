//! The programs of a playground.

mod loopback;
mod node;

use vmpool_test_cluster::control_plane::ControlPlane;

use self::loopback::Loopback;
use self::node::OnNode;
use super::directory::{Part, PlaygroundDirectory, PlaygroundKind};

/// All running programs. Dropping this kills them.
pub(crate) enum Parts {
    /// Processes of this host.
    Loopback(Box<Loopback>),
    /// Pods on a one-node cluster.
    Node(Box<OnNode>),
}

impl Parts {
    /// Starts all programs, and prints a line for each step.
    ///
    /// # Errors
    /// The error of the first program that does not start.
    pub(crate) async fn start(place: &PlaygroundDirectory) -> anyhow::Result<Self> {
        Ok(match place.kind() {
            PlaygroundKind::Loopback => Self::Loopback(Box::new(Loopback::start(place).await?)),
            PlaygroundKind::Node => Self::Node(Box::new(OnNode::start(place).await?)),
        })
    }

    /// The control plane.
    pub(crate) fn cluster(&self) -> &ControlPlane {
        match self {
            Self::Loopback(parts) => parts.cluster(),
            Self::Node(parts) => parts.cluster(),
        }
    }

    /// Whether KubeVirt is simulated, too.
    pub(crate) fn has_kubevirt(&self) -> bool {
        match self {
            Self::Loopback(_) => loopback::has_kubevirt(),
            Self::Node(_) => false,
        }
    }

    /// The programs that [`Parts::restart_exited`] restarts.
    pub(crate) fn list(&self) -> Vec<Part> {
        match self {
            Self::Loopback(parts) => parts.list(),
            // The kubelet restarts Pods, and kubectl lists them.
            Self::Node(_) => Vec::new(),
        }
    }

    /// Restarts the programs that have exited, unless a kubelet does so.
    ///
    /// # Errors
    /// A component of the cluster has exited. A program that does not start is restarted at the next call.
    pub(crate) async fn restart_exited(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Loopback(parts) => parts.restart_exited().await,
            Self::Node(parts) => parts.check(),
        }
    }

    /// Stops all programs.
    ///
    /// # Errors
    /// A program had to be killed. Even then nothing is left running.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        match self {
            Self::Loopback(parts) => parts.stop().await,
            Self::Node(parts) => parts.stop().await,
        }
    }
}
