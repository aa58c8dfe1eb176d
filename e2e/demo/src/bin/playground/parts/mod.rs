//! What a playground consists of.

mod loopback;
mod node;

use vmpool_test_cluster::control_plane::ControlPlane;

use self::loopback::Loopback;
use self::node::OnNode;
use super::place::{Kind, Part, Place};

/// Everything that runs. Dropping it kills all of it.
pub(crate) enum Parts {
    /// Processes of this machine.
    Loopback(Box<Loopback>),
    /// Pods on a node of its own.
    Node(Box<OnNode>),
}

impl Parts {
    /// Starts everything and says so line by line.
    ///
    /// # Errors
    /// The first part that does not start.
    pub(crate) async fn start(place: &Place) -> anyhow::Result<Self> {
        Ok(match place.kind() {
            Kind::Loopback => Self::Loopback(Box::new(Loopback::start(place).await?)),
            Kind::Node => Self::Node(Box::new(OnNode::start(place).await?)),
        })
    }

    /// The control plane.
    pub(crate) fn cluster(&self) -> &ControlPlane {
        match self {
            Self::Loopback(parts) => parts.cluster(),
            Self::Node(parts) => parts.cluster(),
        }
    }

    /// The programs that [`Parts::revive`] looks after.
    pub(crate) fn list(&self) -> Vec<Part> {
        match self {
            Self::Loopback(parts) => parts.list(),
            // The kubelet does, and kubectl lists them.
            Self::Node(_) => Vec::new(),
        }
    }

    /// Starts those programs of ours again that ended, where no kubelet does.
    ///
    /// # Errors
    /// The part of the cluster that ended. A program that does not start again is tried again next time.
    pub(crate) async fn revive(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Loopback(parts) => parts.revive().await,
            Self::Node(parts) => parts.check(),
        }
    }

    /// Stops everything.
    ///
    /// # Errors
    /// A part that had to be killed; nothing is left running even then.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        match self {
            Self::Loopback(parts) => parts.stop().await,
            Self::Node(parts) => parts.stop().await,
        }
    }
}
