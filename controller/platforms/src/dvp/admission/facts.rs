//! What rules know beyond the object itself: settings of the cluster, and objects that were read for the request.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use vmpool_engine::admission::{Found, Known, Users};

use super::class::Class;
use super::view::{at, field, list, text};

/// Properties of the cluster that no object tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Software-defined networks: machines may have networks besides the main one.
    pub sdn: Known,
    /// Address ranges for machines: they may be on the main network.
    pub machine_cidrs: Known,
    /// GPUs can be passed to machines.
    pub gpus: Known,
    /// The size of a running machine can change, and a vertical autoscaler changes it.
    pub in_place_resize: Known,
}

/// What is fixed for the life of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The users with more rights than other users.
    pub users: Users,
    /// The cluster.
    pub cluster: Cluster,
}

/// Which kind of image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImageKind {
    /// Of the pool's namespace.
    Namespace,
    /// Of the cluster.
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

/// What a rule reads of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Its phase is Ready.
    pub ready: bool,
    /// It is a CD-ROM.
    pub cdrom: bool,
    /// Bytes of a disk made from it.
    pub unpacked: Option<u64>,
}

/// What a rule reads of a snapshot of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Bytes that a disk made from it needs at least.
    pub restore_size: Option<u64>,
}

/// What a rule reads of a stored revision of a machine template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revision {
    /// UID of the pool that it belongs to.
    pub owner: Option<String>,
    /// The disk templates that its machines have a device for.
    pub disks: Vec<String>,
}

impl Revision {
    /// Reads a ControllerRevision of `apps/v1`, leniently as all objects are read here.
    pub fn read(object: &Value) -> Self {
        let owners = list(at(object, &["metadata", "ownerReferences"]));
        let controller = owners.iter().find(|owner| field(owner, "controller") == true);
        let devices = list(at(object, &["data", "spec", "blockDeviceRefs"]));
        Self {
            owner: controller.and_then(|owner| text(owner, "uid")).map(str::to_owned),
            disks: devices
                .iter()
                .filter(|device| text(device, "kind") == Some("VirtualDisk"))
                .filter_map(|device| text(device, "name").map(str::to_owned))
                .collect(),
        }
    }
}

/// The class that machines of the template would get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassName {
    /// The one that is named.
    Named(String),
    /// The cluster's default.
    Default,
}

/// What the rules want to have read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The class.
    pub class: Option<ClassName>,
    /// Images.
    pub images: BTreeSet<ImageId>,
    /// Names of VirtualDiskSnapshots of the pool's namespace.
    pub snapshots: BTreeSet<String>,
    /// Names that a ControllerRevision of the pool's namespace may have, in their order. The first that is the pool's
    /// counts.
    pub revisions: Vec<String>,
}

impl Needs {
    /// Whether nothing has to be read.
    pub fn is_empty(&self) -> bool {
        self.class.is_none()
            && self.images.is_empty()
            && self.snapshots.is_empty()
            && self.revisions.is_empty()
    }
}

/// What was read. What is missing here counts as absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The class.
    pub class: Option<Found<Class>>,
    /// Images.
    pub images: BTreeMap<ImageId, Found<Image>>,
    /// Snapshots by name.
    pub snapshots: BTreeMap<String, Found<Snapshot>>,
    /// What was found under each of [`Needs::revisions`].
    pub revisions: Vec<Found<Revision>>,
}
