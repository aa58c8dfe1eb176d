//! VirtualMachineInstance.

use super::{
    KubeVirtObjectMetadata, SimulatedKubeVirtCondition, knobs_of, machine::without_nulls, volumes_of,
};
use crate::{
    knobs::Knobs,
    objects::{NamespacedKey, StoredObject},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// A VirtualMachineInstance on the wire.
pub type StoredKubeVirtInstance = StoredObject<Value, InstanceStatus>;

/// Phases of an instance, in the order in which it passes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum InstancePhase {
    /// No controller has processed it yet.
    #[default]
    #[serde(rename = "")]
    Unset,
    /// It waits for its volumes.
    Pending,
    /// Its Pod exists.
    Scheduling,
    /// Its Pod runs.
    Scheduled,
    /// It waits for a guest that another cluster sends.
    WaitingForSync,
    /// Its guest runs.
    Running,
    /// Its guest shut down.
    Succeeded,
    /// Its guest crashed, or never started.
    Failed,
    /// Its node does not respond.
    #[serde(other)]
    Unknown,
}

impl InstancePhase {
    /// Whether the guest has ended for good.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }

    /// Whether the launcher has the volumes open.
    pub fn has_volumes_open(self) -> bool {
        matches!(self, Self::Scheduled | Self::WaitingForSync | Self::Running | Self::Unknown)
    }

    /// Whether the guest has not been started yet.
    pub fn is_before_start(self) -> bool {
        self < Self::Scheduled
    }

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_unset(&self) -> bool {
        *self == Self::Unset
    }
}

/// When a phase began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstancePhaseTransition {
    /// The phase.
    pub phase: InstancePhase,
    /// When, RFC 3339 in whole seconds.
    pub phase_transition_timestamp: String,
}

/// The part of an instance's status that the simulator writes, and migrations, which it only reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceStatus {
    /// Phase.
    #[serde(skip_serializing_if = "InstancePhase::is_unset")]
    pub phase: InstancePhase,
    /// Phases that the instance has passed, the present one included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phase_transition_timestamps: Vec<InstancePhaseTransition>,
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<SimulatedKubeVirtCondition>,
    /// Node on which the guest runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Nodes by the UIDs of launcher Pods.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub active_pods: BTreeMap<String, String>,
    /// Interfaces of the guest while it runs, with their addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<Value>,
    /// Sockets, cores and threads of the guest since its start.
    #[serde(rename = "currentCPUTopology", skip_serializing_if = "Value::is_null")]
    pub current_cpu_topology: Value,
    /// Memory of the guest since its start.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub memory: Value,
    /// A migration to a different node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migration_state: Option<Value>,
}

impl InstanceStatus {
    /// Whether the guest has ever run.
    pub fn ever_ran(&self) -> bool {
        self.phase == InstancePhase::Running
            || self.phase_transition_timestamps.iter().any(|passed| passed.phase == InstancePhase::Running)
    }

    /// Whether the guest moves to a different node.
    pub fn migrates(&self) -> bool {
        self.migration_state.as_ref().is_some_and(|state| {
            !state["startTimestamp"].is_null()
                && state["endTimestamp"].is_null()
                && state["completed"] != true
        })
    }
}

/// The last observed state of an instance.
#[derive(Clone, Debug)]
pub struct InstanceView {
    /// Metadata.
    pub meta: KubeVirtObjectMetadata,
    /// Knobs in its annotations. Those of its machine take their place.
    pub knobs: Option<Box<Knobs>>,
    /// Spec.
    pub spec: Arc<Value>,
    /// Status.
    pub status: InstanceStatus,
}

impl InstanceView {
    /// Reads a stored instance.
    pub fn read(stored: StoredKubeVirtInstance) -> Self {
        let (namespace, name) = (stored.metadata.namespace.clone(), stored.metadata.name.clone());
        let meta = KubeVirtObjectMetadata::read(stored.metadata);
        Self {
            knobs: knobs_of(namespace.as_deref(), name.as_deref(), &meta.annotations),
            meta,
            spec: Arc::new(without_nulls(stored.spec)),
            status: stored.status,
        }
    }

    /// How long the guest may take to shut down.
    pub fn grace(&self) -> Duration {
        Duration::from_secs(self.spec["terminationGracePeriodSeconds"].as_u64().unwrap_or(30))
    }
}

/// The claims that an instance refers to. The claim of a DataVolume has its name.
pub fn claims_of(key: &NamespacedKey, instance: &InstanceView) -> Vec<NamespacedKey> {
    let (data_volumes, claims) = volumes_of(&instance.spec);
    data_volumes.iter().chain(&claims).map(|name| key.sibling(name)).collect()
}
