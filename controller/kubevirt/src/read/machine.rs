//! Machines.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use vmpool_api::kubevirt::annotations::{FORMER_STORAGE, STORAGE_REVISION};
use vmpool_api::kubevirt::values::{PrintableStatus, RunStrategy};
use vmpool_engine::limits;
use vmpool_engine::model::{ObjectId, Owner};
use vmpool_platform::{intern_text, shared_owner_of};

use super::super::dropped_storage;
use super::super::keys::{REVISION_LABEL, parse_machine_ordinal};
use super::super::labels::CachedLabels;
use super::super::objects::{
    FAILURE, FinalizerSummary, KubeVirtMachineObject, KubeVirtMachineStatus, KubeVirtPoolObject,
    MachineCondition, PAUSED, SCHEDULED,
};

/// The condition `Ready` of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It is True.
    Ready,
    /// It is False.
    NotReady {
        /// When it became False; `None` if KubeVirt did not record the time, which it omits in a condition
        /// that it copied from a pod.
        since: Option<Timestamp>,
    },
    /// It is missing or Unknown.
    Unknown,
}

/// The facts of one VirtualMachine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineFacts {
    /// Name and UID.
    pub id: ObjectId,
    /// The number after the last hyphen of the name.
    pub ordinal: Option<u64>,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// Whether it has a deletionTimestamp.
    pub terminating: bool,
    /// Its deletionTimestamp.
    pub deleted: Option<Timestamp>,
    /// Its controller owner.
    pub owner: Option<Arc<Owner>>,
    /// Its labels, which the selector of the pool selects. `None` if they are too large to be kept: the pool
    /// then treats the machine as selected, because releasing it would be the destructive error.
    pub labels: Option<CachedLabels>,
    /// The labels in its template, which its VirtualMachineInstance gets. `None` if they are too large to be
    /// kept.
    pub inner_labels: Option<CachedLabels>,
    /// The node selector in its template. `None` if it is too large to be kept.
    pub node_selector: Option<CachedLabels>,
    /// Name of the revision in its label.
    pub revision: Option<Arc<str>>,
    /// Name of the revision in the annotation [`STORAGE_REVISION`].
    pub storage_revision: Option<Arc<str>>,
    /// Its finalizers.
    pub finalizers: FinalizerSummary,
    /// Whether its guest is ready.
    pub readiness: Readiness,
    /// Whether KubeVirt reports that a change of its template needs a restart.
    pub restart_required: bool,
    /// Its state in one word; `None` if there is none or if vmpool does not know it.
    pub printable_status: Option<PrintableStatus>,
    /// Why it is not ready and does not become ready by itself, as KubeVirt reports it: the message of its
    /// condition `Failure`, or its state. A machine that is stopped has none.
    pub problem: Option<Arc<str>>,
    /// How many starts have failed one after another.
    pub start_failures: u64,
    /// When it runs; `None` if neither field is set or if vmpool does not know the value.
    pub run_strategy: Option<RunStrategy>,
    /// Whether a requested start or stop is not done yet.
    pub state_change_requested: bool,
    /// Whether a VirtualMachineSnapshot is being taken of it.
    pub snapshotting: bool,
    /// Name of the VirtualMachineRestore that replaces its volumes. KubeVirt does not start it before the
    /// end.
    pub restore: Option<Arc<str>>,
}

impl MachineFacts {
    /// Whether it is off on purpose, so that it does not count as unavailable.
    pub fn is_halted(&self) -> bool {
        self.run_strategy == Some(RunStrategy::Halted)
    }
}

