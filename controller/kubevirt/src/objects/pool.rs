//! Pools.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vmpool_engine::activity::Writers;
use vmpool_engine::limits;
use vmpool_engine::model::UsedCopy;
use vmpool_instancetype::model::TypeFamily;
use vmpool_platform::activity::ManagedFields;
use vmpool_platform::decode::{lenient_list, lenient_value, short_status, short_text};
use vmpool_platform::spec_text::SpecText;
use vmpool_platform::{intern_text, meta};

use super::super::selectors::LabelSelector;
use super::metadata::{FinalizerSummary, strip_cached_metadata};

/// A VirtualMachinePool. Its spec is stored as text in the cache.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Wire")]
pub struct KubeVirtPoolObject {
    /// Object metadata, without labels and finalizers.
    pub metadata: ObjectMeta,
    /// The finalizers of the pool.
    pub finalizers: FinalizerSummary,
    /// The clients that last wrote fields of the spec.
    pub(crate) writers: Writers,
    spec: SpecText<Brief>,
    /// `spec.selector` in its canonical form, which every status contains; empty if it cannot be read.
    pub(crate) selector: Arc<str>,
    pub(crate) status: KubeVirtPoolStatus,
}

#[derive(Deserialize)]
struct Wire {
    #[serde(deserialize_with = "meta::metadata_with_managed_fields")]
    metadata: (ObjectMeta, Option<ManagedFields>),
    #[serde(default)]
    spec: SpecText<Brief>,
    #[serde(default, deserialize_with = "short_status")]
    status: KubeVirtPoolStatus,
}

impl From<Wire> for KubeVirtPoolObject {
    fn from(Wire { metadata: (mut metadata, managed), spec, status }: Wire) -> Self {
        /// The only part of the spec that each pass needs.
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Selected {
            selector: Value,
        }
        let finalizers = strip_cached_metadata(&mut metadata);
        let Selected { selector } = serde_json::from_str(spec.text()).unwrap_or_default();
        let selector = LabelSelector::read(&selector).map(|selector| selector.to_string());
        let selector = intern_text(&selector.unwrap_or_default());
        let writers = managed.unwrap_or_default().writers(&["paused"]);
        Self { metadata, finalizers, writers, spec, selector, status }
    }
}

impl KubeVirtPoolObject {
    /// The whole spec as JSON, which a revision stores. Of a spec that exceeds the limits, only the count.
    pub fn spec(&self) -> Value {
        serde_json::from_str(self.spec.text()).unwrap_or_default()
    }

    /// `spec.virtualMachineTemplate`; null if the spec has none or exceeds the limits.
    pub fn template(&self) -> Value {
        match self.spec() {
            Value::Object(mut spec) => spec.remove("virtualMachineTemplate").unwrap_or_default(),
            _ => Value::Null,
        }
    }

    /// Why the spec is not read completely.
    pub(crate) fn spec_error(&self) -> Option<String> {
        let size = self.spec.size();
        if size > limits::POOL_SPEC {
            let limit = limits::POOL_SPEC;
            return Some(format!(
                "spec takes {size} bytes of JSON, more than the limit of {limit}; shorten virtualMachineTemplate"
            ));
        }
        self.spec.error()
    }
}

/// The field that the status needs even if the pool is invalid.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Brief {
    #[serde(deserialize_with = "lenient_value", skip_serializing_if = "Option::is_none")]
    replicas: Option<u64>,
}

/// The published status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct KubeVirtPoolStatus {
    #[serde(deserialize_with = "lenient_value")]
    pub(crate) replicas: Option<usize>,
    #[serde(deserialize_with = "lenient_value")]
    pub(crate) ready_replicas: Option<usize>,
    #[serde(deserialize_with = "lenient_value")]
    pub(crate) label_selector: Option<String>,
    #[serde(deserialize_with = "lenient_value")]
    pub(crate) observed_generation: Option<i64>,
    #[serde(deserialize_with = "lenient_value")]
    pub(crate) available_replicas: Option<usize>,
    #[serde(deserialize_with = "lenient_value")]
    pub(crate) updated_replicas: Option<usize>,
    #[serde(deserialize_with = "lenient_value")]
    pub(crate) restart_pending_replicas: Option<usize>,
    #[serde(deserialize_with = "lenient_value")]
    pub(crate) standby_replicas: Option<usize>,
    #[serde(deserialize_with = "lenient_value")]
    pub(crate) ready_standby_replicas: Option<usize>,
    #[serde(deserialize_with = "lenient_value")]
    pub(crate) draining_replicas: Option<usize>,
    #[serde(deserialize_with = "lenient_value")]
    pub(crate) image_outdated_replicas: Option<usize>,
    #[serde(deserialize_with = "lenient_value")]
    pub(crate) healed_replicas: Option<u64>,
    #[serde(deserialize_with = "short_text")]
    pub(crate) current_revision: Option<String>,
    #[serde(deserialize_with = "lenient_value")]
    instancetype_ref: Option<CopyReference>,
    #[serde(deserialize_with = "lenient_value")]
    preference_ref: Option<CopyReference>,
    /// Complete, because conditions of other controllers are written back unchanged.
    #[serde(deserialize_with = "lenient_list")]
    pub(crate) conditions: Vec<Value>,
    #[serde(deserialize_with = "lenient_list")]
    pub(crate) activity: Vec<Value>,
}

/// The copy of an instance type or a preference that machines of the pool use.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CopyReference {
    #[serde(deserialize_with = "short_text")]
    name: Option<String>,
    #[serde(deserialize_with = "short_text")]
    kind: Option<String>,
    #[serde(deserialize_with = "lenient_value")]
    controller_revision_ref: RevisionReference,
    #[serde(deserialize_with = "short_text")]
    infer_from_volume: Option<String>,
    #[serde(deserialize_with = "short_text")]
    infer_from_volume_failure_policy: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct RevisionReference {
    #[serde(deserialize_with = "short_text")]
    name: Option<String>,
}

impl KubeVirtPoolStatus {
    /// The copies that it shows.
    pub(crate) fn used_copies(&self) -> impl Iterator<Item = UsedCopy> {
        let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
        let shown = [
            (TypeFamily::Instancetype, self.instancetype_ref.as_ref()),
            (TypeFamily::Preference, self.preference_ref.as_ref()),
        ];
        shown.into_iter().filter_map(move |(family, reference)| {
            let reference = reference?;
            Some(UsedCopy {
                field: family.field(),
                name: text(&reference.name),
                kind: text(&reference.kind),
                copy: text(&reference.controller_revision_ref.name),
                volume: text(&reference.infer_from_volume),
                volume_policy: text(&reference.infer_from_volume_failure_policy),
            })
        })
    }
}

vmpool_platform::api_object!(
    KubeVirtPoolObject,
    "pool.kubevirt.io",
    "v1beta1",
    "VirtualMachinePool",
    "virtualmachinepools"
);
