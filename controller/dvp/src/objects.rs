//! The fields of DVP objects that vmpool reads.
//!
//! Decoding accepts all values that another schema may accept, because one object that cannot be decoded
//! would make the whole list fail. Missing fields and fields of another type get defaults here.
//! [`super::read`] interprets them.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use vmpool_api::{Quantity, is_reserved};
use vmpool_engine::activity::Writers;
use vmpool_engine::draining;
use vmpool_engine::limits;
use vmpool_engine::model::Lifetime;
use vmpool_engine::protection;
use vmpool_platform::activity::ManagedFields;
use vmpool_platform::decode::{lenient_list, lenient_value, short_status, short_text};
use vmpool_platform::meta::metadata_with_managed_fields;
use vmpool_platform::slim_metadata;
use vmpool_platform::spec_text::SpecText;

use super::names::{RESTORE_CREATED, RESTORE_DELETES};

/// A VirtualMachinePool. Its spec is stored as text in the cache.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Wire")]
pub struct DvpPoolObject {
    /// Object metadata.
    pub metadata: ObjectMeta,
    /// The clients that last wrote fields of the spec.
    pub(super) writers: Writers,
    spec: SpecText<Brief>,
    pub(super) status: DvpPoolStatus,
}

#[derive(Deserialize)]
struct Wire {
    #[serde(deserialize_with = "metadata_with_managed_fields")]
    metadata: (ObjectMeta, Option<ManagedFields>),
    #[serde(default)]
    spec: SpecText<Brief>,
    #[serde(default, deserialize_with = "short_status")]
    status: DvpPoolStatus,
}

impl From<Wire> for DvpPoolObject {
    fn from(Wire { metadata: (mut metadata, managed), spec, status }: Wire) -> Self {
        keep_own(&mut metadata);
        let writers = managed.unwrap_or_default().writers(&["rollout", "paused"]);
        Self { metadata, writers, spec, status }
    }
}

impl DvpPoolObject {
    /// The fields of the spec that vmpool reads. Of a spec that is too long, only the count and the policy.
    pub(super) fn spec(&self) -> DvpPoolSpec {
        serde_json::from_str(self.spec.text()).unwrap_or_default()
    }

    /// Why the spec is not read completely.
    pub(super) fn spec_error(&self) -> Option<String> {
        self.spec.error()
    }
}

/// The fields that the status needs even if the pool is invalid.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Brief {
    #[serde(deserialize_with = "lenient_value")]
    replicas: Option<u64>,
    #[serde(deserialize_with = "short_text")]
    scale_down_policy: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DvpPoolSpec {
    /// Raw, to distinguish an unreadable count from a missing one.
    pub(super) replicas: Value,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) scale_down_policy: Option<String>,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) virtual_machine_template: DvpMachineTemplate,
    #[serde(deserialize_with = "lenient_list")]
    pub(super) virtual_disk_templates: Vec<DvpDiskTemplate>,
    /// Raw, to distinguish an unreadable value from a missing one.
    pub(super) rollout: Value,
    pub(super) revision_history_limit: Value,
    pub(super) max_protection: Value,
    pub(super) progress_deadline_seconds: Value,
    pub(super) max_provisioning: Value,
    pub(super) standby: Value,
    pub(super) healing: Value,
    pub(super) drain: Value,
    pub(super) image_refresh: Value,
    pub(super) recycle: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DvpMachineTemplate {
    pub(super) metadata: Value,
    pub(super) spec: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DvpDiskTemplate {
    #[serde(deserialize_with = "lenient_value")]
    pub(super) name: String,
    /// Raw, to distinguish an unreadable policy from a missing one.
    pub(super) reclaim: Value,
    pub(super) spec: Value,
}

impl DvpDiskTemplate {
    /// The lifetime of its disks. With an unknown policy, disks are retained.
    pub(super) fn lifetime(&self) -> Lifetime {
        let policy = match &self.reclaim {
            Value::Object(reclaim) => reclaim.get("onScaleDown").unwrap_or(&Value::Null),
            other => other,
        };
        if policy.is_null() || policy == "Delete" { Lifetime::Ephemeral } else { Lifetime::Retained }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DvpPoolStatus {
    #[serde(deserialize_with = "lenient_value")]
    pub(super) observed_generation: Option<i64>,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) replicas: Option<usize>,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) ready_replicas: Option<usize>,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) updated_replicas: Option<usize>,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) restart_pending_replicas: Option<usize>,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) standby_replicas: Option<usize>,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) ready_standby_replicas: Option<usize>,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) draining_replicas: Option<usize>,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) image_outdated_replicas: Option<usize>,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) next_machine_number: Option<u64>,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) desired_template_hash: Option<String>,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) selector: Option<String>,
    #[serde(deserialize_with = "lenient_list")]
    pub(super) conditions: Vec<PoolCondition>,
    #[serde(deserialize_with = "lenient_list")]
    pub(super) activity: Vec<Value>,
}

