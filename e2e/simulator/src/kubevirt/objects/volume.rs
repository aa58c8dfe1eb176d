//! DataVolume and PersistentVolumeClaim.

use super::{KubeVirtObjectMetadata, SimulatedKubeVirtCondition, knobs_of};
use crate::{knobs::Knobs, objects::StoredObject};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A DataVolume on the wire.
pub type StoredDataVolume = StoredObject<Value, SimulatedDataVolumeStatus>;
/// A PersistentVolumeClaim on the wire.
pub type StoredClaim = StoredObject<Value, Value>;

/// The status of a DataVolume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SimulatedDataVolumeStatus {
    /// Phase; empty until CDI has processed the DataVolume.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// How much is copied, in percent, or `N/A`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// Name of the claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_name: Option<String>,
    /// How often the copy was restarted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_count: Option<u64>,
    /// Conditions `Bound`, `Running` and `Ready`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<SimulatedKubeVirtCondition>,
}

/// The last observed state of a DataVolume.
#[derive(Clone, Debug)]
pub struct DataVolumeView {
    /// Metadata.
    pub meta: KubeVirtObjectMetadata,
    /// Knobs in its annotations.
    pub knobs: Option<Box<Knobs>>,
    /// Spec.
    pub spec: Value,
    /// Status.
    pub status: SimulatedDataVolumeStatus,
}

impl DataVolumeView {
    /// Reads a stored DataVolume.
    pub fn read(stored: StoredDataVolume) -> Self {
        let (namespace, name) = (stored.metadata.namespace.clone(), stored.metadata.name.clone());
        let meta = KubeVirtObjectMetadata::read(stored.metadata);
        Self {
            knobs: knobs_of(namespace.as_deref(), name.as_deref(), &meta.annotations),
            meta,
            spec: stored.spec,
            status: stored.status,
        }
    }

    /// Whether its claim is populated.
    pub fn succeeded(&self) -> bool {
        self.status.phase == "Succeeded"
    }

    /// Whether it waits for the first instance that uses it.
    pub fn waits_for_consumer(&self) -> bool {
        matches!(&*self.status.phase, "WaitForFirstConsumer" | "PendingPopulation")
    }

    /// Whether the copy fails.
    pub fn fails(&self) -> bool {
        let running = super::find_condition(&self.status.conditions, "Running");
        let error = |reason| running.is_some_and(|running| running.says("False", reason));
        self.status.phase == "Failed" || error("Error") || error("ImagePullFailed")
    }

    /// The part of the spec that describes the claim: `storage`, or the older `pvc`.
    pub fn claim_template(&self) -> &Value {
        if self.spec["storage"].is_object() { &self.spec["storage"] } else { &self.spec["pvc"] }
    }
}

/// The last observed state of a claim.
#[derive(Clone, Debug)]
pub struct ClaimView {
    /// Metadata.
    pub meta: KubeVirtObjectMetadata,
    /// Spec.
    pub spec: Value,
    /// Phase.
    pub phase: Option<String>,
}

impl ClaimView {
    /// Reads a stored claim.
    pub fn read(stored: StoredClaim) -> Self {
        Self {
            meta: KubeVirtObjectMetadata::read(stored.metadata),
            spec: stored.spec,
            phase: stored.status["phase"].as_str().map(str::to_owned),
        }
    }

    /// Whether several Pods may have it open at the same time.
    pub fn is_shared(&self) -> bool {
        let modes = self.spec["accessModes"].as_array();
        modes.into_iter().flatten().any(|mode| mode == "ReadWriteMany" || mode == "ReadOnlyMany")
    }
}
