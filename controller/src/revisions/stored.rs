//! The stored objects of revisions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;
use serde_json::{Value, json};
use vmpool_engine::limits;
use vmpool_engine::revision::{Fingerprint, RevisionId, StoredRevision};
use vmpool_engine::{ObjectId, Uid};
use vmpool_platforms::{Platform, Text, controller_of, slim_metadata};

use super::templates::Templates;
use crate::pool_entry::PoolEntry;

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
        let id = metadata.labels.as_ref()?.get(P::REVISION_LABEL)?;
        controller_of(metadata).filter(|owner| owner.uid == *pool)?;
        // No pool spec is that large, and its parsed tree could use up the memory that all pools share.
        if object.data.bytes() > limits::POOL_SPEC {
            return None;
        }
        let data = object.data.value();
        let content = data.is_object().then(|| Fingerprint::of(&P::canonical(&data)))?;
        let stored = StoredRevision { id: limits::clip(id).into(), number: object.revision, content };
        let name = metadata.name.as_deref().unwrap_or_default();
        Some(Self { stored, object: ObjectId::new(name, metadata.uid.as_deref().unwrap_or_default()) })
    }
}

/// The object of a new revision with this `name`.
pub(crate) fn body<P: Platform>(
    pool: &PoolEntry<P>,
    name: &str,
    id: &RevisionId,
    templates: &Templates,
) -> Value {
    let mut labels = P::managed_labels(&pool.object)["metadata"]["labels"].clone();
    labels[P::REVISION_LABEL] = id.as_str().into();
    json!({
        "apiVersion": RevisionObject::api_version(&()),
        "kind": RevisionObject::kind(&()),
        "metadata": {
            "name": name,
            "namespace": &*pool.facts.namespace,
            "labels": labels,
            "ownerReferences": [{
                "apiVersion": P::Pool::api_version(&()),
                "kind": P::Pool::kind(&()),
                "name": &*pool.facts.id.name,
                "uid": pool.facts.id.uid.as_str(),
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "data": templates.wanted.value(),
        "revision": templates.number,
    })
}