/// A condition of a pool. A condition of another controller may lack fields that the standard type requires.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PoolCondition {
    #[serde(rename = "type", deserialize_with = "lenient_value")]
    pub(super) kind: String,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) status: String,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) reason: String,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) message: String,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) last_transition_time: Option<Timestamp>,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) observed_generation: Option<i64>,
}

/// The fields of a VirtualMachine that vmpool reads.
#[derive(Clone, Debug, Deserialize)]
pub struct DvpMachineObject {
    /// Object metadata.
    #[serde(deserialize_with = "own_metadata")]
    pub metadata: ObjectMeta,
    #[serde(default, deserialize_with = "lenient_value")]
    pub(super) spec: DvpMachineSpec,
    #[serde(default, deserialize_with = "lenient_value")]
    pub(super) status: DvpMachineStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DvpMachineSpec {
    /// A device that cannot be read keeps its position.
    #[serde(deserialize_with = "lenient_list")]
    pub(super) block_device_refs: Vec<DvpDeviceRef>,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) disruptions: Disruptions,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) run_policy: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Disruptions {
    #[serde(deserialize_with = "lenient_value")]
    pub(super) restart_approval_mode: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DvpDeviceRef {
    #[serde(deserialize_with = "lenient_value")]
    pub(super) kind: String,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) name: String,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) boot_order: Option<i64>,
}

impl DvpDeviceRef {
    /// The name of the disk, if the device is a disk.
    pub(super) fn disk(&self) -> Option<&str> {
        let is_name = !self.name.is_empty() && self.name.len() <= limits::NAME;
        (self.kind == "VirtualDisk" && is_name).then_some(&self.name)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DvpMachineStatus {
    #[serde(deserialize_with = "lenient_value")]
    pub(super) phase: String,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) observed_generation: Option<i64>,
    #[serde(deserialize_with = "lenient_list")]
    pub(super) block_device_refs: Vec<DvpDeviceRef>,
    #[serde(deserialize_with = "lenient_list")]
    pub(super) conditions: Vec<PlatformCondition>,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) stats: MachineStats,
}

/// The history of a machine. Of a definition without it, nothing is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MachineStats {
    /// The last phases.
    #[serde(deserialize_with = "lenient_list")]
    pub(super) phases_transitions: Vec<PhaseTransition>,
}

/// The beginning of a phase.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PhaseTransition {
    #[serde(deserialize_with = "lenient_value")]
    pub(super) phase: String,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) timestamp: Option<Timestamp>,
}

/// Only the fields that vmpool reads. DVP conditions may lack fields that the standard type requires.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PlatformCondition {
    #[serde(rename = "type", deserialize_with = "lenient_value")]
    pub(super) kind: String,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) status: String,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) reason: String,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) message: String,
}

impl PlatformCondition {
    /// Whether it has this type and is True.
    pub(super) fn holds(&self, kind: &str) -> bool {
        self.kind == kind && self.status == "True"
    }

    /// Whether it is False and has a message.
    pub(super) fn explains(&self) -> bool {
        self.status == "False" && !self.message.is_empty()
    }
}

