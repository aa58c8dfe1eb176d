//! What the rules of admission know of users and of the cluster, on all platforms.

use vmpool_engine::admission::PrivilegedUsers;

/// A capability of the cluster, which is a setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CapabilityState {
    /// The cluster has the capability.
    Yes,
    /// The cluster does not have it.
    No,
    /// It is unknown. Rules that depend on it are skipped.
    #[default]
    Unknown,
}

/// Capabilities of the cluster that cannot be detected through the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterCapabilities {
    /// Software-defined networks: machines can have additional networks.
    pub sdn: CapabilityState,
    /// Address ranges for machines: machines can use the main network.
    pub machine_cidrs: CapabilityState,
    /// GPUs: machines can use GPUs.
    pub gpus: CapabilityState,
    /// In-place resize: a vertical autoscaler can change the size of a running machine.
    pub in_place_resize: CapabilityState,
}

/// Settings that do not change while the process runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// The users with more permissions than other users.
    pub users: PrivilegedUsers,
    /// The cluster.
    pub cluster: ClusterCapabilities,
}
