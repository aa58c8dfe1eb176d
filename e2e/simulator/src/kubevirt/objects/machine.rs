//! VirtualMachine.

use super::{
    KubeVirtObjectMetadata, MatcherKind, SimulatedKubeVirtCondition, SimulatedMatcher, knobs_of, volumes_of,
};
use crate::{
    knobs::Knobs,
    objects::{Pairs, StoredObject},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

/// A VirtualMachine on the wire.
pub type StoredKubeVirtMachine = StoredObject<Value, SimulatedKubeVirtMachineStatus>;

/// When a machine runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunStrategy {
    /// Always.
    Always,
    /// Never.
    #[default]
    Halted,
    /// If a user started it.
    Manual,
    /// From its first start on, until its guest shuts down.
    RerunOnFailure,
    /// Until its guest ends, for any reason.
    Once,
    /// It waits for a guest that another cluster sends.
    WaitAsReceiver,
}

impl RunStrategy {
    /// Reads `runStrategy`, or else the older field `running`.
    fn read(spec: &Value) -> Self {
        match (spec["runStrategy"].as_str(), spec["running"].as_bool()) {
            (Some("Always"), _) | (None, Some(true)) => Self::Always,
            (Some("Manual"), _) => Self::Manual,
            (Some("RerunOnFailure"), _) => Self::RerunOnFailure,
            (Some("Once"), _) => Self::Once,
            (Some("WaitAsReceiver"), _) => Self::WaitAsReceiver,
            _ => Self::Halted,
        }
    }
}

/// What the simulator reads of a machine's spec.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimulatedKubeVirtMachineSpec {
    /// When the machine runs.
    pub run_strategy: RunStrategy,
    /// DataVolumes to create for the machine, as JSON.
    pub data_volume_templates: Vec<Value>,
    /// Labels that the instance gets.
    pub template_labels: Pairs,
    /// Annotations that the instance gets.
    pub template_annotations: Pairs,
    /// Spec that the instance gets, without what its instance type and its preference add.
    pub instance_spec: Value,
    /// The instance type that the machine names.
    pub instancetype: Option<SimulatedMatcher>,
    /// The preference that the machine names.
    pub preference: Option<SimulatedMatcher>,
}

impl SimulatedKubeVirtMachineSpec {
    fn read(mut spec: Value) -> Self {
        let run_strategy = RunStrategy::read(&spec);
        let templates = spec["dataVolumeTemplates"].take();
        let mut template = spec["template"].take();
        let matcher = |family, field: &str| SimulatedMatcher::read(family, &spec[field]);
        let instancetype = matcher(MatcherKind::Instancetype, "instancetype");
        let preference = matcher(MatcherKind::Preference, "preference");
        let pairs = |pairs: Value| serde_json::from_value(pairs).unwrap_or_default();
        Self {
            run_strategy,
            data_volume_templates: serde_json::from_value(templates).unwrap_or_default(),
            template_labels: pairs(template["metadata"]["labels"].take()),
            template_annotations: pairs(template["metadata"]["annotations"].take()),
            instance_spec: without_nulls(template["spec"].take()),
            instancetype,
            preference,
        }
    }

    /// Names of the DataVolume templates.
    pub fn template_names(&self) -> impl Iterator<Item = &str> {
        self.data_volume_templates.iter().filter_map(|template| template["metadata"]["name"].as_str())
    }

    /// Names of all DataVolumes and claims that the machine refers to, with repetitions.
    pub fn disks(&self) -> Vec<String> {
        let (data_volumes, claims) = volumes_of(&self.instance_spec);
        self.template_names().map(str::to_owned).chain(data_volumes).chain(claims).collect()
    }
}

/// The value without null fields: the API server stores them in one kind of object and drops them in another.
pub(super) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name, without_nulls(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// The part of a machine's status that the simulator writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SimulatedKubeVirtMachineStatus {
    /// Whether the instance exists.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub created: bool,
    /// Whether the guest is ready.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ready: bool,
    /// State in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub printable_status: Option<String>,
    /// Generation that the status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<SimulatedKubeVirtCondition>,
    /// The copy of the instance type. Another controller writes it.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub instancetype_ref: Value,
    /// The copy of the preference. Another controller writes it.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub preference_ref: Value,
    /// Starts that failed since the machine last ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_failure: Option<SimulatedStartFailure>,
    /// Requests to start or stop the machine, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub state_change_requests: Vec<StateChangeRequest>,
    /// The VirtualMachineSnapshot that is being taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_in_progress: Option<String>,
    /// The VirtualMachineRestore that replaces its volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_in_progress: Option<String>,
}

/// Starts that failed one after another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SimulatedStartFailure {
    /// How many.
    pub consecutive_fail_count: u64,
    /// UID of the last instance that failed to start.
    #[serde(rename = "lastFailedVMIUID")]
    pub last_failed_instance: String,
    /// When the next start is due, RFC 3339 in whole seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_timestamp: Option<String>,
}

/// A request to start or stop a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StateChangeRequest {
    /// `Start` or `Stop`.
    pub action: String,
    /// UID of the instance to stop; absent for the one that exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Other fields, which the simulator keeps.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The last observed state of a machine.
#[derive(Clone, Debug)]
pub struct KubeVirtMachineView {
    /// Metadata.
    pub meta: KubeVirtObjectMetadata,
    /// Knobs in its annotations.
    pub knobs: Option<Box<Knobs>>,
    /// Spec.
    pub spec: Arc<SimulatedKubeVirtMachineSpec>,
    /// Status.
    pub status: SimulatedKubeVirtMachineStatus,
}

impl KubeVirtMachineView {
    /// Reads a stored machine.
    pub fn read(stored: StoredKubeVirtMachine) -> Self {
        let (namespace, name) = (stored.metadata.namespace.clone(), stored.metadata.name.clone());
        let meta = KubeVirtObjectMetadata::read(stored.metadata);
        Self {
            knobs: knobs_of(namespace.as_deref(), name.as_deref(), &meta.annotations),
            meta,
            spec: Arc::new(SimulatedKubeVirtMachineSpec::read(stored.spec)),
            status: stored.status,
        }
    }
}
