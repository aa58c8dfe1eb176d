//! VolumeSnapshot, VolumeSnapshotContent and DataSource.

use super::{KubeVirtObjectMetadata, SimulatedKubeVirtCondition, knobs_of};
use crate::{
    knobs::Knobs,
    objects::{NamespacedKey, StoredObject},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// A VolumeSnapshot on the wire.
pub type StoredSnapshot = StoredObject<Value, SnapshotStatus>;
/// A VolumeSnapshotContent on the wire.
pub type StoredContent = StoredObject<Value, Value>;
/// A DataSource on the wire.
pub type StoredDataSource = StoredObject<Value, SimulatedDataSourceStatus>;

/// The status of a VolumeSnapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotStatus {
    /// Name of its content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_volume_snapshot_content_name: Option<String>,
    /// When the copy was made, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_time: Option<String>,
    /// Whether a volume can be made from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_to_use: Option<bool>,
    /// The smallest size of such a volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_size: Option<String>,
    /// The last error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<SnapshotError>,
}

/// Why a snapshot cannot be used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotError {
    /// For users.
    pub message: String,
    /// When it happened, RFC 3339.
    pub time: String,
}

/// The last observed state of a VolumeSnapshot.
#[derive(Clone, Debug)]
pub struct SnapshotView {
    /// Metadata.
    pub meta: KubeVirtObjectMetadata,
    /// Knobs in its annotations.
    pub knobs: Option<Box<Knobs>>,
    /// Name of the claim that it copies.
    pub claim: Option<String>,
    /// Status.
    pub status: SnapshotStatus,
}

impl SnapshotView {
    /// Reads a stored snapshot.
    pub fn read(stored: StoredSnapshot) -> Self {
        let (namespace, name) = (stored.metadata.namespace.clone(), stored.metadata.name.clone());
        let meta = KubeVirtObjectMetadata::read(stored.metadata);
        Self {
            knobs: knobs_of(namespace.as_deref(), name.as_deref(), &meta.annotations),
            meta,
            claim: stored.spec["source"]["persistentVolumeClaimName"].as_str().map(str::to_owned),
            status: stored.status,
        }
    }

    /// The key of its content.
    pub fn content(&self) -> NamespacedKey {
        NamespacedKey::new("", &format!("snapcontent-{}", self.meta.uid))
    }
}

/// The last observed state of a VolumeSnapshotContent.
#[derive(Clone, Debug)]
pub struct ContentView {
    /// Metadata.
    pub meta: KubeVirtObjectMetadata,
    /// Its snapshot.
    pub snapshot: NamespacedKey,
    /// UID of its snapshot.
    pub snapshot_uid: Arc<str>,
}

impl ContentView {
    /// Reads a stored content.
    pub fn read(stored: StoredContent) -> Self {
        let reference = &stored.spec["volumeSnapshotRef"];
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        Self {
            snapshot: NamespacedKey::new(text("namespace"), text("name")),
            snapshot_uid: Arc::from(text("uid")),
            meta: KubeVirtObjectMetadata::read(stored.metadata),
        }
    }
}

/// The status of a DataSource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SimulatedDataSourceStatus {
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<SimulatedKubeVirtCondition>,
    /// What it means, copied from the spec.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub source: Value,
}

/// The last observed state of a DataSource.
#[derive(Clone, Debug)]
pub struct DataSourceView {
    /// Metadata.
    pub meta: KubeVirtObjectMetadata,
    /// What it means.
    pub source: Value,
    /// Status.
    pub status: SimulatedDataSourceStatus,
}

impl DataSourceView {
    /// Reads a stored DataSource.
    pub fn read(mut stored: StoredDataSource) -> Self {
        let source = stored.spec["source"].take();
        Self { meta: KubeVirtObjectMetadata::read(stored.metadata), source, status: stored.status }
    }
}
