//! The objects that DataVolumes are cloned from: DataSources, claims and snapshots.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;
use vmpool_api::ObjectKey;
use vmpool_api::kubevirt::values::StatePreservation;
use vmpool_platform::decode::{lenient_list, lenient_value};
use vmpool_platform::value::{json_at_path, json_entries, json_text};
use vmpool_platform::{
    DiskSourceKind, DiskSourceRef, DiskSourceState, DiskSourceVisitor, DiskSources, NamedDiskSource,
    slim_metadata,
};

use super::objects::KubeVirtPoolObject;
use super::platform::KubeVirt;
use super::read::read_pool_settings;

const DATA_SOURCE: &str = "DataSource";
const CLAIM: &str = "PersistentVolumeClaim";
const SNAPSHOT: &str = "VolumeSnapshot";

/// The annotation by which CDI says how far the importer of a claim is.
const IMPORTER_PHASE: &str = "cdi.kubevirt.io/storage.pod.phase";

/// A DataSource. CDI writes what it leads to into the status, and KubeVirt clones that.
#[derive(Clone, Debug, Deserialize)]
struct DataSourceObject {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "lenient_value")]
    spec: DataSourceSpec,
    #[serde(default, deserialize_with = "lenient_value")]
    status: DataSourceStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct DataSourceSpec {
    source: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct DataSourceStatus {
    source: Value,
    #[serde(deserialize_with = "lenient_list")]
    conditions: Vec<Value>,
}

/// A claim with the data of an image.
#[derive(Clone, Debug, Deserialize)]
struct SourceClaimObject {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "lenient_value")]
    status: ClaimStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimStatus {
    #[serde(deserialize_with = "lenient_value")]
    phase: String,
}

/// A snapshot with the data of an image.
#[derive(Clone, Debug, Deserialize)]
struct SourceSnapshotObject {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "lenient_value")]
    status: SnapshotStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SnapshotStatus {
    #[serde(deserialize_with = "lenient_value")]
    ready_to_use: bool,
}

vmpool_platform::api_object!(DataSourceObject, "cdi.kubevirt.io", "v1beta1", "DataSource", "datasources");
vmpool_platform::api_object!(SourceClaimObject, "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
vmpool_platform::api_object!(
    SourceSnapshotObject,
    "snapshot.storage.k8s.io",
    "v1",
    "VolumeSnapshot",
    "volumesnapshots"
);

impl DiskSourceKind for DataSourceObject {
    const KIND: &'static str = DATA_SOURCE;

    fn state(&self) -> DiskSourceState {
        let is_unready = |condition: &Value| condition["type"] == "Ready" && condition["status"] != "True";
        if self.metadata.deletion_timestamp.is_some() || self.status.conditions.iter().any(is_unready) {
            return DiskSourceState::Unready;
        }
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        let mut sources = [&self.status.source, &self.spec.source].into_iter();
        let target = sources.find_map(|source| read_source(namespace, source));
        target.map_or(DiskSourceState::Unready, DiskSourceState::LeadsTo)
    }
}

impl DiskSourceKind for SourceClaimObject {
    const IS_BUILT_IN: bool = true;
    const KIND: &'static str = CLAIM;

    fn state(&self) -> DiskSourceState {
        let annotations = self.metadata.annotations.as_ref();
        let importer = annotations.and_then(|annotations| annotations.get(IMPORTER_PHASE));
        let is_imported = importer.is_none_or(|phase| phase == "Succeeded");
        read_content(&self.metadata, self.status.phase == "Bound" && is_imported)
    }
}

impl DiskSourceKind for SourceSnapshotObject {
    const KIND: &'static str = SNAPSHOT;

    fn state(&self) -> DiskSourceState {
        read_content(&self.metadata, self.status.ready_to_use)
    }
}

/// The data of a claim or a snapshot that is complete is identified by its UID.
fn read_content(metadata: &ObjectMeta, is_ready: bool) -> DiskSourceState {
    let id = metadata.uid.as_deref().unwrap_or_default();
    if !is_ready || metadata.deletion_timestamp.is_some() || id.is_empty() {
        return DiskSourceState::Unready;
    }
    let created = metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    DiskSourceState::Content { id: id.into(), created }
}

impl DiskSources<KubeVirtPoolObject> for KubeVirt {
    /// The storage of a pool that preserves it is retained: the next machine with the name gets it.
    fn named(pool: &KubeVirtPoolObject) -> Vec<NamedDiskSource> {
        let spec = pool.spec();
        if read_pool_settings(&spec).scale_in.preservation != StatePreservation::Disabled {
            return Vec::new();
        }
        let namespace = pool.metadata.namespace.as_deref().unwrap_or_default();
        let templates = json_at_path(&spec, &["virtualMachineTemplate", "spec", "dataVolumeTemplates"]);
        json_entries(templates).iter().filter_map(|template| read_named_source(namespace, template)).collect()
    }
    fn each_kind(visitor: &mut impl DiskSourceVisitor) {
        visitor.visit::<DataSourceObject>();
        visitor.visit::<SourceClaimObject>();
        visitor.visit::<SourceSnapshotObject>();
    }
}

/// What a DataVolume template names; `None` if it names no object.
fn read_named_source(namespace: &str, template: &Value) -> Option<NamedDiskSource> {
    let name = json_text(&template["metadata"], "name")?;
    let spec = &template["spec"];
    let reference = &spec["sourceRef"];
    let source = if reference.is_object() {
        let is_known = json_text(reference, "kind").is_none_or(|kind| kind == DATA_SOURCE);
        read_reference(DATA_SOURCE, namespace, reference).filter(|_| is_known)
    } else {
        read_source(namespace, &spec["source"])
    };
    Some(NamedDiskSource { template: Arc::from(name), source: source? })
}

/// What a source names. CDI prefers another DataSource to what stands beside it.
fn read_source(namespace: &str, source: &Value) -> Option<DiskSourceRef> {
    let kinds = [(DATA_SOURCE, "dataSource"), (SNAPSHOT, "snapshot"), (CLAIM, "pvc")];
    kinds.into_iter().find_map(|(kind, field)| read_reference(kind, namespace, source.get(field)?))
}

/// The object that a reference names. CDI takes an empty namespace for an omitted one.
fn read_reference(kind: &'static str, namespace: &str, reference: &Value) -> Option<DiskSourceRef> {
    let name = json_text(reference, "name").filter(|name| !name.is_empty())?;
    let named = json_text(reference, "namespace").filter(|named| !named.is_empty());
    Some(DiskSourceRef { kind, key: ObjectKey::new(named.unwrap_or(namespace), name) })
}

#[cfg(test)]
mod tests;
