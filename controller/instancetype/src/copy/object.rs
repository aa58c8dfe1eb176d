//! A copy: the stored object, its labels and its owners.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use vmpool_api::OwnerIdentity;

use super::name::{CopiedObjectState, compose_copy_name};
use crate::model::{InstanceTypeKind, InstanceTypeObject, VERSION};
use crate::tree::{self, Malformed};

/// The labels of a copy.
pub mod labels {
    /// The name of the object.
    pub const NAME: &str = "instancetype.kubevirt.io/object-name";
    /// The kind of the object.
    pub const KIND: &str = "instancetype.kubevirt.io/object-kind";
    /// The UID of the object.
    pub const UID: &str = "instancetype.kubevirt.io/object-uid";
    /// The generation of the object.
    pub const GENERATION: &str = "instancetype.kubevirt.io/object-generation";
    /// The API version of the stored data.
    pub const VERSION: &str = "instancetype.kubevirt.io/object-version";

    /// All of them.
    pub const ALL: [&str; 5] = [NAME, KIND, UID, GENERATION, VERSION];
}

/// Metadata of the stored object: what identifies it.
const KEPT: [&str; 6] = ["name", "namespace", "uid", "generation", "resourceVersion", "creationTimestamp"];

/// The kind of the owner of a pin.
const POOL: &str = "VirtualMachinePool";

/// The owner of a copy: a machine, or a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyOwner {
    /// The API version, for example `kubevirt.io/v1`.
    pub api_version: String,
    /// The kind, for example `VirtualMachine`.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The UID.
    pub uid: String,
    /// Whether it is the controller. A machine that was detached from a pool is a further owner that is not.
    pub controller: bool,
}

impl CopyOwner {
    /// A VirtualMachine that controls its copy.
    pub fn machine(name: impl Into<String>, uid: impl Into<String>) -> Self {
        Self {
            api_version: "kubevirt.io/v1".to_owned(),
            kind: "VirtualMachine".to_owned(),
            name: name.into(),
            uid: uid.into(),
            controller: true,
        }
    }

    fn identity(&self) -> OwnerIdentity<'_> {
        let Self { api_version, kind, name, uid, .. } = self;
        OwnerIdentity::new(api_version, kind, name, uid)
    }

    fn to_json(&self) -> Value {
        json!({
            "apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid,
            "controller": self.controller, "blockOwnerDeletion": self.controller,
        })
    }

    fn read(reference: &Value) -> Result<Self, Malformed> {
        let owned = |path| Ok::<_, Malformed>(tree::text_at(reference, path)?.unwrap_or_default().to_owned());
        Ok(Self {
            api_version: owned("apiVersion")?,
            kind: owned("kind")?,
            name: owned("name")?,
            uid: owned("uid")?,
            controller: tree::flag_at(reference, "controller")?.unwrap_or(false),
        })
    }
}

/// A ControllerRevision that stores an instance type or a preference, or should.
#[derive(Debug, Clone, PartialEq)]
pub struct InstanceTypeCopy {
    /// The name of the ControllerRevision.
    pub name: String,
    /// Its namespace: that of the machine.
    pub namespace: String,
    /// Its owners.
    pub owners: Vec<CopyOwner>,
    /// Its labels, those of other components included.
    pub labels: BTreeMap<String, String>,
    /// The stored object.
    pub data: Value,
}

/// The object has no UID or no generation, so it was not read from an API server and cannot be copied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {name} has no UID or no generation; only objects of an API server can be stashed")]
pub struct Unidentified {
    /// The kind of the object.
    pub kind: InstanceTypeKind,
    /// The name of the object.
    pub name: String,
}

impl InstanceTypeCopy {
    /// The copy of an object for an owner in a namespace.
    ///
    /// The spec is stored exactly as it was written, including fields that this version does not know.
    ///
    /// # Errors
    /// [`Unidentified`].
    pub fn of(
        object: &InstanceTypeObject,
        owner: CopyOwner,
        namespace: impl Into<String>,
    ) -> Result<Self, Unidentified> {
        let identity = &object.identity;
        let (Some(uid), Some(generation)) = (&identity.uid, identity.generation) else {
            return Err(Unidentified { kind: object.kind, name: identity.name.clone() });
        };
        let recorded = CopiedObjectState { uid: uid.clone(), generation };
        Ok(Self {
            name: compose_copy_name(&owner.name, &identity.name, VERSION, &recorded),
            namespace: namespace.into(),
            owners: vec![owner],
            labels: object_labels(object, Some(&recorded)),
            data: reduce_metadata(object.document()),
        })
    }

    /// Reads a ControllerRevision.
    ///
    /// # Errors
    /// Its metadata has the wrong type. Decoding examines the data, and not this function.
    pub fn read(revision: &Value) -> Result<Self, Malformed> {
        let owned = |path| Ok::<_, Malformed>(tree::text_at(revision, path)?.unwrap_or_default().to_owned());
        let owners = tree::items_at(revision, "metadata.ownerReferences")?.iter().map(CopyOwner::read);
        Ok(Self {
            name: owned("metadata.name")?,
            namespace: owned("metadata.namespace")?,
            owners: owners
                .collect::<Result<_, _>>()
                .map_err(|error| error.below("metadata.ownerReferences"))?,
            labels: tree::text_map_at(revision, "metadata.labels")?.unwrap_or_default(),
            data: revision.get("data").cloned().unwrap_or(Value::Null),
        })
    }

    /// The ControllerRevision to create.
    pub fn to_json(&self) -> Value {
        let owners: Vec<_> = self.owners.iter().map(CopyOwner::to_json).collect();
        json!({
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": self.labels,
                "ownerReferences": owners,
            },
            "data": self.data,
            "revision": 0,
        })
    }

    /// Whether the machine with this name and UID, which is in the namespace of the copy, owns it.
    pub fn is_owned_by(&self, name: &str, uid: &str) -> bool {
        let machine = CopyOwner::machine(name, uid);
        self.owners.iter().any(|owner| owner.identity() == machine.identity())
    }

    /// Whether several machines may use the copy: it has several owners, or a pool owns it.
    pub fn is_shared(&self) -> bool {
        self.owners.len() > 1 || self.owners.iter().any(|owner| owner.kind == POOL)
    }

    /// Whether the copy has none of the [`labels`]: a first version of KubeVirt wrote it.
    pub fn is_unlabeled(&self) -> bool {
        labels::ALL.iter().all(|label| !self.labels.contains_key(*label))
    }
}

/// The labels of an object's copy. UID and generation are left out if they are unknown.
pub(super) fn object_labels(
    object: &InstanceTypeObject,
    recorded: Option<&CopiedObjectState>,
) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([
        (labels::NAME.to_owned(), object.identity.name.clone()),
        (labels::KIND.to_owned(), object.kind.as_str().to_owned()),
        (labels::VERSION.to_owned(), VERSION.to_owned()),
    ]);
    if let Some(CopiedObjectState { uid, generation }) = recorded {
        labels.insert(labels::UID.to_owned(), uid.clone());
        labels.insert(labels::GENERATION.to_owned(), generation.to_string());
    }
    labels
}

/// A copy of an object whose metadata is reduced to what identifies it.
pub(super) fn reduce_metadata(document: &Value) -> Value {
    let mut document = document.clone();
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
        let kept: Map<_, _> =
            KEPT.iter().filter_map(|key| Some(((*key).to_owned(), metadata.get(*key)?.clone()))).collect();
        *metadata = kept;
    }
    document
}
