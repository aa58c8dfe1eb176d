//! VirtualMachine.

use super::{
    DvpObjectMetadata, Pairs, SimulatedDvpCondition, annotations_for_pod, knobs_of, stored::StoredObject,
};
use crate::knobs::Knobs;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// A VirtualMachine.
pub type StoredDvpMachine = StoredObject<SimulatedDvpMachineSpec, SimulatedDvpMachineStatus>;

/// The run policy of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum RunPolicy {
    /// It runs, and is restarted after the guest shuts down.
    AlwaysOn,
    /// It is off.
    AlwaysOff,
    /// Operations start and stop it.
    Manual,
    /// It runs until an operation or its guest stops it.
    #[default]
    AlwaysOnUnlessStoppedManually,
}

/// Kind of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DeviceKind {
    /// A disk of the namespace.
    VirtualDisk,
    /// An image of the namespace.
    VirtualImage,
    /// An image of the cluster.
    ClusterVirtualImage,
}

/// A reference to a block device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedDeviceRef {
    /// Kind.
    pub kind: DeviceKind,
    /// Name.
    pub name: String,
    /// Position in the boot order, from 1; by default the position in the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_order: Option<i64>,
}

impl SimulatedDeviceRef {
    /// Whether both refer to the same object.
    pub fn same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.name == other.name
    }
}

/// What the simulator reads of a machine's spec.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SimulatedDvpMachineSpec {
    /// The run policy.
    pub run_policy: RunPolicy,
    /// Its devices.
    pub block_device_refs: Vec<SimulatedDeviceRef>,
    /// Timeout of the guest's shutdown, in seconds.
    pub termination_grace_period_seconds: Option<u32>,
    disruptions: Disruptions,
    /// All other fields; after [`DvpMachineView::read`] only those whose changes require a restart.
    #[serde(flatten)]
    pub fixed: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Disruptions {
    restart_approval_mode: Option<String>,
}

/// The fields whose changes require a restart of a running machine.
const TAKES_RESTART: &[&str] = &[
    "virtualMachineClassName",
    "cpu",
    "memory",
    "bootloader",
    "osType",
    "provisioning",
    "priorityClassName",
    "topologySpreadConstraints",
    "enableParavirtualization",
    "virtualMachineIPAddressName",
];

impl SimulatedDvpMachineSpec {
    /// Whether pending changes restart the machine automatically.
    pub fn restarts_automatically(&self) -> bool {
        self.disruptions.restart_approval_mode.as_deref() == Some("Automatic")
    }

    /// Timeout of the guest's shutdown.
    pub fn grace(&self) -> Duration {
        Duration::from_secs(u64::from(self.termination_grace_period_seconds.unwrap_or(60)))
    }

    /// CPU request. Unit: thousandths of a core.
    pub fn cpu_millis(&self) -> i64 {
        let cpu = self.fixed.get("cpu");
        let cores = cpu.and_then(|cpu| cpu["cores"].as_i64()).unwrap_or(1);
        crate::quantity::cpu_request_millis(cores, cpu.and_then(|cpu| cpu["coreFraction"].as_str()))
    }

    /// Memory request, a quantity.
    pub fn memory(&self) -> Option<&Value> {
        self.fixed.get("memory").and_then(|memory| memory.get("size"))
    }

    /// The boot device.
    pub fn boot_device(&self) -> Option<&SimulatedDeviceRef> {
        let place = |(index, device): &(usize, &SimulatedDeviceRef)| {
            device.boot_order.unwrap_or_else(|| i64::try_from(*index).unwrap_or(i64::MAX).saturating_add(1))
        };
        self.block_device_refs.iter().enumerate().min_by_key(place).map(|(_, device)| device)
    }
}

/// Phases of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MachinePhase {
    /// The devices or the node are not ready.
    Pending,
    /// The guest boots.
    Starting,
    /// The guest runs.
    Running,
    /// The machine migrates to another node.
    Migrating,
    /// The machine is paused; not simulated.
    Pause,
    /// The guest shuts down.
    Stopping,
    /// The machine is off.
    Stopped,
    /// The machine is being deleted.
    Terminating,
    /// The guest crashed.
    Degraded,
}

/// The size of a device whose object does not exist, or has no capacity yet. The platform's schema requires a
/// quantity.
pub fn unknown_size() -> String {
    "0".to_owned()
}

/// One device in a machine's status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceStatus {
    /// Kind.
    pub kind: DeviceKind,
    /// Name.
    pub name: String,
    /// Capacity, a quantity; `0` if it is unknown.
    #[serde(default = "unknown_size")]
    pub size: String,
    /// Whether it is attached to the guest.
    #[serde(default)]
    pub attached: bool,
    /// Name inside the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Whether it was hot-plugged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hotplugged: Option<bool>,
    /// Position in the boot order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_order: Option<i64>,
    /// The attachment object that requested it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_machine_block_device_attachment_name: Option<String>,
}

/// A change that will be applied at the next restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestartAwaitingChange {
    /// `add`, `remove` or `replace`.
    pub operation: String,
    /// Path below `spec`.
    pub path: String,
    /// The value of the running machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_value: Option<Value>,
    /// The value after a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_value: Option<Value>,
}

/// A Pod in a machine's status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PodEntry {
    /// Name.
    pub name: String,
    /// Whether the guest runs in this Pod.
    #[serde(default)]
    pub active: bool,
}

/// A machine's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SimulatedDvpMachineStatus {
    /// Phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<MachinePhase>,
    /// The last evaluated generation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<SimulatedDvpCondition>,
    /// Devices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub block_device_refs: Vec<DeviceStatus>,
    /// Changes that will be applied at the next restart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restart_awaiting_changes: Vec<RestartAwaitingChange>,
    /// Node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Address of the guest while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_address: Option<String>,
    /// Pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub virtual_machine_pods: Vec<PodEntry>,
}

/// The last observed state of a machine.
#[derive(Clone, Debug)]
pub struct DvpMachineView {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Metadata.
    pub meta: DvpObjectMetadata,
    /// Labels, which are copied to its Pod.
    pub labels: Pairs,
    /// Annotations that are copied to its Pod.
    pub annotations: Pairs,
    /// Value of the annotation that the knob `bump-annotations` changes.
    pub bumped: u64,
    /// Its knobs.
    pub knobs: Option<Box<Knobs>>,
    /// Spec.
    pub spec: Arc<SimulatedDvpMachineSpec>,
    /// Status.
    pub status: SimulatedDvpMachineStatus,
}

impl DvpMachineView {
    /// The view of a stored machine.
    pub fn read(stored: StoredDvpMachine) -> Self {
        let StoredDvpMachine { metadata, mut spec, status } = stored;
        spec.fixed.retain(|path, _| TAKES_RESTART.contains(&path.as_str()));
        let annotations = metadata.annotations.as_ref();
        Self {
            namespace: Arc::from(metadata.namespace.as_deref().unwrap_or_default()),
            meta: DvpObjectMetadata::read(&metadata),
            bumped: annotations.and_then(|a| a.get(super::BUMPED)?.parse().ok()).unwrap_or_default(),
            knobs: knobs_of(&metadata),
            labels: metadata.labels.unwrap_or_default(),
            annotations: annotations_for_pod(metadata.annotations),
            spec: Arc::new(spec),
            status,
        }
    }
}
