//! Machines.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::{Value, json};
use vmpool_api::kubevirt::values::RunStrategy;
use vmpool_engine::limits;
use vmpool_engine::model::MachineReferences;
use vmpool_engine::standby::{STANDBY, StandbyPhase};
use vmpool_instancetype::pins;
use vmpool_platform::decode::{lenient_list, lenient_value};
use vmpool_platform::intern::{InternTable, intern_text};
use vmpool_platform::slim_metadata;

use super::super::labels::CachedLabels;
use super::machine_status::{KubeVirtMachineStatus, WireMachineStatus};
use super::metadata::{FinalizerSummary, strip_cached_metadata};

/// The fields of a VirtualMachine that vmpool reads.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Wire")]
pub struct KubeVirtMachineObject {
    /// Object metadata, without labels and finalizers.
    pub metadata: ObjectMeta,
    /// The finalizers of the machine.
    pub finalizers: FinalizerSummary,
    /// Its labels, which the selector of the pool selects. `None` if they are too large to be kept: the pool
    /// then treats the machine as selected, because releasing it would be the destructive error.
    pub(crate) labels: Option<CachedLabels>,
    /// Its phase, if it is a standby machine.
    pub(crate) standby: Option<StandbyPhase>,
    /// The labels in its template, which its VirtualMachineInstance gets. `None` if they are too large to be
    /// kept.
    pub(crate) inner_labels: Option<CachedLabels>,
    /// The node selector in its template. `None` if it is too large to be kept.
    pub(crate) node_selector: Option<CachedLabels>,
    /// When it runs; `None` if neither field is set or if vmpool does not know the value.
    pub(crate) run_strategy: Option<RunStrategy>,
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

#[derive(Deserialize)]
struct Wire {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "lenient_value")]
    spec: WireSpec,
    #[serde(default, deserialize_with = "lenient_value")]
    status: WireMachineStatus,
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
    fn from(Wire { mut metadata, spec, status }: Wire) -> Self {
        let labels: BTreeMap<_, _> = metadata.labels.take().unwrap_or_default();
        let finalizers = strip_cached_metadata(&mut metadata);
        let WireSpec { run_strategy, running, instancetype, preference, data_volume_templates, template } =
            spec;
        let inner = template.spec;
        Self {
            metadata,
            finalizers,
            standby: labels.get(STANDBY).map(|text| StandbyPhase::read(text)),
            labels: CachedLabels::of(&labels),
            inner_labels: CachedLabels::from_json(&template.metadata.labels),
            node_selector: CachedLabels::from_json(&inner.node_selector),
            run_strategy: RunStrategy::of(run_strategy.as_deref(), running),
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
                let recorded = [&status.instancetype_ref, &status.preference_ref];
                pins::machine_references(
                    &spec,
                    recorded.into_iter().map(|recorded| &recorded["controllerRevisionRef"]["name"]),
                )
            },
            status: status.into(),
        }
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
