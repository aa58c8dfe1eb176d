//! The simulator's views of objects. Fields that it does not use are dropped when an object is decoded.

mod disk;
mod machine;
mod other;
mod stored;

pub use disk::{
    AttachedTo, DiskDataSource, DiskDataSourceKind, DiskPhase, DiskTarget, DiskView, SimulatedDiskSpec,
    SimulatedDiskStatus, StoredDvpDisk,
};
pub use machine::{
    DeviceKind, DeviceStatus, DvpMachineView, MachinePhase, PodEntry, RestartAwaitingChange, RunPolicy,
    SimulatedDeviceRef, SimulatedDvpMachineSpec, SimulatedDvpMachineStatus, StoredDvpMachine, unknown_size,
};
pub use other::{
    AttachmentView, BindingMode, ClassView, ImageView, OperationPhase, OperationType, OperationView, PodView,
    StoredAttachment, StoredImage, StoredOperation, StoredPod,
};
pub use stored::StoredObject;

use crate::knobs::{KnobError, Knobs, PREFIX};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// Group and version of the platform's objects.
pub const API_VERSION: &str = "virtualization.deckhouse.io/v1alpha2";
/// Finalizer of every machine.
pub const VM_CLEANUP: &str = "virtualization.deckhouse.io/vm-cleanup";
/// Finalizer of every disk.
pub const VD_CLEANUP: &str = "virtualization.deckhouse.io/vd-cleanup";
/// Finalizer of a disk that is attached.
pub const VD_PROTECTION: &str = "virtualization.deckhouse.io/vd-protection";
/// Annotation with the UIDs of the machines that used a disk, oldest first, separated by commas.
pub const MOUNT_LOG: &str = "simulator.vmpool.dev/mount-log";
/// Annotation that the knob `bump-annotations` changes.
pub const BUMPED: &str = "simulator.vmpool.dev/bumped";
/// Label of the Pods of running machines; its value is the machine's name.
pub const POD_LABEL: &str = "simulator.vmpool.dev/vm";

/// The kinds of objects that the simulator watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DvpObjectKind {
    /// VirtualMachine.
    Machine,
    /// VirtualDisk.
    Disk,
    /// VirtualImage.
    Image,
    /// ClusterVirtualImage.
    ClusterImage,
    /// VirtualMachineOperation.
    Operation,
    /// VirtualMachineBlockDeviceAttachment.
    Attachment,
    /// The Pods of running machines.
    Pod,
}

/// Namespace and name of an object. The namespace of a cluster-scoped object is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NamespacedKey {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl NamespacedKey {
    /// Creates a key.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: Arc::from(namespace), name: Arc::from(name) }
    }

    /// The key of another object in the same namespace.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Self {
        Self { namespace: self.namespace.clone(), name: Arc::from(name) }
    }
}

impl fmt::Display for NamespacedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// An object's kind and key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DvpObjectId {
    /// Kind.
    pub kind: DvpObjectKind,
    /// Namespace and name.
    pub key: NamespacedKey,
}

impl DvpObjectId {
    /// Creates an identity.
    pub fn new(kind: DvpObjectKind, key: NamespacedKey) -> Self {
        Self { kind, key }
    }
}

/// The metadata that the simulator uses.
#[derive(Clone, Debug, Default)]
pub struct DvpObjectMetadata {
    /// UID.
    pub uid: Arc<str>,
    /// Resource version; they increase within one resource.
    pub version: u64,
    /// Generation of the spec.
    pub generation: i64,
    /// Creation time, in seconds of the Unix epoch.
    pub created: i64,
    /// Whether a deletion timestamp is set.
    pub deleting: bool,
    /// Finalizers, in order.
    pub finalizers: Vec<String>,
}

impl DvpObjectMetadata {
    /// The view of an object's metadata.
    pub fn read(meta: &ObjectMeta) -> Self {
        Self {
            uid: Arc::from(meta.uid.as_deref().unwrap_or_default()),
            version: meta.resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            created: meta.creation_timestamp.as_ref().map(|t| t.0.as_second()).unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
        }
    }

    /// Whether a finalizer is set.
    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == name)
    }
}

/// Labels or annotations.
pub type Pairs = BTreeMap<String, String>;

/// Parses the knobs of an object, and warns about invalid ones.
fn knobs_of(meta: &ObjectMeta) -> Option<Box<Knobs>> {
    let annotations = meta.annotations.as_ref()?;
    let (knobs, errors) = Knobs::from_annotations(annotations);
    for error in errors {
        warn_about_knob(meta.namespace.as_deref(), meta.name.as_deref(), &error);
    }
    knobs
}

/// Warns about a knob that has no effect because it is invalid.
pub fn warn_about_knob(namespace: Option<&str>, name: Option<&str>, error: &KnobError) {
    tracing::warn!(namespace, name, %error, "an invalid knob has no effect");
}

/// The annotations that are copied to a machine's Pod: all but knobs and kubectl's last applied
/// configuration.
fn annotations_for_pod(annotations: Option<Pairs>) -> Pairs {
    let mut kept = annotations.unwrap_or_default();
    kept.retain(|key, _| {
        !key.starts_with(PREFIX) && key != "kubectl.kubernetes.io/last-applied-configuration"
    });
    kept
}

/// A condition of the platform's objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SimulatedDvpCondition {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason, in CamelCase.
    pub reason: String,
    /// A text for users.
    pub message: String,
    /// The generation for which it was computed.
    pub observed_generation: Option<i64>,
    /// When the status last changed, RFC 3339, in seconds.
    pub last_transition_time: String,
}

impl SimulatedDvpCondition {
    /// A condition that replaces the one of its type in `observed`. If its status is the same, it keeps the
    /// transition time.
    pub fn next(
        observed: &[Self],
        type_: &str,
        (status, reason, message): (bool, &str, String),
        generation: i64,
        now: Timestamp,
    ) -> Self {
        let status = if status { "True" } else { "False" };
        let last_transition_time = observed
            .iter()
            .find(|old| old.type_ == type_ && old.status == status)
            .map_or_else(|| format_seconds(now), |old| old.last_transition_time.clone());
        Self {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            observed_generation: Some(generation),
            last_transition_time,
        }
    }
}

/// A time in the API server's format: RFC 3339, in whole seconds.
pub fn format_seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
