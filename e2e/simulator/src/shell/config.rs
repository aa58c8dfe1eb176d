//! The configuration of the simulator, and why it exits.

use crate::{duration::Delay, shared::SimulatorSettings};
use std::{net::SocketAddr, time::Duration};

/// The platforms that can be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Platforms {
    /// The Deckhouse Virtualization Platform.
    pub dvp: bool,
    /// KubeVirt with CDI.
    pub kubevirt: bool,
}

/// The validated configuration.
#[derive(Clone, Debug)]
pub struct SimulatorConfig {
    /// The platforms to simulate; at least one.
    pub platforms: Platforms,
    /// The only namespace, or all namespaces.
    pub namespace: Option<String>,
    /// The behavior of the simulated controllers.
    pub settings: SimulatorSettings,
    /// Maximum number of concurrent writes.
    pub max_in_flight: usize,
    /// Interval of the nodes' heartbeats, if they send any.
    pub node_heartbeat: Delay,
    /// Address of `/livez`, `/readyz` and `/violations`; with port 0 a free port is chosen.
    pub health_address: SocketAddr,
    /// How long the API server may reject the nodes and storage classes before the simulator exits.
    pub bootstrap_timeout: Duration,
}

/// Why the simulator has exited.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The health address cannot be used.
    #[error("listening on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// A node or storage class of the simulator cannot be created.
    #[error("creating {what}")]
    Bootstrap {
        /// Kind and name.
        what: String,
        /// The cause.
        source: kube::Error,
    },
    /// A background task has ended unexpectedly.
    #[error("{0} ended unexpectedly")]
    TaskEnded(&'static str),
}

/// Interval of the loop's heartbeats.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(5);
