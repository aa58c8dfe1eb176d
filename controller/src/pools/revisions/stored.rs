//! The stored objects of revisions.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use serde::Deserialize;
use vmpool_api::OwnerIdentity;
use vmpool_engine::limits;
use vmpool_engine::model::{MachineReferences, UsedCopy};
use vmpool_engine::revisions::StoredRevision;
use vmpool_engine::{ObjectId, Uid};
use vmpool_platforms::{
    CopiedObject, Platform, RevisionObjects, TemplateCopies, Text, intern_text, is_a, is_controlled_by,
    slim_metadata,
};

use crate::pools::cache::{CacheKey, Cached};
use crate::pools::pool_key::PoolKey;

/// The fields of a ControllerRevision that vmpool reads.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RevisionObject {
    #[serde(deserialize_with = "slim_metadata")]
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) data: Text,
    #[serde(default)]
    revision: i64,
}

vmpool_platforms::api_object!(RevisionObject, "apps", "v1", "ControllerRevision", "controllerrevisions");

/// The metadata of a ControllerRevision, for the watch.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RevisionMetadata {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
}

vmpool_platforms::api_object!(RevisionMetadata, "apps", "v1", "ControllerRevision", "controllerrevisions");

/// What the cache holds of a stored revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RevisionFacts {
    pub(crate) id: ObjectId,
    /// The pool that owns it. A copy that a machine had before, or got from a snapshot, has another
    /// controller.
    pub(crate) owner: Option<ObjectId>,
    /// Whether it is a copy of an object for the pool that owns it.
    pub(crate) is_pin: bool,
    /// The same, and for no other owner.
    pub(crate) is_only_pin: bool,
    /// Whether its labels say that it contains a copy in the current version of the API.
    pub(crate) is_current_version: bool,
}

impl RevisionFacts {
    pub(crate) fn read<P: Platform>(object: &RevisionMetadata) -> Self {
        let metadata = object.meta();
        let owner = pool_of::<P>(metadata);
        let is_pin =
            owner.as_ref().is_some_and(|owner| P::TemplateCopies::is_copy_of_pool(metadata, &owner.uid));
        let is_alone = metadata.owner_references.as_ref().is_some_and(|owners| owners.len() == 1);
        let name = metadata.name.as_deref().unwrap_or_default();
        Self {
            id: ObjectId::new(name, metadata.uid.as_deref().unwrap_or_default()),
            is_only_pin: is_alone && is_pin,
            is_pin,
            is_current_version: P::TemplateCopies::is_current_version(metadata),
            owner,
        }
    }

    /// Whether this, which has the name of a copy, is a usable copy of the pool.
    pub(crate) fn is_pin_of(&self, pool: &ObjectId) -> bool {
        self.is_current_version && self.owner.as_ref() == Some(pool)
    }
}

/// The pool among the owners of an object; the controller if several are pools.
pub(crate) fn pool_of<P: Platform>(metadata: &ObjectMeta) -> Option<ObjectId> {
    let is_pool = |owner: &&OwnerReference| is_a::<P::Pool>(OwnerIdentity::of(owner));
    let pools = metadata.owner_references.iter().flatten().filter(is_pool);
    let pool = pools.max_by_key(|owner| owner.controller == Some(true))?;
    Some(ObjectId {
        name: intern_text(limits::clip_name(&pool.name)),
        uid: intern_text(limits::clip_name(&pool.uid)).into(),
    })
}

impl Cached for RevisionFacts {
    fn name(&self) -> &Arc<str> {
        &self.id.name
    }
    fn uid(&self) -> &Uid {
        &self.id.uid
    }
    fn keys(&self, namespace: &Arc<str>) -> Vec<CacheKey> {
        self.owner.iter().map(|pool| CacheKey::Pool(PoolKey::new(namespace, &pool.uid))).collect()
    }
}

/// A stored revision and its object.
#[derive(Clone, Debug)]
pub(crate) struct RevisionEntry {
    pub(crate) stored: StoredRevision,
    pub(crate) object: ObjectId,
    /// The names of the copies that its content contains.
    pub(crate) copies: Vec<Arc<str>>,
    /// What its machines refer to, if its content contains copies.
    pub(crate) references: Option<MachineReferences>,
    /// The copies that its machines use, for the status.
    pub(crate) used_copies: Arc<[UsedCopy]>,
    /// The objects of which its content contains copies.
    pub(crate) copied: Vec<CopiedObject>,
}

impl RevisionEntry {
    /// Reads a stored revision of a pool; `None` if the object does not belong to the pool.
    pub(crate) fn read<P: Platform>(object: &RevisionObject, pool: &ObjectId) -> Option<Self> {
        let metadata = object.meta();
        let id = P::Revisions::id(metadata)?;
        is_controlled_by::<P::Pool>(metadata, pool).then_some(())?;
        // The controller stores none that is that large, and its parsed tree could use up the memory that all
        // pools share.
        if object.data.bytes() > limits::REVISION {
            return None;
        }
        let data = object.data.value();
        let content = data.is_object().then(|| P::fingerprint(&data))?;
        let parts = P::Revisions::parts(&data);
        let lacks_copies = P::TemplateCopies::lacks_copies(&data);
        let stored = StoredRevision {
            id: limits::clip_name(id).into(),
            number: object.revision,
            content,
            parts,
            lacks_copies,
        };
        let name = metadata.name.as_deref().unwrap_or_default();
        let copies = P::TemplateCopies::copy_objects(&data);
        let copies =
            copies.iter().filter_map(|copy| copy["metadata"]["name"].as_str().map(Arc::from)).collect();
        Some(Self {
            stored,
            object: ObjectId::new(name, metadata.uid.as_deref().unwrap_or_default()),
            copies,
            references: P::TemplateCopies::references(&data),
            used_copies: P::TemplateCopies::used_copies(&data).into(),
            copied: P::TemplateCopies::copied_objects(&data),
        })
    }
}
