//! The simulator's views of KubeVirt's and CDI's objects.
//!
//! Specs stay JSON, because the controllers copy them from one kind of object to the next. Only what the
//! simulator reads is typed.

mod instance;
mod launcher;
mod machine;
mod object;
mod revision;
mod snapshot;
mod volume;

pub use instance::{
    InstancePhase, InstancePhaseTransition, InstanceStatus, InstanceView, StoredKubeVirtInstance, claims_of,
};
pub use launcher::{LauncherView, PodCondition, StoredLauncher};
pub use machine::{
    KubeVirtMachineView, RunStrategy, SimulatedKubeVirtMachineSpec, SimulatedKubeVirtMachineStatus,
    SimulatedStartFailure, StateChangeRequest, StoredKubeVirtMachine,
};
pub use object::ObservedKubeVirtObject;
pub use revision::{MatcherKind, RevisionView, SimulatedMatcher, StoredCopyRevision};
pub use snapshot::{
    ContentView, DataSourceView, SimulatedDataSourceStatus, SnapshotError, SnapshotStatus, SnapshotView,
    StoredContent, StoredDataSource, StoredSnapshot,
};
pub use volume::{ClaimView, DataVolumeView, SimulatedDataVolumeStatus, StoredClaim, StoredDataVolume};

use crate::{
    knobs::Knobs,
    objects::{NamespacedKey, Pairs, warn_about_knob},
};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, Pod},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::api::ApiResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// Group and version of VirtualMachine and VirtualMachineInstance.
pub const KUBEVIRT: &str = "kubevirt.io/v1";
/// Group and version of VolumeSnapshot and VolumeSnapshotContent.
pub const SNAPSHOT: &str = "snapshot.storage.k8s.io/v1";
/// Group and version of DataVolume and DataSource.
pub const CDI: &str = "cdi.kubevirt.io/v1beta1";
/// Label of a copy of an instance type or a preference.
pub const COPY: &str = "instancetype.kubevirt.io/object-kind";
/// Finalizer that the VM controller puts on VirtualMachines and VirtualMachineInstances.
pub const CONTROLLER_FINALIZER: &str = "kubevirt.io/virtualMachineControllerFinalize";
/// Finalizer of the node agent on VirtualMachineInstances.
pub const FOREGROUND_FINALIZER: &str = "kubevirt.io/foregroundDeleteVirtualMachine";
/// Label with the UID of the object that a DataVolume or a launcher Pod was created for.
pub const CREATED_BY: &str = "kubevirt.io/created-by";
/// Annotation of a DataVolume that allows CDI to adopt a claim of the same name.
pub const ALLOW_ADOPTION: &str = "cdi.kubevirt.io/allowClaimAdoption";
/// Label of every launcher Pod, and its value.
pub const LAUNCHER: (&str, &str) = ("kubevirt.io", "virt-launcher");

/// The kinds of objects that the simulator follows one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KubeVirtObjectKind {
    /// VirtualMachine.
    Machine,
    /// VirtualMachineInstance: one run of a machine. It has the name of its machine.
    Instance,
    /// DataVolume.
    DataVolume,
    /// PersistentVolumeClaim.
    Claim,
    /// The launcher Pod of an instance.
    Pod,
    /// DataSource.
    DataSource,
    /// VolumeSnapshot.
    Snapshot,
    /// VolumeSnapshotContent. It has no namespace.
    Content,
    /// ControllerRevision with a copy of an instance type or a preference.
    Revision,
}

impl KubeVirtObjectKind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Machine,
        Self::Instance,
        Self::DataVolume,
        Self::Claim,
        Self::Pod,
        Self::DataSource,
        Self::Snapshot,
        Self::Content,
        Self::Revision,
    ];

    /// The kind's name in the API.
    pub fn resource(self) -> ApiResource {
        let (api_version, kind, plural) = match self {
            Self::Machine => (KUBEVIRT, "VirtualMachine", "virtualmachines"),
            Self::Instance => (KUBEVIRT, "VirtualMachineInstance", "virtualmachineinstances"),
            Self::DataVolume => (CDI, "DataVolume", "datavolumes"),
            Self::DataSource => (CDI, "DataSource", "datasources"),
            Self::Snapshot => (SNAPSHOT, "VolumeSnapshot", "volumesnapshots"),
            Self::Content => (SNAPSHOT, "VolumeSnapshotContent", "volumesnapshotcontents"),
            Self::Revision => ("apps/v1", "ControllerRevision", "controllerrevisions"),
            Self::Claim => return ApiResource::erase::<PersistentVolumeClaim>(&()),
            Self::Pod => return ApiResource::erase::<Pod>(&()),
        };
        let (group, version) = api_version.split_once('/').unwrap_or_default();
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        }
    }
}

