//! Machines.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::{Value, json};
use vmpool_engine::limits;
use vmpool_engine::model::MachineReferences;
use vmpool_platform::decode::{lenient_list, lenient_value};
use vmpool_platform::intern::{InternTable, intern_text};
use vmpool_platform::slim_metadata;

use super::super::labels::CachedLabels;
use super::super::pins;
use super::metadata::{FinalizerSummary, strip_cached_metadata};

/// The fields of a VirtualMachine that vmpool reads.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Wire")]
pub struct KubeVirtMachineObject {
    /// Object metadata, without labels and finalizers.
    pub metadata: ObjectMeta,
    /// The finalizers of the machine.
    pub finalizers: FinalizerSummary,
    pub(crate) labels: Option<CachedLabels>,
    pub(crate) inner_labels: Option<CachedLabels>,
    pub(crate) node_selector: Option<CachedLabels>,
    pub(crate) run_strategy: Option<String>,
    pub(crate) running: Option<bool>,
    pub(crate) storage: MachineStorageNames,
    /// Its instance type and its preference.
    pub(crate) references: MachineReferences,
    pub(crate) status: KubeVirtMachineStatus,
}

/// Names of the storage objects of a machine, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MachineStorageNames {
    /// In `dataVolumeTemplates`.
    pub(crate) templates: Vec<String>,
    /// In volumes that refer to a DataVolume.
    pub(crate) data_volumes: Vec<String>,
    /// In volumes that refer to a claim.
    pub(crate) claims: Vec<String>,
    /// The volumes that refer to a DataVolume or a claim.
    pub(crate) sources: Vec<VolumeSource>,
    /// Names of all volumes in the machine.
    pub(crate) volumes: Arc<[Arc<str>]>,
}

/// A volume, and the storage that it refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeSource {
    /// Name of the volume.
    pub(crate) volume: String,
    /// Whether it refers to a DataVolume, and not to a claim.
    pub(crate) is_data_volume: bool,
    /// Name of the DataVolume or the claim.
    pub(crate) name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct KubeVirtMachineStatus {
    #[serde(deserialize_with = "lenient_value")]
    pub(crate) printable_status: Option<String>,
    #[serde(deserialize_with = "lenient_value")]
    pub(crate) start_failure: StartFailure,
    /// Only those that vmpool reads.
    #[serde(deserialize_with = "lenient_list")]
    pub(crate) conditions: Vec<MachineCondition>,
    #[serde(deserialize_with = "lenient_list")]
    pub(crate) state_change_requests: Vec<StartStopRequest>,
    /// Name of the VirtualMachineSnapshot that is being taken.
    #[serde(deserialize_with = "lenient_value")]
    pub(crate) snapshot_in_progress: Option<String>,
    /// Name of the VirtualMachineRestore that replaces its volumes.
    #[serde(deserialize_with = "lenient_value")]
    pub(crate) restore_in_progress: Option<String>,
    /// Taken when the machine is read: [`KubeVirtMachineObject::references`] contains the copy.
    instancetype_ref: Value,
    /// The same of the preference.
    preference_ref: Value,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StartFailure {
    #[serde(deserialize_with = "lenient_value")]
    pub(crate) consecutive_fail_count: u64,
}

/// A start or stop that a client requested. Only the number of requests is read.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct StartStopRequest {}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MachineCondition {
    #[serde(rename = "type", deserialize_with = "lenient_value")]
    pub(crate) kind: String,
    #[serde(deserialize_with = "lenient_value")]
    pub(crate) status: String,
    #[serde(deserialize_with = "lenient_value")]
    pub(crate) last_transition_time: Option<Timestamp>,
    /// Only that of a condition that says why the machine is not ready: see [`explains_unreadiness`].
    #[serde(deserialize_with = "lenient_value")]
    pub(crate) message: String,
}

#[derive(Deserialize)]
struct Wire {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "lenient_value")]
    spec: WireSpec,
    #[serde(default, deserialize_with = "lenient_value")]
    status: KubeVirtMachineStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec {
    #[serde(deserialize_with = "lenient_value")]
    run_strategy: Option<String>,
    #[serde(deserialize_with = "lenient_value")]
    running: Option<bool>,
    instancetype: Value,
    preference: Value,
    #[serde(deserialize_with = "lenient_list")]
    data_volume_templates: Vec<WireTemplate<Named>>,
    #[serde(deserialize_with = "lenient_value")]
    template: WireTemplate<InnerMetadata, InnerSpec>,
}

