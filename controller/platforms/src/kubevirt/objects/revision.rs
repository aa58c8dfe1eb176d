//! ControllerRevisions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::metadata::slim;
use crate::decode::lenient;
use crate::{Text, slim_metadata};

/// The fields of a ControllerRevision that vmpool reads.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Wire")]
pub struct RevisionObject {
    /// Object metadata, without labels and finalizers.
    pub metadata: ObjectMeta,
    /// The spec of the pool at that time, as JSON text.
    pub data: Text,
    /// `metadata.generation` of the pool at that time.
    pub revision: i64,
}

#[derive(Deserialize)]
struct Wire {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    data: Text,
    #[serde(default, deserialize_with = "lenient")]
    revision: i64,
}

impl From<Wire> for RevisionObject {
    fn from(Wire { mut metadata, data, revision }: Wire) -> Self {
        slim(&mut metadata);
        Self { metadata, data, revision }
    }
}

crate::api_object!(RevisionObject, "apps", "v1", "ControllerRevision", "controllerrevisions");
