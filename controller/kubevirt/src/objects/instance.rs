//! VirtualMachineInstances.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vmpool_api::kubevirt::values::InstancePhase;
use vmpool_engine::limits;
use vmpool_engine::revisions::{Fingerprint, LiveParts};
use vmpool_platform::decode::{lenient_list, lenient_value};
use vmpool_platform::intern::InternTable;
use vmpool_platform::{intern_text, slim_metadata};

use super::super::canonical_values::live_parts;
use super::super::keys::REVISION_LABEL;
use super::hot_plug::{HotPlug, take_pending_hot_plugs};
use super::machine_status::MachineCondition;
use super::metadata::strip_cached_metadata;

/// The fields of a VirtualMachineInstance that vmpool reads.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Wire")]
pub struct InstanceObject {
    /// Object metadata, without labels and finalizers.
    pub metadata: ObjectMeta,
    pub(crate) revision: Option<Arc<str>>,
    pub(crate) live: LiveParts,
    pub(crate) phase: Option<InstancePhase>,
    pub(crate) ready: bool,
    pub(crate) pending_update: Option<Arc<str>>,
}

#[derive(Deserialize)]
struct Wire {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "lenient_value")]
    spec: Spec,
    #[serde(default, deserialize_with = "lenient_value")]
    status: Status,
}

/// The fields that KubeVirt changes while the instance runs.
#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(deserialize_with = "lenient_value")]
    domain: Domain,
    affinity: Value,
    node_selector: Value,
    tolerations: Value,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Domain {
    #[serde(deserialize_with = "lenient_value")]
    cpu: Cpu,
    #[serde(deserialize_with = "lenient_value")]
    memory: Memory,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Cpu {
    sockets: Value,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Memory {
    guest: Value,
}

/// The memory that the guest has.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct GuestMemory {
    guest_current: Value,
}

impl Spec {
    /// The live parts, shared by the instances of one template.
    fn live_parts(&self) -> LiveParts {
        static RECENT: InternTable<BTreeSet<Fingerprint>> = InternTable::new();
        let spec = serde_json::to_value(self).unwrap_or_default();
        live_parts(&spec).shared(|parts| RECENT.get(&parts.clone(), || parts))
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(deserialize_with = "lenient_value")]
    phase: String,
    #[serde(deserialize_with = "lenient_list")]
    conditions: Vec<MachineCondition>,
    #[serde(rename = "currentCPUTopology", deserialize_with = "lenient_value")]
    topology: Cpu,
    #[serde(deserialize_with = "lenient_value")]
    memory: GuestMemory,
}

impl From<Wire> for InstanceObject {
    fn from(Wire { mut metadata, mut spec, status }: Wire) -> Self {
        let revision = metadata.labels.as_ref().and_then(|labels| labels.get(REVISION_LABEL));
        let revision = revision.map(|text| intern_text(limits::clip_name(text)));
        strip_cached_metadata(&mut metadata);
        let Status { phase, conditions, topology, memory } = status;
        let hot_plugs = [
            HotPlug::sockets(&mut spec.domain.cpu.sockets, topology.sockets),
            HotPlug::memory(&mut spec.domain.memory.guest, memory.guest_current),
        ];
        let pending = take_pending_hot_plugs(hot_plugs, &conditions);
        let is_ready = |condition: &MachineCondition| condition.kind == "Ready" && condition.status == "True";
        Self {
            metadata,
            revision,
            live: spec.live_parts(),
            phase: phase.parse().ok(),
            ready: conditions.iter().any(is_ready),
            pending_update: pending.as_deref().map(intern_text),
        }
    }
}

vmpool_platform::api_object!(
    InstanceObject,
    "kubevirt.io",
    "v1",
    "VirtualMachineInstance",
    "virtualmachineinstances"
);
