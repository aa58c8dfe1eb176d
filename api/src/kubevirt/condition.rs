//! Conditions as KubeVirt writes them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::conditions::ConditionFields;

/// A condition of a KubeVirt object.
///
/// Kubernetes' own condition type requires a reason, a message and a transition time. KubeVirt omits these,
/// and has the time of a probe besides.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What the condition describes.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why the condition has this status, one CamelCase word for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The same as a sentence for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the condition was last checked. KubeVirt sets it anew whenever the reason changes, and leaves it
    /// empty in a condition that it copied from a pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
    /// When the status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Fields that this crate does not know. They are written as they were read.
    #[serde(flatten)]
    pub unknown_fields: BTreeMap<String, Value>,
}

impl Condition {
    /// Whether the condition holds. `Unknown` does not.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// Whether the condition does not hold. `Unknown` is neither.
    pub fn is_false(&self) -> bool {
        self.status == "False"
    }
}

impl ConditionFields for Condition {
    fn condition_type(&self) -> &str {
        &self.type_
    }

    fn status(&self) -> &str {
        &self.status
    }

    fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    fn observed_generation(&self) -> Option<i64> {
        // KubeVirt's own conditions do not have the field; those of vmpool can.
        self.unknown_fields.get("observedGeneration").and_then(Value::as_i64)
    }
}
