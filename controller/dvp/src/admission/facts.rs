//! Inputs of the rules besides the pool: settings of the cluster, and objects that were read for the request.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use vmpool_api::OwnerIdentity;
use vmpool_engine::ObjectId;
use vmpool_engine::admission::LookupOutcome;
pub use vmpool_platform::admission::{AdmissionSettings, CapabilityState, ClusterCapabilities};
use vmpool_platform::owner::is_a;

use super::sizing::MachineClass;
use super::view::{json_at_path, json_entries, json_field, json_text};
use crate::objects::DvpPoolObject;

/// The kind of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImageKind {
    /// An image of the pool's namespace.
    Namespace,
    /// An image of the cluster.
    Cluster,
}

impl ImageKind {
    /// The kind of this name.
    pub fn named(kind: &str) -> Option<Self> {
        match kind {
            "VirtualImage" => Some(Self::Namespace),
            "ClusterVirtualImage" => Some(Self::Cluster),
            _ => None,
        }
    }

    /// The name of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Namespace => "VirtualImage",
            Self::Cluster => "ClusterVirtualImage",
        }
    }
}

/// One image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageId {
    /// Its kind.
    pub kind: ImageKind,
    /// Its name.
    pub name: String,
}

/// The facts of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VirtualImageFacts {
    /// Its phase is Ready.
    pub ready: bool,
    /// It is a CD-ROM.
    pub cdrom: bool,
    /// Size of a disk that is created from it, in bytes.
    pub unpacked: Option<u64>,
}

/// The facts of a snapshot of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskSnapshotFacts {
    /// Minimum size of a disk that is created from it, in bytes.
    pub restore_size: Option<u64>,
}

/// The facts of a stored revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredRevisionFacts {
    /// The pool that it belongs to.
    pub owner: Option<ObjectId>,
    /// The disk templates that its machines have a device for.
    pub disks: Vec<String>,
}

impl StoredRevisionFacts {
    /// Reads a ControllerRevision of `apps/v1` leniently.
    pub fn read(object: &Value) -> Self {
        let owners = json_entries(json_at_path(object, &["metadata", "ownerReferences"]));
        let controller = owners.iter().find(|owner| json_field(owner, "controller") == true);
        let pool = controller.map(OwnerIdentity::of_json).filter(|owner| is_a::<DvpPoolObject>(*owner));
        let devices = json_entries(json_at_path(object, &["data", "spec", "blockDeviceRefs"]));
        Self {
            owner: pool.map(|owner| ObjectId::new(owner.name, owner.uid)),
            disks: devices
                .iter()
                .filter(|device| json_text(device, "kind") == Some("VirtualDisk"))
                .filter_map(|device| json_text(device, "name").map(str::to_owned))
                .collect(),
        }
    }
}

/// The class of the machines of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassName {
    /// The class with this name.
    Named(String),
    /// The default class of the cluster.
    Default,
}

/// The objects that the rules need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NeededObjects {
    /// The class.
    pub class: Option<ClassName>,
    /// Images.
    pub images: BTreeSet<ImageId>,
    /// Names of VirtualDiskSnapshots of the pool's namespace.
    pub snapshots: BTreeSet<String>,
    /// Names of storage classes.
    pub storage_classes: BTreeSet<String>,
    /// Possible names of a ControllerRevision in the pool's namespace, in order. The first one that belongs
    /// to the pool is used.
    pub revisions: Vec<String>,
}

impl NeededObjects {
    /// Whether the rules need no objects.
    pub fn is_empty(&self) -> bool {
        self.class.is_none()
            && self.images.is_empty()
            && self.snapshots.is_empty()
            && self.storage_classes.is_empty()
            && self.revisions.is_empty()
    }
}

/// The objects that were read. An object without an entry was not read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DvpAdmissionFacts {
    /// The class.
    pub class: Option<LookupOutcome<MachineClass>>,
    /// Images.
    pub images: BTreeMap<ImageId, LookupOutcome<VirtualImageFacts>>,
    /// Snapshots by name.
    pub snapshots: BTreeMap<String, LookupOutcome<DiskSnapshotFacts>>,
    /// Storage classes by name.
    pub storage_classes: BTreeMap<String, LookupOutcome<()>>,
    /// The results for [`NeededObjects::revisions`], in the same order.
    pub revisions: Vec<LookupOutcome<StoredRevisionFacts>>,
}
