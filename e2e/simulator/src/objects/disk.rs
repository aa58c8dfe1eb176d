//! VirtualDisk.

use super::{Condition, Meta, StoredDisk, knobs_of};
use crate::knobs::Knobs;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where a disk's content comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum SourceKind {
    /// An address.
    #[serde(rename = "HTTP")]
    Http,
    /// An image in a registry.
    ContainerImage,
    /// Another object.
    ObjectRef,
    /// A person.
    Upload,
}

/// A disk's data source.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DataSource {
    /// Kind of source.
    #[serde(rename = "type")]
    pub type_: SourceKind,
    #[serde(default)]
    object_ref: Option<ObjectRef>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct ObjectRef {
    kind: String,
    name: String,
}

impl DataSource {
    /// Kind and name of the object that it copies.
    pub fn object(&self) -> Option<(&str, &str)> {
        self.object_ref.as_ref().map(|reference| (reference.kind.as_str(), reference.name.as_str()))
    }
}

/// What the simulator reads of a disk's spec.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiskSpec {
    persistent_volume_claim: Claim,
    /// Where the content comes from; a disk without is blank.
    pub data_source: Option<DataSource>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Claim {
    size: Option<Value>,
    storage_class_name: Option<String>,
}

impl DiskSpec {
    /// The wanted size, a quantity.
    pub fn size(&self) -> Option<String> {
        match self.persistent_volume_claim.size.as_ref()? {
            Value::String(text) => Some(text.clone()),
            number => Some(number.to_string()),
        }
    }

    /// The wanted storage class.
    pub fn class(&self) -> Option<&str> {
        self.persistent_volume_claim.storage_class_name.as_deref()
    }
}

/// Phases of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DiskPhase {
    /// Waits for its source or storage class.
    Pending,
    /// Is copied or created.
    Provisioning,
    /// Waits for a person.
    WaitForUserUpload,
    /// Waits for its first machine.
    WaitForFirstConsumer,
    /// Is usable.
    Ready,
    /// Grows.
    Resizing,
    /// Could not be made.
    Failed,
    /// Lost its volume.
    #[serde(rename = "PVCLost")]
    PvcLost,
    /// Is copied elsewhere; the simulator never does that.
    Exporting,
    /// Moves; the simulator never does that.
    Migrating,
    /// Is being deleted.
    Terminating,
}

/// A machine that names a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedTo {
    /// Name of the machine.
    pub name: String,
    /// Whether it holds the disk.
    #[serde(default)]
    pub mounted: bool,
}

/// What stands behind a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiskTarget {
    /// Name of the claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_name: Option<String>,
}

/// A disk's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiskStatus {
    /// Phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<DiskPhase>,
    /// The generation that was looked at last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Size of the volume, a quantity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<String>,
    /// What stands behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<DiskTarget>,
    /// Machines that name it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attached_to_virtual_machines: Vec<AttachedTo>,
}

/// A disk as last seen.
#[derive(Clone, Debug)]
pub struct DiskView {
    /// Metadata.
    pub meta: Meta,
    /// Value of the annotation [`super::MOUNT_LOG`].
    pub mount_log: Option<String>,
    /// Its own knobs.
    pub knobs: Option<Box<Knobs>>,
    /// Spec.
    pub spec: DiskSpec,
    /// Status.
    pub status: DiskStatus,
}

impl DiskView {
    /// Reads a stored disk.
    pub fn read(stored: StoredDisk) -> Self {
        let StoredDisk { metadata, spec, status } = stored;
        Self {
            meta: Meta::read(&metadata),
            mount_log: metadata.annotations.as_ref().and_then(|a| a.get(super::MOUNT_LOG)).cloned(),
            knobs: knobs_of(&metadata),
            spec,
            status,
        }
    }
}
