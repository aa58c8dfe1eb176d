//! VirtualMachineInstances.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use vmpool_api::kubevirt::values::InstancePhase;
use vmpool_engine::limits;

use super::super::keys::REVISION_LABEL;
use super::machine::MachineCondition;
use super::metadata::slim;
use crate::decode::{lenient, lenient_list};
use crate::{intern, slim_metadata};

/// The fields of a VirtualMachineInstance that vmpool reads.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Wire")]
pub struct InstanceObject {
    /// Object metadata, without labels and finalizers.
    pub metadata: ObjectMeta,
    pub(in super::super) revision: Option<Arc<str>>,
    pub(in super::super) phase: Option<InstancePhase>,
    pub(in super::super) ready: bool,
}

#[derive(Deserialize)]
struct Wire {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "lenient")]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(deserialize_with = "lenient")]
    phase: String,
    #[serde(deserialize_with = "lenient_list")]
    conditions: Vec<MachineCondition>,
}

impl From<Wire> for InstanceObject {
    fn from(Wire { mut metadata, status }: Wire) -> Self {
        let revision = metadata.labels.as_ref().and_then(|labels| labels.get(REVISION_LABEL));
        let revision = revision.map(|text| intern(limits::clip(text)));
        slim(&mut metadata);
        let is_ready = |condition: &MachineCondition| condition.kind == "Ready" && condition.status == "True";
        Self {
            metadata,
            revision,
            phase: status.phase.parse().ok(),
            ready: status.conditions.iter().any(is_ready),
        }
    }
}

crate::api_object!(InstanceObject, "kubevirt.io", "v1", "VirtualMachineInstance", "virtualmachineinstances");