/// One object: its kind, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KubeVirtObjectId {
    /// Kind.
    pub kind: KubeVirtObjectKind,
    /// Namespace and name.
    pub key: NamespacedKey,
}

impl KubeVirtObjectId {
    /// An identity from its two parts.
    pub fn new(kind: KubeVirtObjectKind, key: &NamespacedKey) -> Self {
        Self { kind, key: key.clone() }
    }
}

/// The metadata that the simulator uses.
#[derive(Clone, Debug, Default)]
pub struct KubeVirtObjectMetadata {
    /// UID.
    pub uid: Arc<str>,
    /// Resource version. Versions of one resource can be compared.
    pub version: u64,
    /// Generation of the spec.
    pub generation: i64,
    /// Deletion time in whole seconds, if the object is being deleted.
    pub deleted_at: Option<Timestamp>,
    /// Finalizers, in their order.
    pub finalizers: Vec<String>,
    /// Owner references, in their order.
    pub owners: Vec<OwnerReference>,
    /// Labels.
    pub labels: Pairs,
    /// Annotations, without kubectl's copy of the manifest.
    pub annotations: Pairs,
}

impl KubeVirtObjectMetadata {
    /// Reads metadata that the API server wrote.
    pub fn read(meta: ObjectMeta) -> Self {
        let mut annotations = meta.annotations.unwrap_or_default();
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        Self {
            uid: Arc::from(meta.uid.unwrap_or_default()),
            version: meta.resource_version.and_then(|version| version.parse().ok()).unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            deleted_at: meta.deletion_timestamp.map(|time| time.0),
            finalizers: meta.finalizers.unwrap_or_default(),
            owners: meta.owner_references.unwrap_or_default(),
            labels: meta.labels.unwrap_or_default(),
            annotations,
        }
    }

    /// Whether a deletion timestamp is set.
    pub fn deleting(&self) -> bool {
        self.deleted_at.is_some()
    }

    /// Whether a finalizer is set.
    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == name)
    }

    /// The owner that controls the object.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owners.iter().find(|owner| owner.controller == Some(true))
    }

    /// Whether the object with this UID controls this one.
    pub fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller().is_some_and(|owner| owner.uid == uid)
    }
}

/// A condition of a VirtualMachine or VirtualMachineInstance.
///
/// `lastProbeTime` is written even if it is null: KubeVirt does so for conditions that it copies from Pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SimulatedKubeVirtCondition {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason, in CamelCase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the condition was last checked, RFC 3339.
    pub last_probe_time: Option<String>,
    /// When the condition last changed, RFC 3339.
    pub last_transition_time: Option<String>,
    /// On DataVolumes: when status, reason or message last changed, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<String>,
}

impl SimulatedKubeVirtCondition {
    /// Whether this condition has that status and reason.
    pub fn says(&self, status: &str, reason: &str) -> bool {
        self.status == status && self.reason.as_deref() == Some(reason)
    }
}

/// The condition of a type.
pub fn find_condition<'a>(
    conditions: &'a [SimulatedKubeVirtCondition],
    type_: &str,
) -> Option<&'a SimulatedKubeVirtCondition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Names of the DataVolumes, then of the PersistentVolumeClaims that the volumes of an instance's spec refer
/// to.
pub fn volumes_of(instance_spec: &Value) -> (Vec<String>, Vec<String>) {
    let mut names = (Vec::new(), Vec::new());
    for volume in instance_spec["volumes"].as_array().into_iter().flatten() {
        if let Some(name) = volume["dataVolume"]["name"].as_str() {
            names.0.push(name.to_owned());
        }
        if let Some(name) = volume["persistentVolumeClaim"]["claimName"].as_str() {
            names.1.push(name.to_owned());
        }
    }
    names
}

/// Reads the knobs in the annotations of an object and warns about those that cannot be read.
fn knobs_of(namespace: Option<&str>, name: Option<&str>, annotations: &Pairs) -> Option<Box<Knobs>> {
    let (knobs, errors) = Knobs::from_annotations(annotations);
    for error in errors {
        warn_about_knob(namespace, name, &error);
    }
    knobs
}
