//! Machines.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::{Value, json};
use vmpool_engine::limits;
use vmpool_engine::model::References;

use super::super::labels::Labels;
use super::super::pins;
use super::metadata::{Finalizers, slim};
use crate::decode::{lenient, lenient_list};
use crate::intern::{Table, intern};
use crate::slim_metadata;

/// The fields of a VirtualMachine that vmpool reads.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Wire")]
pub struct MachineObject {
    /// Object metadata, without labels and finalizers.
    pub metadata: ObjectMeta,
    /// The finalizers of the machine.
    pub finalizers: Finalizers,
    pub(in super::super) labels: Option<Labels>,
    pub(in super::super) inner_labels: Option<Labels>,
    pub(in super::super) node_selector: Option<Labels>,
    pub(in super::super) run_strategy: Option<String>,
    pub(in super::super) running: Option<bool>,
    pub(in super::super) storage: Storage,
    /// Its instance type and its preference.
    pub(in super::super) references: References,
    pub(in super::super) status: MachineStatus,
}

/// Names of the storage objects of a machine, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Storage {
    /// In `dataVolumeTemplates`.
    pub(in super::super) templates: Vec<String>,
    /// In volumes that refer to a DataVolume.
    pub(in super::super) data_volumes: Vec<String>,
    /// In volumes that refer to a claim.
    pub(in super::super) claims: Vec<String>,
    /// The volumes that refer to a DataVolume or a claim.
    pub(in super::super) sources: Vec<VolumeSource>,
    /// Names of all volumes in the machine.
    pub(in super::super) volumes: Arc<[Arc<str>]>,
}

/// A volume, and the storage that it refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct VolumeSource {
    /// Name of the volume.
    pub(in super::super) volume: String,
    /// Whether it refers to a DataVolume, and not to a claim.
    pub(in super::super) is_data_volume: bool,
    /// Name of the DataVolume or the claim.
    pub(in super::super) name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in super::super) struct MachineStatus {
    #[serde(deserialize_with = "lenient")]
    pub(in super::super) printable_status: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(in super::super) start_failure: StartFailure,
    /// Only those that vmpool reads.
    #[serde(deserialize_with = "lenient_list")]
    pub(in super::super) conditions: Vec<MachineCondition>,
    #[serde(deserialize_with = "lenient_list")]
    pub(in super::super) state_change_requests: Vec<Request>,
    /// Taken when the machine is read: [`MachineObject::references`] contains the copy.
    instancetype_ref: Value,
    /// The same of the preference.
    preference_ref: Value,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in super::super) struct StartFailure {
    #[serde(deserialize_with = "lenient")]
    pub(in super::super) consecutive_fail_count: u64,
}

/// A start or stop that a client requested. Only the number of requests is read.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(in super::super) struct Request {}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in super::super) struct MachineCondition {
    #[serde(rename = "type", deserialize_with = "lenient")]
    pub(in super::super) kind: String,
    #[serde(deserialize_with = "lenient")]
    pub(in super::super) status: String,
    #[serde(deserialize_with = "lenient")]
    pub(in super::super) last_transition_time: Option<Timestamp>,
    /// Only that of the condition [`FAILURE`].
    #[serde(deserialize_with = "lenient")]
    pub(in super::super) message: String,
}

#[derive(Deserialize)]
struct Wire {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "lenient")]
    spec: WireSpec,
    #[serde(default, deserialize_with = "lenient")]
    status: MachineStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec {
    #[serde(deserialize_with = "lenient")]
    run_strategy: Option<String>,
    #[serde(deserialize_with = "lenient")]
    running: Option<bool>,
    instancetype: Value,
    preference: Value,
    #[serde(deserialize_with = "lenient_list")]
    data_volume_templates: Vec<WireTemplate<Named>>,
    #[serde(deserialize_with = "lenient")]
    template: WireTemplate<InnerMetadata, InnerSpec>,
}

#[derive(Default, Deserialize)]
#[serde(
    default,
    bound = "M: serde::de::DeserializeOwned + Default, S: serde::de::DeserializeOwned + Default"
)]
struct WireTemplate<M, S = ()> {
    #[serde(deserialize_with = "lenient")]
    metadata: M,
    #[serde(deserialize_with = "lenient")]
    spec: S,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InnerMetadata {
    #[serde(deserialize_with = "lenient")]
    labels: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InnerSpec {
    #[serde(deserialize_with = "lenient")]
    node_selector: Value,
    #[serde(deserialize_with = "lenient_list")]
    volumes: Vec<WireVolume>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireVolume {
    #[serde(deserialize_with = "lenient")]
    name: String,
    #[serde(deserialize_with = "lenient")]
    data_volume: Named,
    #[serde(deserialize_with = "lenient")]
    persistent_volume_claim: Claim,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    #[serde(deserialize_with = "lenient")]
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Claim {
    #[serde(deserialize_with = "lenient")]
    claim_name: String,
}

impl From<Wire> for MachineObject {
    fn from(Wire { mut metadata, spec, mut status }: Wire) -> Self {
        let labels: BTreeMap<_, _> = metadata.labels.take().unwrap_or_default();
        let finalizers = slim(&mut metadata);
        status.conditions.retain(|condition| READ.contains(&condition.kind.as_str()));
        status.conditions.truncate(READ.len());
        for condition in &mut status.conditions {
            let text = std::mem::take(&mut condition.message);
            if condition.kind == FAILURE && condition.status == "True" {
                condition.message = limits::shorten(text);
            }
        }
        let WireSpec { run_strategy, running, instancetype, preference, data_volume_templates, template } =
            spec;
        let inner = template.spec;
        Self {
            metadata,
            finalizers,
            labels: Labels::of(&labels),
            inner_labels: Labels::from_json(&template.metadata.labels),
            node_selector: Labels::from_json(&inner.node_selector),
            run_strategy: run_strategy.map(|text| limits::clip(&text).to_owned()),
            running,
            storage: Storage {
                volumes: volumes(&inner.volumes),
                sources: volume_sources(&inner.volumes),
                templates: names(data_volume_templates.into_iter().map(|template| template.metadata.name)),
                claims: names(
                    inner.volumes.iter().map(|volume| volume.persistent_volume_claim.claim_name.clone()),
                ),
                data_volumes: names(inner.volumes.into_iter().map(|volume| volume.data_volume.name)),
            },
            references: {
                let spec = json!({ "instancetype": instancetype, "preference": preference });
                let status = [status.instancetype_ref.take(), status.preference_ref.take()];
                pins::references_with(
                    &spec,
                    status.iter().map(|recorded| &recorded["controllerRevisionRef"]["name"]),
                )
            },
            status,
        }
    }
}

/// The condition types that vmpool reads.
const READ: [&str; 3] = ["Ready", "RestartRequired", FAILURE];

/// The condition of a machine whose instance KubeVirt cannot create.
pub(in super::super) const FAILURE: &str = "Failure";

/// The names of the volumes. Many machines have the same list, which therefore exists once.
fn volumes(volumes: &[WireVolume]) -> Arc<[Arc<str>]> {
    static RECENT: Table<[Arc<str>]> = Table::new();
    let names = names(volumes.iter().map(|volume| volume.name.clone()));
    let names: Vec<Arc<str>> = names.iter().map(|name| intern(name)).collect();
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
fn names(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for text in texts.filter(|text| !text.is_empty() && text.len() <= limits::NAME) {
        if !names.contains(&text) {
            names.push(text);
        }
    }
    names.shrink_to_fit();
    names
}

crate::api_object!(MachineObject, "kubevirt.io", "v1", "VirtualMachine", "virtualmachines");
