//! VirtualMachine.

use super::{Condition, Meta, Pairs, StoredMachine, annotations_for_pod, knobs_of};
use crate::knobs::Knobs;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// When a machine is to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum RunPolicy {
    /// Always, also after the guest shut down.
    AlwaysOn,
    /// Never.
    AlwaysOff,
    /// Only when told to.
    Manual,
    /// Until somebody, or its guest, stops it.
    #[default]
    AlwaysOnUnlessStoppedManually,
}

/// What a block device is.
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
pub struct DeviceRef {
    /// Kind.
    pub kind: DeviceKind,
    /// Name.
    pub name: String,
    /// Place in the boot order, from 1; by default the place in the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_order: Option<i64>,
}

impl DeviceRef {
    /// Whether both mean the same object.
    pub fn same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.name == other.name
    }
}

/// What the simulator reads of a machine's spec.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSpec {
    /// When it is to run.
    pub run_policy: RunPolicy,
    /// Its devices.
    pub block_device_refs: Vec<DeviceRef>,
    /// How long its guest may take to shut down, in seconds.
    pub termination_grace_period_seconds: Option<u32>,
    disruptions: Disruptions,
    /// Everything else; after [`MachineView::read`] only what takes a restart to change.
    #[serde(flatten)]
    pub fixed: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Disruptions {
    restart_approval_mode: Option<String>,
}

/// The parts of a spec that a running machine takes over only by a restart.
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

impl MachineSpec {
    /// Whether pending changes restart the machine without being asked.
    pub fn restarts_by_itself(&self) -> bool {
        self.disruptions.restart_approval_mode.as_deref() == Some("Automatic")
    }

    /// How long the guest may take to shut down.
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

    /// The device that the machine boots from.
    pub fn boot_device(&self) -> Option<&DeviceRef> {
        let place = |(index, device): &(usize, &DeviceRef)| {
            device.boot_order.unwrap_or_else(|| i64::try_from(*index).unwrap_or(i64::MAX).saturating_add(1))
        };
        self.block_device_refs.iter().enumerate().min_by_key(place).map(|(_, device)| device)
    }
}

/// Phases of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MachinePhase {
    /// Waits for its devices or its node.
    Pending,
    /// Boots.
    Starting,
    /// Runs.
    Running,
    /// Moves to another node.
    Migrating,
    /// Is halted by somebody; the simulator never does that.
    Pause,
    /// Shuts down.
    Stopping,
    /// Is off.
    Stopped,
    /// Is being deleted.
    Terminating,
    /// Crashed.
    Degraded,
}

/// The size of a device whose object does not exist, or has no capacity yet. The platform's schema requires a quantity.
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
    /// Capacity, a quantity; `0` while it is not known.
    #[serde(default = "unknown_size")]
    pub size: String,
    /// Whether the guest sees it.
    #[serde(default)]
    pub attached: bool,
    /// Name inside the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Whether it was attached while the machine ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hotplugged: Option<bool>,
    /// Place in the boot order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_order: Option<i64>,
    /// The attachment object that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_machine_block_device_attachment_name: Option<String>,
}

/// One change that waits for a restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// `add`, `remove` or `replace`.
    pub operation: String,
    /// Where, below `spec`.
    pub path: String,
    /// What the machine runs with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_value: Option<Value>,
    /// What it would run with after a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_value: Option<Value>,
}

/// One pod in a machine's status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PodEntry {
    /// Name.
    pub name: String,
    /// Whether the guest runs in it.
    #[serde(default)]
    pub active: bool,
}

/// A machine's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineStatus {
    /// Phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<MachinePhase>,
    /// The generation that was evaluated last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Devices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub block_device_refs: Vec<DeviceStatus>,
    /// Changes that wait for a restart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restart_awaiting_changes: Vec<Change>,
    /// Node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub virtual_machine_pods: Vec<PodEntry>,
}

/// A machine as last seen.
#[derive(Clone, Debug)]
pub struct MachineView {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Metadata.
    pub meta: Meta,
    /// Labels, which its pod gets.
    pub labels: Pairs,
    /// Annotations that its pod gets.
    pub annotations: Pairs,
    /// Value of the annotation that the knob `bump-annotations` counts in.
    pub bumped: u64,
    /// Its own knobs.
    pub knobs: Option<Box<Knobs>>,
    /// Spec.
    pub spec: Arc<MachineSpec>,
    /// Status.
    pub status: MachineStatus,
}

impl MachineView {
    /// Reads a stored machine.
    pub fn read(stored: StoredMachine) -> Self {
        let StoredMachine { metadata, mut spec, status } = stored;
        spec.fixed.retain(|path, _| TAKES_RESTART.contains(&path.as_str()));
        let annotations = metadata.annotations.as_ref();
        Self {
            namespace: Arc::from(metadata.namespace.as_deref().unwrap_or_default()),
            meta: Meta::read(&metadata),
            bumped: annotations.and_then(|a| a.get(super::BUMPED)?.parse().ok()).unwrap_or_default(),
            knobs: knobs_of(&metadata),
            labels: metadata.labels.unwrap_or_default(),
            annotations: annotations_for_pod(metadata.annotations),
            spec: Arc::new(spec),
            status,
        }
    }
}
