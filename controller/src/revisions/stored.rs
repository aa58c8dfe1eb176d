//! The stored objects of revisions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;
use vmpool_engine::limits;
use vmpool_engine::revision::{Fingerprint, StoredRevision};
use vmpool_engine::{ObjectId, Uid};
use vmpool_platforms::{Platform, Revisions, Text, controller_of, slim_metadata};

/// The fields of a ControllerRevision that vmpool reads.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RevisionObject {
    #[serde(deserialize_with = "slim_metadata")]
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    pub(super) data: Text,
    #[serde(default)]
    revision: i64,
}

vmpool_platforms::api_object!(RevisionObject, "apps", "v1", "ControllerRevision", "controllerrevisions");

/// A stored revision and its object.
#[derive(Clone, Debug)]
pub(crate) struct RevisionEntry {
    pub(crate) stored: StoredRevision,
    pub(crate) object: ObjectId,
}

impl RevisionEntry {
    /// Reads a stored revision of a pool; `None` if the object does not belong to the pool.
    pub(crate) fn read<P: Platform>(object: &RevisionObject, pool: &Uid) -> Option<Self> {
        let metadata = object.meta();
        let id = P::Revisions::id(metadata)?;
        controller_of(metadata).filter(|owner| owner.uid == *pool)?;
        // No pool spec is that large, and its parsed tree could use up the memory that all pools share.
        if object.data.bytes() > limits::POOL_SPEC {
            return None;
        }
        let data = object.data.value();
        let content = data.is_object().then(|| Fingerprint::of(&P::canonical(&data)))?;
        let parts = P::Revisions::parts(&data);
        let stored = StoredRevision { id: limits::clip(id).into(), number: object.revision, content, parts };
        let name = metadata.name.as_deref().unwrap_or_default();
        Some(Self { stored, object: ObjectId::new(name, metadata.uid.as_deref().unwrap_or_default()) })
    }
}