/// The fields of a VirtualDisk that vmpool reads.
#[derive(Clone, Debug, Deserialize)]
pub struct DvpDiskObject {
    /// Object metadata.
    #[serde(deserialize_with = "own_metadata")]
    pub metadata: ObjectMeta,
    #[serde(default, deserialize_with = "lenient_value")]
    pub(super) spec: DvpDiskSpec,
    #[serde(default, deserialize_with = "lenient_value")]
    pub(super) status: DvpDiskStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DvpDiskSpec {
    #[serde(deserialize_with = "lenient_value")]
    pub(super) persistent_volume_claim: DvpDiskClaim,
    pub(super) data_source: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DvpDiskClaim {
    #[serde(deserialize_with = "lenient_value")]
    pub(super) size: Option<Quantity>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DvpDiskStatus {
    #[serde(deserialize_with = "lenient_value")]
    pub(super) phase: String,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) capacity: Option<Quantity>,
    #[serde(deserialize_with = "lenient_list")]
    pub(super) attached_to_virtual_machines: Vec<Attached>,
    #[serde(deserialize_with = "lenient_list")]
    pub(super) conditions: Vec<PlatformCondition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Attached {
    #[serde(deserialize_with = "lenient_value")]
    pub(super) name: String,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) mounted: bool,
}

/// The fields of a VirtualMachineBlockDeviceAttachment that vmpool reads.
#[derive(Clone, Debug, Deserialize)]
pub struct DvpAttachmentObject {
    /// Object metadata.
    #[serde(deserialize_with = "own_metadata")]
    pub metadata: ObjectMeta,
    #[serde(default, deserialize_with = "lenient_value")]
    pub(super) spec: DvpAttachmentSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DvpAttachmentSpec {
    #[serde(deserialize_with = "lenient_value")]
    pub(super) block_device_ref: DvpDeviceRef,
}

/// The metadata that vmpool reads: its own labels and annotations, those of operations that restore disks,
/// and a limited number of owners.
///
/// Other labels of an object can have up to a megabyte, which the cache must not keep.
fn own_metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let mut metadata = slim_metadata(deserializer)?;
    keep_own(&mut metadata);
    Ok(metadata)
}

fn keep_own(metadata: &mut ObjectMeta) {
    // Finalizers of DVP objects belong to other controllers.
    metadata.finalizers = None;
    for map in [&mut metadata.labels, &mut metadata.annotations] {
        let is_restore = |key: &str| [RESTORE_CREATED, RESTORE_DELETES].contains(&key);
        let is_machine_key =
            |key: &str| key.starts_with(protection::PREFIX) || key.starts_with(draining::HOOK_PREFIX);
        let is_ours = |key: &str| is_reserved(key) || is_machine_key(key) || is_restore(key);
        *map = map.take().map(|map| map.into_iter().filter(|(key, _)| is_ours(key)).collect());
    }
    if let Some(owners) = &mut metadata.owner_references {
        // The controller owner is significant in any position.
        owners.sort_by_key(|owner| owner.controller != Some(true));
        owners.truncate(limits::ENTRIES);
        owners.shrink_to_fit();
        for OwnerReference { name, uid, .. } in owners {
            for text in [name, uid] {
                if limits::clip_name(text).len() < text.len() {
                    *text = limits::clip_name(text).to_owned();
                }
            }
        }
    }
}

vmpool_platform::api_object!(
    DvpPoolObject,
    "virtualization.deckhouse.io",
    "v1alpha2",
    "VirtualMachinePool",
    "virtualmachinepools"
);
vmpool_platform::api_object!(
    DvpMachineObject,
    "virtualization.deckhouse.io",
    "v1alpha2",
    "VirtualMachine",
    "virtualmachines"
);
vmpool_platform::api_object!(
    DvpDiskObject,
    "virtualization.deckhouse.io",
    "v1alpha2",
    "VirtualDisk",
    "virtualdisks"
);
vmpool_platform::api_object!(
    DvpAttachmentObject,
    "virtualization.deckhouse.io",
    "v1alpha2",
    "VirtualMachineBlockDeviceAttachment",
    "virtualmachineblockdeviceattachments"
);