/// Translates a stored machine.
pub fn read_machine_facts(object: &KubeVirtMachineObject) -> MachineFacts {
    let metadata = &object.metadata;
    let status = &object.status;
    let name = metadata.name.as_deref().unwrap_or_default();
    let condition = |kind: &str| status.conditions.iter().find(|condition| condition.kind == kind);
    let revision = object.labels.as_ref().and_then(|labels| labels.get(REVISION_LABEL));
    MachineFacts {
        id: super::read_object_id(metadata),
        ordinal: parse_machine_ordinal(name),
        created: super::creation_time(metadata),
        terminating: metadata.deletion_timestamp.is_some(),
        deleted: metadata.deletion_timestamp.as_ref().map(|deleted| deleted.0),
        owner: shared_owner_of::<KubeVirtPoolObject, KubeVirtMachineObject>(metadata),
        labels: object.labels.clone(),
        inner_labels: object.inner_labels.clone(),
        node_selector: object.node_selector.clone(),
        revision: revision.map(|text| intern_text(limits::clip_name(text))),
        storage_revision: read_annotation(object, STORAGE_REVISION)
            .map(|text| intern_text(limits::clip_name(text))),
        finalizers: object.finalizers,
        readiness: read_readiness(condition("Ready")),
        restart_required: condition("RestartRequired").is_some_and(|condition| condition.status == "True"),
        printable_status: status.printable_status.as_deref().and_then(|text| text.parse().ok()),
        problem: not_ready_problem(status),
        start_failures: status.start_failure.consecutive_fail_count,
        run_strategy: RunStrategy::of(object.run_strategy.as_deref(), object.running),
        state_change_requested: !status.state_change_requests.is_empty(),
        snapshotting: status.snapshot_in_progress.as_ref().is_some_and(|name| !name.is_empty()),
        restore: status
            .restore_in_progress
            .as_deref()
            .filter(|name| !name.is_empty())
            .map(|name| intern_text(limits::clip_name(name))),
    }
}

/// What KubeVirt reports: the message of the condition `Failure`, or the state, with its message if KubeVirt
/// gives one.
fn not_ready_problem(status: &KubeVirtMachineStatus) -> Option<Arc<str>> {
    let message = |kind: &str| {
        let condition = status.conditions.iter().find(|condition| condition.kind == kind)?;
        Some(condition.message.as_str()).filter(|message| !message.is_empty())
    };
    if let Some(failure) = message(FAILURE) {
        return Some(intern_text(failure));
    }
    let state = status.printable_status.as_deref()?;
    let known: PrintableStatus = state.parse().ok()?;
    let detail = match known {
        PrintableStatus::Paused => message(PAUSED),
        PrintableStatus::ErrorUnschedulable => message(SCHEDULED),
        // The node of the guest does not respond.
        PrintableStatus::Unknown => None,
        known if known.is_start_failure() => None,
        _ => return None,
    };
    Some(match detail {
        Some(detail) => intern_text(&format!("{state}: {detail}")),
        None => intern_text(state),
    })
}

fn read_readiness(condition: Option<&MachineCondition>) -> Readiness {
    match condition {
        Some(condition) if condition.status == "True" => Readiness::Ready,
        Some(condition) if condition.status == "False" => {
            Readiness::NotReady { since: condition.last_transition_time }
        }
        _ => Readiness::Unknown,
    }
}

/// Names of the DataVolumes of a machine: those of its templates, those that its volumes refer to, and those
/// that an update took out of it.
pub fn data_volume_names(object: &KubeVirtMachineObject) -> Vec<Arc<str>> {
    machine_storage_names(object, &object.storage.data_volumes)
}

/// Names of the claims of a machine: those of its DataVolume templates, those that its volumes refer to, and
/// those that an update took out of it.
pub fn claim_names(object: &KubeVirtMachineObject) -> Vec<Arc<str>> {
    machine_storage_names(object, &object.storage.claims)
}

fn read_annotation<'a>(object: &'a KubeVirtMachineObject, key: &str) -> Option<&'a str> {
    object.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn machine_storage_names(object: &KubeVirtMachineObject, of_volumes: &[String]) -> Vec<Arc<str>> {
    let former = read_annotation(object, FORMER_STORAGE);
    let former = former.into_iter().flat_map(dropped_storage::recorded_storage_names);
    let names = object.storage.templates.iter().chain(of_volumes).map(String::as_str).chain(former);
    let mut known = BTreeSet::new();
    names.filter(|name| known.insert(*name)).map(Arc::from).collect()
}
