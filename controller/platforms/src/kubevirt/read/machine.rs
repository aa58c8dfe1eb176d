//! Machines.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use vmpool_api::kubevirt::annotations::{FORMER_STORAGE, STORAGE_REVISION};
use vmpool_api::kubevirt::values::{PrintableStatus, RunStrategy};
use vmpool_engine::limits;
use vmpool_engine::model::{ObjectId, Owner};

use super::super::former_storage;
use super::super::keys::{REVISION_LABEL, ordinal};
use super::super::labels::Labels;
use super::super::objects::{
    FAILURE, Finalizers, MachineCondition, MachineObject, MachineStatus, PoolObject,
};
use crate::{intern, shared_owner_of};

/// The condition `Ready` of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It is True.
    Ready,
    /// It is False.
    NotReady {
        /// When it became False; `None` if KubeVirt did not record the time, which it omits in a condition that it
        /// copied from a pod.
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
    /// Its controller owner.
    pub owner: Option<Arc<Owner>>,
    /// Its labels, which the selector of the pool selects. `None` if they are too large to be kept: the pool then
    /// treats the machine as selected, because releasing it would be the destructive error.
    pub labels: Option<Labels>,
    /// The labels in its template, which its VirtualMachineInstance gets. `None` if they are too large to be kept.
    pub inner_labels: Option<Labels>,
    /// The node selector in its template. `None` if it is too large to be kept.
    pub node_selector: Option<Labels>,
    /// Name of the revision in its label.
    pub revision: Option<Arc<str>>,
    /// Name of the revision in the annotation [`STORAGE_REVISION`].
    pub storage_revision: Option<Arc<str>>,
    /// Its finalizers.
    pub finalizers: Finalizers,
    /// Whether its guest is ready.
    pub readiness: Readiness,
    /// Whether KubeVirt reports that a change of its template needs a restart.
    pub restart_required: bool,
    /// Its state in one word; `None` if there is none or if vmpool does not know it.
    pub printable_status: Option<PrintableStatus>,
    /// Why it does not start, as KubeVirt reports it: the message of its condition `Failure`, or its state.
    pub problem: Option<Arc<str>>,
    /// How many starts have failed one after another.
    pub start_failures: u64,
    /// When it runs; `None` if neither field is set or if vmpool does not know the value.
    pub run_strategy: Option<RunStrategy>,
    /// Whether a requested start or stop is not done yet.
    pub state_change_requested: bool,
}

impl MachineFacts {
    /// Whether it is off on purpose, so that it does not count as unavailable.
    pub fn is_halted(&self) -> bool {
        self.run_strategy == Some(RunStrategy::Halted)
    }
}

/// Translates a stored machine.
pub fn machine(object: &MachineObject) -> MachineFacts {
    let metadata = &object.metadata;
    let status = &object.status;
    let name = metadata.name.as_deref().unwrap_or_default();
    let condition = |kind: &str| status.conditions.iter().find(|condition| condition.kind == kind);
    let revision = object.labels.as_ref().and_then(|labels| labels.get(REVISION_LABEL));
    MachineFacts {
        id: super::id(metadata),
        ordinal: ordinal(name),
        created: super::created(metadata),
        terminating: metadata.deletion_timestamp.is_some(),
        owner: shared_owner_of::<PoolObject, MachineObject>(metadata),
        labels: object.labels.clone(),
        inner_labels: object.inner_labels.clone(),
        node_selector: object.node_selector.clone(),
        revision: revision.map(|text| intern(limits::clip(text))),
        storage_revision: read_annotation(object, STORAGE_REVISION).map(|text| intern(limits::clip(text))),
        finalizers: object.finalizers,
        readiness: readiness(condition("Ready")),
        restart_required: condition("RestartRequired").is_some_and(|condition| condition.status == "True"),
        printable_status: status.printable_status.as_deref().and_then(|text| text.parse().ok()),
        problem: problem(status),
        start_failures: status.start_failure.consecutive_fail_count,
        run_strategy: RunStrategy::of(object.run_strategy.as_deref(), object.running),
        state_change_requested: !status.state_change_requests.is_empty(),
    }
}

fn problem(status: &MachineStatus) -> Option<Arc<str>> {
    let failure = status.conditions.iter().find(|condition| condition.kind == FAILURE);
    let message = failure.map(|failure| failure.message.as_str()).filter(|message| !message.is_empty());
    let state = status.printable_status.as_deref();
    let state = state.filter(|state| state.parse().is_ok_and(PrintableStatus::is_start_failure));
    message.or(state).map(intern)
}

fn readiness(condition: Option<&MachineCondition>) -> Readiness {
    match condition {
        Some(condition) if condition.status == "True" => Readiness::Ready,
        Some(condition) if condition.status == "False" => {
            Readiness::NotReady { since: condition.last_transition_time }
        }
        _ => Readiness::Unknown,
    }
}

/// Names of the DataVolumes of a machine: those of its templates, those that its volumes refer to, and those that an update took
/// out of it.
pub fn data_volumes(object: &MachineObject) -> Vec<Arc<str>> {
    storage(object, &object.storage.data_volumes)
}

/// Names of the claims of a machine: those of its DataVolume templates, those that its volumes refer to, and those that an
/// update took out of it.
pub fn claims(object: &MachineObject) -> Vec<Arc<str>> {
    storage(object, &object.storage.claims)
}

fn read_annotation<'a>(object: &'a MachineObject, key: &str) -> Option<&'a str> {
    object.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn storage(object: &MachineObject, of_volumes: &[String]) -> Vec<Arc<str>> {
    let former = read_annotation(object, FORMER_STORAGE);
    let former = former.into_iter().flat_map(former_storage::recorded);
    let names = object.storage.templates.iter().chain(of_volumes).map(String::as_str).chain(former);
    let mut known = BTreeSet::new();
    names.filter(|name| known.insert(*name)).map(Arc::from).collect()
}
