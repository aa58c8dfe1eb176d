//! The command line.

use crate::{duration::Delay, shared::SimulatorSettings, shell};
use clap::{Parser, ValueEnum};
use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// Simulates the virtual machine and disk controllers of the platform: machines that start, stop, crash and
/// migrate without a hypervisor, for tests and demos.
///
/// Every flag can be given as an environment variable VMPOOL_SIM_FLAG. Durations are written as in Go
/// ("200ms", "1m30s"); "never" is also accepted.
#[derive(Clone, Debug, Parser)]
#[command(name = "vmpool-simulator", version)]
pub struct Cli {
    /// Kubeconfig of the simulator's account [default: the service account of its Pod]
    #[arg(long, env = "VMPOOL_SIM_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,

    /// Simulate only this namespace [default: all namespaces]
    #[arg(long, env = "VMPOOL_SIM_NAMESPACE")]
    pub namespace: Option<String>,

    /// Platforms to simulate; the CustomResourceDefinitions of each must be installed
    #[arg(long, env = "VMPOOL_SIM_PLATFORM", value_enum, default_value_t = SimulatedPlatform::Dvp)]
    pub platform: SimulatedPlatform,

    /// Time from the creation of a machine's Pod to Running
    #[arg(long, env = "VMPOOL_SIM_START_DELAY", default_value = "200ms")]
    pub start_delay: Delay,

    /// Time from the request to stop a machine to its stop
    #[arg(long, env = "VMPOOL_SIM_STOP_DELAY", default_value = "200ms")]
    pub stop_delay: Delay,

    /// Duration of a disk's provisioning
    #[arg(long, env = "VMPOOL_SIM_PROVISIONING_DELAY", default_value = "200ms")]
    pub provisioning_delay: Delay,

    /// Time from a new generation of a machine to its evaluation
    #[arg(long, env = "VMPOOL_SIM_EVALUATION_DELAY", default_value = "20ms")]
    pub evaluation_delay: Delay,

    /// Time from a change of a running machine's devices to its effect
    #[arg(long, env = "VMPOOL_SIM_HOT_PLUG_DELAY", default_value = "100ms")]
    pub hot_plug_delay: Delay,

    /// Maximum number of concurrent writes
    #[arg(long, env = "VMPOOL_SIM_MAX_IN_FLIGHT", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub max_in_flight: u16,

    /// Names of the nodes to create and to run machines on
    #[arg(
        long,
        env = "VMPOOL_SIM_NODES",
        value_delimiter = ',',
        default_value = "sim-node-1,sim-node-2",
        required = false
    )]
    pub nodes: Vec<String>,

    /// Interval of the nodes' heartbeats, at least one second. Required on clusters with a node lifecycle
    /// controller
    #[arg(long, env = "VMPOOL_SIM_NODE_HEARTBEAT", default_value = "never")]
    pub node_heartbeat: Delay,

    /// Whether running machines have Pods; without Pods a machine needs three writes less
    #[arg(long, env = "VMPOOL_SIM_PODS", default_value_t = true, action = clap::ArgAction::Set)]
    pub pods: bool,

    /// Address of /livez, /readyz and /violations; with port 0 a free port is chosen and logged
    #[arg(long, env = "VMPOOL_SIM_HEALTH_ADDRESS", default_value = "127.0.0.1:0")]
    pub health_address: SocketAddr,

    /// How long the API server may reject the simulator's nodes and storage classes at the start
    #[arg(long, env = "VMPOOL_SIM_BOOTSTRAP_TIMEOUT", default_value = "60s", value_parser = crate::duration::parse_go_duration)]
    pub bootstrap_timeout: Duration,

    /// Format of the log
    #[arg(long, env = "VMPOOL_SIM_LOG_FORMAT", value_enum, default_value_t = SimulatorLogFormat::Text)]
    pub log_format: SimulatorLogFormat,

    /// Log level, or directives such as "info,kube=debug"
    #[arg(long, env = "VMPOOL_SIM_LOG_LEVEL", default_value = "info")]
    pub log_level: String,
}

/// The platforms to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SimulatedPlatform {
    /// The Deckhouse Virtualization Platform.
    Dvp,
    /// KubeVirt with CDI.
    Kubevirt,
    /// All platforms.
    All,
}

impl From<SimulatedPlatform> for shell::Platforms {
    fn from(platform: SimulatedPlatform) -> Self {
        Self { dvp: platform != SimulatedPlatform::Kubevirt, kubevirt: platform != SimulatedPlatform::Dvp }
    }
}

/// Format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SimulatorLogFormat {
    /// Readable lines.
    Text,
    /// One JSON object per line.
    Json,
}

impl Cli {
    /// The configuration of the shell; `seed` makes Pod names differ between runs.
    pub fn config(&self, seed: u64) -> shell::SimulatorConfig {
        shell::SimulatorConfig {
            platforms: self.platform.into(),
            namespace: self.namespace.clone(),
            settings: SimulatorSettings {
                start_delay: self.start_delay,
                stop_delay: self.stop_delay,
                provisioning_delay: self.provisioning_delay,
                evaluation_delay: self.evaluation_delay,
                hot_plug_delay: self.hot_plug_delay,
                nodes: self.nodes.clone(),
                pods: self.pods,
                seed,
            },
            max_in_flight: usize::from(self.max_in_flight),
            node_heartbeat: self.node_heartbeat,
            health_address: self.health_address,
            bootstrap_timeout: self.bootstrap_timeout,
        }
    }
}

#[cfg(test)]
mod tests;