#[derive(Default, Deserialize)]
#[serde(
    default,
    bound = "M: serde::de::DeserializeOwned + Default, S: serde::de::DeserializeOwned + Default"
)]
struct WireTemplate<M, S = ()> {
    #[serde(deserialize_with = "lenient_value")]
    metadata: M,
    #[serde(deserialize_with = "lenient_value")]
    spec: S,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InnerMetadata {
    #[serde(deserialize_with = "lenient_value")]
    labels: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InnerSpec {
    #[serde(deserialize_with = "lenient_value")]
    node_selector: Value,
    #[serde(deserialize_with = "lenient_list")]
    volumes: Vec<WireVolume>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireVolume {
    #[serde(deserialize_with = "lenient_value")]
    name: String,
    #[serde(deserialize_with = "lenient_value")]
    data_volume: Named,
    #[serde(deserialize_with = "lenient_value")]
    persistent_volume_claim: Claim,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    #[serde(deserialize_with = "lenient_value")]
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Claim {
    #[serde(deserialize_with = "lenient_value")]
    claim_name: String,
}

impl From<Wire> for KubeVirtMachineObject {
    fn from(Wire { mut metadata, spec, mut status }: Wire) -> Self {
        let labels: BTreeMap<_, _> = metadata.labels.take().unwrap_or_default();
        let finalizers = strip_cached_metadata(&mut metadata);
        // Every machine has the condition that a node was found for it. Only the opposite is read.
        let is_read = |condition: &MachineCondition| {
            READ.contains(&condition.kind.as_str())
                && (condition.kind != SCHEDULED || condition.status == "False")
        };
        status.conditions.retain(is_read);
        status.conditions.truncate(READ.len());
        for condition in &mut status.conditions {
            let text = std::mem::take(&mut condition.message);
            if explains_unreadiness(condition) {
                condition.message = limits::shorten_message(text);
            }
        }
        let WireSpec { run_strategy, running, instancetype, preference, data_volume_templates, template } =
            spec;
        let inner = template.spec;
        Self {
            metadata,
            finalizers,
            labels: CachedLabels::of(&labels),
            inner_labels: CachedLabels::from_json(&template.metadata.labels),
            node_selector: CachedLabels::from_json(&inner.node_selector),
            run_strategy: run_strategy.map(|text| limits::clip_name(&text).to_owned()),
            running,
            storage: MachineStorageNames {
                volumes: shared_volume_names(&inner.volumes),
                sources: volume_sources(&inner.volumes),
                templates: distinct_names(
                    data_volume_templates.into_iter().map(|template| template.metadata.name),
                ),
                claims: distinct_names(
                    inner.volumes.iter().map(|volume| volume.persistent_volume_claim.claim_name.clone()),
                ),
                data_volumes: distinct_names(inner.volumes.into_iter().map(|volume| volume.data_volume.name)),
            },
            references: {
                let spec = json!({ "instancetype": instancetype, "preference": preference });
                let status = [status.instancetype_ref.take(), status.preference_ref.take()];
                pins::machine_references(
                    &spec,
                    status.iter().map(|recorded| &recorded["controllerRevisionRef"]["name"]),
                )
            },
            status,
        }
    }
}

/// The condition types that vmpool reads.
const READ: [&str; 5] = ["Ready", "RestartRequired", FAILURE, PAUSED, SCHEDULED];

/// The condition of a machine whose instance KubeVirt cannot create.
pub(crate) const FAILURE: &str = "Failure";

/// The condition of a machine whose guest is paused.
pub(crate) const PAUSED: &str = "Paused";

/// The condition of a machine for which a node was found, or none.
pub(crate) const SCHEDULED: &str = "PodScheduled";

/// Whether the message of a condition says why the machine is not ready.
fn explains_unreadiness(condition: &MachineCondition) -> bool {
    match condition.kind.as_str() {
        FAILURE | PAUSED => condition.status == "True",
        SCHEDULED => condition.status == "False",
        _ => false,
    }
}

/// The names of the volumes. Many machines have the same list, which therefore exists once.
fn shared_volume_names(volumes: &[WireVolume]) -> Arc<[Arc<str>]> {
    static RECENT: InternTable<[Arc<str>]> = InternTable::new();
    let names = distinct_names(volumes.iter().map(|volume| volume.name.clone()));
    let names: Vec<Arc<str>> = names.iter().map(|name| intern_text(name)).collect();
    RECENT.get(&names, || names.as_slice().into())
}

/// The storage of the volumes.
fn volume_sources(volumes: &[WireVolume]) -> Vec<VolumeSource> {
    let is_name = |name: &&String| !name.is_empty() && name.len() <= limits::NAME;
    let sources = volumes.iter().filter_map(|volume| {
        let data_volume = Some(&volume.data_volume.name).filter(is_name);
        let claim = Some(&volume.persistent_volume_claim.claim_name).filter(is_name);
        let (is_data_volume, name) = (data_volume.is_some(), data_volume.or(claim)?.clone());
        let volume = Some(&volume.name).filter(is_name)?.clone();
        Some(VolumeSource { volume, is_data_volume, name })
    });
    sources.take(limits::ENTRIES).collect()
}

/// The names in their order, each once, without texts that are no names.
fn distinct_names(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for text in texts.filter(|text| !text.is_empty() && text.len() <= limits::NAME) {
        if !names.contains(&text) {
            names.push(text);
        }
    }
    names.shrink_to_fit();
    names
}

vmpool_platform::api_object!(KubeVirtMachineObject, "kubevirt.io", "v1", "VirtualMachine", "virtualmachines");
