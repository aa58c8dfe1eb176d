//! The parts of DVP's objects that are read.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use serde::Deserialize;
use serde_json::Value;

use crate::platform::slim_metadata;

/// A VirtualMachinePool: typed where we decide, raw where we copy.
#[derive(Clone, Debug, Deserialize)]
pub struct PoolObject {
    /// Object metadata.
    #[serde(deserialize_with = "slim_metadata")]
    pub metadata: ObjectMeta,
    pub(super) spec: PoolSpec,
    #[serde(default)]
    pub(super) status: PoolStatus,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PoolSpec {
    pub(super) replicas: Option<i64>,
    pub(super) scale_down_policy: String,
    pub(super) virtual_machine_template: MachineTemplate,
    #[serde(default)]
    pub(super) virtual_disk_templates: Vec<DiskTemplate>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct MachineTemplate {
    #[serde(default)]
    pub(super) metadata: Value,
    #[serde(default)]
    pub(super) spec: Value,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct DiskTemplate {
    pub(super) name: String,
    #[serde(default)]
    pub(super) reclaim: Option<Reclaim>,
    #[serde(default)]
    pub(super) spec: Value,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reclaim {
    pub(super) on_scale_down: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PoolStatus {
    pub(super) observed_generation: Option<i64>,
    pub(super) replicas: Option<usize>,
    pub(super) ready_replicas: Option<usize>,
    pub(super) updated_replicas: Option<usize>,
    pub(super) restart_pending_replicas: Option<usize>,
    pub(super) desired_template_hash: Option<String>,
    pub(super) selector: Option<String>,
    pub(super) conditions: Vec<Condition>,
}

/// A VirtualMachine, as far as a pool reads it.
#[derive(Clone, Debug, Deserialize)]
pub struct MachineObject {
    /// Object metadata.
    #[serde(deserialize_with = "slim_metadata")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub(super) spec: MachineSpec,
    #[serde(default)]
    pub(super) status: MachineStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MachineSpec {
    pub(super) block_device_refs: Vec<DeviceRef>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct DeviceRef {
    pub(super) kind: String,
    pub(super) name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MachineStatus {
    pub(super) phase: String,
    pub(super) conditions: Vec<MachineCondition>,
}

/// Only what is read: DVP's conditions may lack fields that the standard type requires.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct MachineCondition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
}

/// A VirtualDisk, as far as a pool reads it.
#[derive(Clone, Debug, Deserialize)]
pub struct DiskObject {
    /// Object metadata.
    #[serde(deserialize_with = "slim_metadata")]
    pub metadata: ObjectMeta,
}

crate::stored!(
    PoolObject,
    "virtualization.deckhouse.io",
    "v1alpha2",
    "VirtualMachinePool",
    "virtualmachinepools"
);
crate::stored!(MachineObject, "virtualization.deckhouse.io", "v1alpha2", "VirtualMachine", "virtualmachines");
crate::stored!(DiskObject, "virtualization.deckhouse.io", "v1alpha2", "VirtualDisk", "virtualdisks");
