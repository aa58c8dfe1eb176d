//! Objects of which only some fields are read.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;
use serde_json::Value;
use vmpool_api::kubevirt;
use vmpool_platforms::slim_metadata;

/// The kinds of the objects with the data of an image: what imports it, its snapshot, and what machines name.
pub(crate) type ImageVolumeKind = kubevirt::DataVolume;
pub(crate) type ImageSnapshotKind = kubevirt::VolumeSnapshot;
pub(crate) type ImageSourceKind = kubevirt::DataSource;

/// An object of kind `K`, with its spec and its status as they are stored. A field of a newer version cannot
/// fail the list.
#[derive(Deserialize)]
#[serde(bound = "")]
pub(super) struct UntypedObject<K> {
    #[serde(deserialize_with = "slim_metadata")]
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    pub(super) spec: Value,
    #[serde(default)]
    pub(super) status: Value,
    /// Of ControllerRevisions.
    #[serde(default)]
    pub(super) data: Value,
    #[serde(skip)]
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for UntypedObject<K> {
    fn clone(&self) -> Self {
        Self {
            metadata: self.metadata.clone(),
            spec: self.spec.clone(),
            status: self.status.clone(),
            data: self.data.clone(),
            kind: PhantomData,
        }
    }
}

impl<K> fmt::Debug for UntypedObject<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loose").field("metadata", &self.metadata).finish_non_exhaustive()
    }
}

impl<K: Resource<DynamicType = ()>> Resource for UntypedObject<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }
    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }
    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }
    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
