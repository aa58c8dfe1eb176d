//! The parts of DVP's objects that are read.
//!
//! Whatever a foreign schema lets through is decoded: one object that a list cannot be decoded with would hide all the
//! others. What is missing or of another type takes its default here; [`super::read`] says what that means.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use vmpool_api::Quantity;
use vmpool_engine::model::Lifetime;

use crate::platform::slim_metadata;

/// A VirtualMachinePool: typed where we decide, raw where we copy.
#[derive(Clone, Debug, Deserialize)]
pub struct PoolObject {
    /// Object metadata.
    #[serde(deserialize_with = "slim_metadata")]
    pub metadata: ObjectMeta,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) spec: PoolSpec,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) status: PoolStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PoolSpec {
    /// Raw, since a count that cannot be read is another thing than none.
    pub(super) replicas: Value,
    #[serde(deserialize_with = "lenient")]
    pub(super) scale_down_policy: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) virtual_machine_template: MachineTemplate,
    #[serde(deserialize_with = "lenient_list")]
    pub(super) virtual_disk_templates: Vec<DiskTemplate>,
    /// Raw, since what cannot be read must not be taken for what is not there.
    pub(super) rollout: Value,
    pub(super) revision_history_limit: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MachineTemplate {
    pub(super) metadata: Value,
    pub(super) spec: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DiskTemplate {
    #[serde(deserialize_with = "lenient")]
    pub(super) name: String,
    /// Raw, since a policy that cannot be read is another thing than none.
    pub(super) reclaim: Value,
    pub(super) spec: Value,
}

impl DiskTemplate {
    /// How long its disks live. A policy that we do not know must not cost anybody a disk.
    pub(super) fn lifetime(&self) -> Lifetime {
        let policy = match &self.reclaim {
            Value::Object(reclaim) => reclaim.get("onScaleDown").unwrap_or(&Value::Null),
            other => other,
        };
        if policy.is_null() || policy == "Delete" { Lifetime::Machine } else { Lifetime::Pool }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PoolStatus {
    #[serde(deserialize_with = "lenient")]
    pub(super) observed_generation: Option<i64>,
    #[serde(deserialize_with = "lenient")]
    pub(super) replicas: Option<usize>,
    #[serde(deserialize_with = "lenient")]
    pub(super) ready_replicas: Option<usize>,
    #[serde(deserialize_with = "lenient")]
    pub(super) updated_replicas: Option<usize>,
    #[serde(deserialize_with = "lenient")]
    pub(super) restart_pending_replicas: Option<usize>,
    #[serde(deserialize_with = "lenient")]
    pub(super) desired_template_hash: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) selector: Option<String>,
    #[serde(deserialize_with = "lenient_list")]
    pub(super) conditions: Vec<PoolCondition>,
}

/// A condition of a pool, which may be somebody else's and lack what the standard type requires.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PoolCondition {
    #[serde(rename = "type", deserialize_with = "lenient")]
    pub(super) kind: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) status: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) reason: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) message: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) last_transition_time: Option<Timestamp>,
    #[serde(deserialize_with = "lenient")]
    pub(super) observed_generation: Option<i64>,
}

/// A VirtualMachine, as far as a pool reads it.
#[derive(Clone, Debug, Deserialize)]
pub struct MachineObject {
    /// Object metadata.
    #[serde(deserialize_with = "slim_metadata")]
    pub metadata: ObjectMeta,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) spec: MachineSpec,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) status: MachineStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MachineSpec {
    /// One that cannot be read keeps its place: positions count.
    #[serde(deserialize_with = "lenient_list")]
    pub(super) block_device_refs: Vec<DeviceRef>,
    #[serde(deserialize_with = "lenient")]
    pub(super) disruptions: Disruptions,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Disruptions {
    #[serde(deserialize_with = "lenient")]
    pub(super) restart_approval_mode: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DeviceRef {
    #[serde(deserialize_with = "lenient")]
    pub(super) kind: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) name: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) boot_order: Option<i64>,
}

impl DeviceRef {
    /// The name of the disk, if it is one.
    pub(super) fn disk(&self) -> Option<&str> {
        (self.kind == "VirtualDisk" && !self.name.is_empty()).then_some(&self.name)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MachineStatus {
    #[serde(deserialize_with = "lenient")]
    pub(super) phase: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) observed_generation: Option<i64>,
    #[serde(deserialize_with = "lenient_list")]
    pub(super) block_device_refs: Vec<DeviceRef>,
    #[serde(deserialize_with = "lenient_list")]
    pub(super) conditions: Vec<PlatformCondition>,
}

/// Only what is read: DVP's conditions may lack fields that the standard type requires.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PlatformCondition {
    #[serde(rename = "type", deserialize_with = "lenient")]
    pub(super) kind: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) status: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) reason: String,
}

impl PlatformCondition {
    /// Whether it is the one of this type and says True.
    pub(super) fn holds(&self, kind: &str) -> bool {
        self.kind == kind && self.status == "True"
    }
}

/// A VirtualDisk, as far as a pool reads it.
#[derive(Clone, Debug, Deserialize)]
pub struct DiskObject {
    /// Object metadata.
    #[serde(deserialize_with = "slim_metadata")]
    pub metadata: ObjectMeta,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) spec: DiskSpec,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) status: DiskStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DiskSpec {
    #[serde(deserialize_with = "lenient")]
    pub(super) persistent_volume_claim: Claim,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Claim {
    #[serde(deserialize_with = "lenient")]
    pub(super) size: Option<Quantity>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DiskStatus {
    #[serde(deserialize_with = "lenient")]
    pub(super) phase: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) capacity: Option<Quantity>,
    #[serde(deserialize_with = "lenient_list")]
    pub(super) attached_to_virtual_machines: Vec<Attached>,
    #[serde(deserialize_with = "lenient_list")]
    pub(super) conditions: Vec<PlatformCondition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Attached {
    #[serde(deserialize_with = "lenient")]
    pub(super) name: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) mounted: bool,
}

/// A VirtualMachineBlockDeviceAttachment, as far as a pool reads it.
#[derive(Clone, Debug, Deserialize)]
pub struct AttachmentObject {
    /// Object metadata.
    #[serde(deserialize_with = "slim_metadata")]
    pub metadata: ObjectMeta,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) spec: AttachmentSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AttachmentSpec {
    #[serde(deserialize_with = "lenient")]
    pub(super) block_device_ref: DeviceRef,
}

/// What is of another type is as good as missing.
fn lenient<'de, T: DeserializeOwned + Default, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Value::deserialize(deserializer).map(or_default)
}

/// The same for every element on its own.
fn lenient_list<'de, T: DeserializeOwned + Default, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let list: Vec<Value> = lenient(deserializer)?;
    Ok(list.into_iter().map(or_default).collect())
}

fn or_default<T: DeserializeOwned + Default>(value: Value) -> T {
    serde_json::from_value(value).unwrap_or_default()
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
crate::stored!(
    AttachmentObject,
    "virtualization.deckhouse.io",
    "v1alpha2",
    "VirtualMachineBlockDeviceAttachment",
    "virtualmachineblockdeviceattachments"
);
