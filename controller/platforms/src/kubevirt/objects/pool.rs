//! Pools.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use vmpool_engine::limits;

use super::metadata::{Finalizers, slim};
use crate::decode::{lenient, lenient_list, short_status};
use crate::slim_metadata;

/// A VirtualMachinePool. Its spec is stored as text in the cache.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Wire")]
pub struct PoolObject {
    /// Object metadata, without labels and finalizers.
    pub metadata: ObjectMeta,
    /// The finalizers of the pool.
    pub finalizers: Finalizers,
    spec: SpecText,
    pub(in super::super) status: PoolStatus,
}

#[derive(Deserialize)]
struct Wire {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: SpecText,
    #[serde(default, deserialize_with = "short_status")]
    status: PoolStatus,
}

impl From<Wire> for PoolObject {
    fn from(Wire { mut metadata, spec, status }: Wire) -> Self {
        let finalizers = slim(&mut metadata);
        Self { metadata, finalizers, spec, status }
    }
}

impl PoolObject {
    /// The whole spec as JSON, which a revision stores. Of a spec that exceeds the limits, only the count.
    pub fn spec(&self) -> Value {
        serde_json::from_str(&self.spec.text).unwrap_or_default()
    }

    /// `spec.virtualMachineTemplate`; null if the spec has none or exceeds the limits.
    pub fn template(&self) -> Value {
        match self.spec() {
            Value::Object(mut spec) => spec.remove("virtualMachineTemplate").unwrap_or_default(),
            _ => Value::Null,
        }
    }

    /// Why the spec is not read completely.
    pub(in super::super) fn spec_error(&self) -> Option<String> {
        let SpecText { size, depth, .. } = self.spec;
        if size > limits::POOL_SPEC {
            let limit = limits::POOL_SPEC;
            return Some(format!(
                "spec takes {size} bytes of JSON, more than the limit of {limit}; shorten virtualMachineTemplate"
            ));
        }
        limits::spec_error(size, depth)
    }
}

/// The spec of a pool as JSON text. The parsed tree can need fifty times as much memory, so it exists only while it is
/// needed.
#[derive(Clone, Debug)]
struct SpecText {
    text: Arc<str>,
    /// Length of the stored text, in bytes.
    size: usize,
    /// Nesting depth of the stored text.
    depth: usize,
}

impl Default for SpecText {
    fn default() -> Self {
        Self { text: "null".into(), size: 0, depth: 0 }
    }
}

impl<'de> Deserialize<'de> for SpecText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// The field that the status needs even if the pool is invalid.
        #[derive(Default, Deserialize, Serialize)]
        #[serde(default)]
        struct Brief {
            #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
            replicas: Option<u64>,
        }
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let text = raw.get();
        let (size, depth) = (text.len(), limits::nesting(text));
        if limits::spec_error(size, depth).is_none() {
            return Ok(Self { text: text.into(), size, depth });
        }
        let brief: Brief = serde_json::from_str(text).unwrap_or_default();
        let text = serde_json::to_string(&brief).unwrap_or_default();
        Ok(Self { text: text.into(), size, depth })
    }
}

/// The published status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in super::super) struct PoolStatus {
    #[serde(deserialize_with = "lenient")]
    pub(in super::super) replicas: Option<usize>,
    #[serde(deserialize_with = "lenient")]
    pub(in super::super) ready_replicas: Option<usize>,
    #[serde(deserialize_with = "lenient")]
    pub(in super::super) label_selector: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(in super::super) observed_generation: Option<i64>,
    #[serde(deserialize_with = "lenient")]
    pub(in super::super) available_replicas: Option<usize>,
    #[serde(deserialize_with = "lenient")]
    pub(in super::super) updated_replicas: Option<usize>,
    #[serde(deserialize_with = "lenient")]
    pub(in super::super) restart_pending_replicas: Option<usize>,
    #[serde(deserialize_with = "lenient")]
    pub(in super::super) healed_replicas: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    pub(in super::super) current_revision: Option<String>,
    /// Complete, because conditions of other controllers are written back unchanged.
    #[serde(deserialize_with = "lenient_list")]
    pub(in super::super) conditions: Vec<Value>,
}

crate::api_object!(PoolObject, "pool.kubevirt.io", "v1beta1", "VirtualMachinePool", "virtualmachinepools");
