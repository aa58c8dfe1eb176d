//! The launcher Pods of instances.

use super::KubeVirtObjectMetadata;
use crate::objects::StoredObject;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// A launcher Pod on the wire.
pub type StoredLauncher = StoredObject<Value, Value>;

/// A condition of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True` or `False`.
    pub status: String,
    /// Reason, in CamelCase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the status last changed, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
}

/// The last observed state of a launcher Pod.
#[derive(Clone, Debug)]
pub struct LauncherView {
    /// Metadata.
    pub meta: KubeVirtObjectMetadata,
    /// UID of its instance.
    pub owner: Arc<str>,
    /// Name of its instance.
    pub instance: Arc<str>,
    /// Node.
    pub node: String,
    /// Phase.
    pub phase: String,
    /// Conditions.
    pub conditions: Vec<PodCondition>,
    /// Why its container waits.
    pub waits: Option<String>,
}

impl LauncherView {
    /// Reads a stored Pod. A Pod that no instance controls is not a launcher Pod.
    pub fn read(stored: StoredLauncher) -> Option<Self> {
        let meta = KubeVirtObjectMetadata::read(stored.metadata);
        let owner = meta.controller().filter(|owner| owner.kind == "VirtualMachineInstance")?;
        let (owner, instance) = (Arc::from(&*owner.uid), Arc::from(&*owner.name));
        let status = &stored.status;
        Some(Self {
            meta,
            owner,
            instance,
            node: stored.spec["nodeName"].as_str().unwrap_or_default().to_owned(),
            phase: status["phase"].as_str().unwrap_or_default().to_owned(),
            conditions: serde_json::from_value(status["conditions"].clone()).unwrap_or_default(),
            waits: status["containerStatuses"][0]["state"]["waiting"]["reason"].as_str().map(str::to_owned),
        })
    }

    /// The condition of a type.
    pub fn condition(&self, type_: &str) -> Option<&PodCondition> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }
}
