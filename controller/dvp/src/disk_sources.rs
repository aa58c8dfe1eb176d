//! The images and snapshots that disks are created from.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use vmpool_api::ObjectKey;
use vmpool_engine::model::Lifetime;
use vmpool_platform::decode::lenient_value;
use vmpool_platform::value::json_text;
use vmpool_platform::{
    DiskSourceKind, DiskSourceRef, DiskSourceState, DiskSourceVisitor, DiskSources, NamedDiskSource,
    slim_metadata,
};

use super::Dvp;
use super::objects::{DvpDiskTemplate, DvpPoolObject};

/// The phase of an image or a snapshot from which disks can be created.
const READY: &str = "Ready";

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct SourceStatus {
    #[serde(deserialize_with = "lenient_value")]
    phase: String,
}

/// The content of an object never changes, so its UID identifies the content.
fn read_state(metadata: &ObjectMeta, status: &SourceStatus) -> DiskSourceState {
    let id = metadata.uid.as_deref().unwrap_or_default();
    if status.phase != READY || metadata.deletion_timestamp.is_some() || id.is_empty() {
        return DiskSourceState::Unready;
    }
    let created = metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    DiskSourceState::Content { id: id.into(), created }
}

macro_rules! source_kinds {
    ($($(#[$doc:meta])* $type:ident $kind:literal $plural:literal $namespaced:literal;)+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Deserialize)]
            struct $type {
                #[serde(deserialize_with = "slim_metadata")]
                metadata: ObjectMeta,
                #[serde(default, deserialize_with = "lenient_value")]
                status: SourceStatus,
            }

            vmpool_platform::api_object!($type, "virtualization.deckhouse.io", "v1alpha2", $kind, $plural);

            impl DiskSourceKind for $type {
                const IS_NAMESPACED: bool = $namespaced;
                const KIND: &'static str = $kind;

                fn state(&self) -> DiskSourceState {
                    read_state(&self.metadata, &self.status)
                }
            }
        )+

        fn visit_kinds(visitor: &mut impl DiskSourceVisitor) {
            $(visitor.visit::<$type>();)+
        }

        /// The kind with this name, and whether its objects are in namespaces.
        fn find_kind(name: &str) -> Option<(&'static str, bool)> {
            [$(($kind, $namespaced)),+].into_iter().find(|(kind, _)| *kind == name)
        }
    };
}

source_kinds! {
    /// An image of a namespace.
    VirtualImageObject "VirtualImage" "virtualimages" true;
    /// An image of the cluster.
    ClusterImageObject "ClusterVirtualImage" "clustervirtualimages" false;
    /// A snapshot of a disk.
    DiskSnapshotObject "VirtualDiskSnapshot" "virtualdisksnapshots" true;
}

impl DiskSources<DvpPoolObject> for Dvp {
    fn named(pool: &DvpPoolObject) -> Vec<NamedDiskSource> {
        let namespace = pool.metadata.namespace.as_deref().unwrap_or_default();
        let templates = pool.spec().virtual_disk_templates;
        templates.iter().filter_map(|template| read_named_source(namespace, template)).collect()
    }
    fn each_kind(visitor: &mut impl DiskSourceVisitor) {
        visit_kinds(visitor);
    }
}

/// What an ephemeral disk template names; `None` if it names no object.
fn read_named_source(namespace: &str, template: &DvpDiskTemplate) -> Option<NamedDiskSource> {
    if template.lifetime() == Lifetime::Retained {
        return None;
    }
    let reference = template.spec.pointer("/dataSource/objectRef")?;
    let (kind, is_namespaced) = find_kind(json_text(reference, "kind")?)?;
    let namespace = if is_namespaced { namespace } else { "" };
    let key = ObjectKey::new(namespace, json_text(reference, "name")?);
    Some(NamedDiskSource { template: Arc::from(&*template.name), source: DiskSourceRef { kind, key } })
}

#[cfg(test)]
mod tests;
