//! VirtualDisk.

use super::{DvpObjectMetadata, SimulatedDvpCondition, knobs_of, stored::StoredObject};
use crate::knobs::Knobs;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A VirtualDisk.
pub type StoredDvpDisk = StoredObject<SimulatedDiskSpec, SimulatedDiskStatus>;

/// The source of a disk's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum DiskDataSourceKind {
    /// A URL.
    #[serde(rename = "HTTP")]
    Http,
    /// An image in a registry.
    ContainerImage,
    /// Another object.
    ObjectRef,
    /// An upload by a user.
    Upload,
}

/// A disk's data source.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiskDataSource {
    /// Type of the source.
    #[serde(rename = "type")]
    pub type_: DiskDataSourceKind,
    #[serde(default)]
    object_ref: Option<ObjectRef>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct ObjectRef {
    kind: String,
    name: String,
}

impl DiskDataSource {
    /// Kind and name of the copied object.
    pub fn object(&self) -> Option<(&str, &str)> {
        self.object_ref.as_ref().map(|reference| (reference.kind.as_str(), reference.name.as_str()))
    }
}

/// What the simulator reads of a disk's spec.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SimulatedDiskSpec {
    persistent_volume_claim: Claim,
    /// The source of the content; without a source the disk is blank.
    pub data_source: Option<DiskDataSource>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Claim {
    size: Option<Value>,
    storage_class_name: Option<String>,
}

impl SimulatedDiskSpec {
    /// The requested size, a quantity.
    pub fn size(&self) -> Option<String> {
        match self.persistent_volume_claim.size.as_ref()? {
            Value::String(text) => Some(text.clone()),
            number => Some(number.to_string()),
        }
    }

    /// The requested storage class.
    pub fn class(&self) -> Option<&str> {
        self.persistent_volume_claim.storage_class_name.as_deref()
    }
}

/// Phases of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DiskPhase {
    /// The source or storage class is not ready.
    Pending,
    /// The volume is being created.
    Provisioning,
    /// The content was not uploaded yet.
    WaitForUserUpload,
    /// The volume will be created when the first machine starts.
    WaitForFirstConsumer,
    /// The disk is usable.
    Ready,
    /// The volume is being expanded.
    Resizing,
    /// Provisioning failed.
    Failed,
    /// The volume is lost.
    #[serde(rename = "PVCLost")]
    PvcLost,
    /// The disk is being exported; not simulated.
    Exporting,
    /// The disk is being migrated; not simulated.
    Migrating,
    /// The disk is being deleted.
    Terminating,
}

/// A machine whose spec lists the disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedTo {
    /// Name of the machine.
    pub name: String,
    /// Whether the disk is attached to it.
    #[serde(default)]
    pub mounted: bool,
}

/// The volume of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiskTarget {
    /// Name of the PersistentVolumeClaim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_name: Option<String>,
}

/// A disk's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SimulatedDiskStatus {
    /// Phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<DiskPhase>,
    /// The last evaluated generation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<SimulatedDvpCondition>,
    /// Size of the volume, a quantity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<String>,
    /// The volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<DiskTarget>,
    /// Machines whose spec lists it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attached_to_virtual_machines: Vec<AttachedTo>,
}

/// The last observed state of a disk.
#[derive(Clone, Debug)]
pub struct DiskView {
    /// Metadata.
    pub meta: DvpObjectMetadata,
    /// Value of the annotation [`super::MOUNT_LOG`].
    pub mount_log: Option<String>,
    /// Its knobs.
    pub knobs: Option<Box<Knobs>>,
    /// Spec.
    pub spec: SimulatedDiskSpec,
    /// Status.
    pub status: SimulatedDiskStatus,
}

impl DiskView {
    /// The view of a stored disk.
    pub fn read(stored: StoredDvpDisk) -> Self {
        let StoredDvpDisk { metadata, spec, status } = stored;
        Self {
            meta: DvpObjectMetadata::read(&metadata),
            mount_log: metadata.annotations.as_ref().and_then(|a| a.get(super::MOUNT_LOG)).cloned(),
            knobs: knobs_of(&metadata),
            spec,
            status,
        }
    }
}
