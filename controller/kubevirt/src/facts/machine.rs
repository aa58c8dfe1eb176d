//! VirtualMachines.

use std::sync::Arc;

use jiff::Timestamp;
use vmpool_api::kubevirt::annotations::STORAGE_REVISION;
use vmpool_api::kubevirt::values::{PrintableStatus, RunStrategy};
use vmpool_engine::draining::Draining;
use vmpool_engine::image_refresh::read_disk_sources;
use vmpool_engine::model::{MachineActivity, MachineReferences, Selectable, StartHealth};
use vmpool_engine::protection::Protection;
use vmpool_engine::recycling::RecycleFacts;
use vmpool_engine::revisions::RevisionId;
use vmpool_engine::standby::{StandbyState, read_activated_at};
use vmpool_engine::{Machine, limits};
use vmpool_platform::intern::{InternTable, intern_text};
use vmpool_platform::shared_owner_of;

use super::super::keys::REVISION_LABEL;
use super::super::labels::CachedLabels;
use super::super::objects::{
    FinalizerSummary, KubeVirtMachineObject, KubeVirtMachineStatus, KubeVirtPoolObject, Readiness,
};
use super::super::read::read_object_id;
use super::super::{restart, revision, standby};

/// A machine.
pub(crate) fn read_machine(object: &KubeVirtMachineObject) -> Machine {
    static RECENT: InternTable<Selectable> = InternTable::new();
    static REFERENCES: InternTable<MachineReferences> = InternTable::new();
    let KubeVirtMachineObject { metadata, status, finalizers, .. } = object;
    let FinalizerSummary { position, dependents_first, .. } = *finalizers;
    let id = read_object_id(metadata);
    let owner = shared_owner_of::<KubeVirtPoolObject, KubeVirtMachineObject>(metadata);
    let deleted = metadata.deletion_timestamp.as_ref().map(|deleted| deleted.0);
    let kept = |labels: &Option<CachedLabels>| labels.as_deref().cloned();
    let selectable = Selectable {
        labels: kept(&object.labels),
        instance_labels: kept(&object.inner_labels),
        node_selector: kept(&object.node_selector),
    };
    let protection = Protection::read(metadata.annotations.as_ref());
    let is_marked = protection.as_ref().is_some_and(|known| known.restarting.is_some());
    let activity = machine_activity(object, is_marked);
    let is_released = owner.is_none() && position.is_some();
    let revision = labeled_revision(object);
    let former_pool = revision.as_deref().filter(|_| is_released).and_then(|name| {
        Some(intern_text(revision::pool_name_of_revision(name, id.name.rsplit_once('-')?.0)?))
    });
    let storage_revision = metadata.annotations.as_ref().and_then(|map| map.get(STORAGE_REVISION));
    Machine {
        created: metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        terminating: deleted.is_some(),
        terminating_since: deleted,
        owner,
        pool_label: former_pool,
        written: written_revision(object, revision.as_ref()),
        revision: revision.map(Into::into),
        storage_revision: storage_revision.map(|text| intern_text(limits::clip_name(text)).into()),
        evaluated: true,
        activity,
        restart_pending: status.restart_required,
        stop_requested: status.state_change_requested,
        restoring: status.restore.is_some(),
        restartable: object.run_strategy.is_some_and(restart::is_restart_possible),
        devices_ready: true,
        has_finalizer: position.is_some(),
        discards_storage: deleted.is_some() && dependents_first,
        awaits_dependents_since: deleted.filter(|_| dependents_first && finalizers.count == 1),
        selectable: RECENT.get(&selectable, || Arc::new(selectable.clone())),
        problem: not_ready_problem(object, activity),
        waits_for_storage: status.printable_status.is_some_and(PrintableStatus::waits_for_storage)
            && !matches!(status.readiness, Readiness::Ready),
        start_health: start_health(status),
        unready_on_purpose: is_unready_on_purpose(status, activity),
        volumes: object.storage.volumes.clone(),
        references: REFERENCES.get(&object.references, || Arc::new(object.references.clone())),
        protection,
        draining: Draining::read(metadata.annotations.as_ref()),
        disk_sources: read_disk_sources(metadata.annotations.as_ref()).map(intern_text),
        recycling: RecycleFacts::read(metadata.annotations.as_ref()),
        standby: read_standby_state(object),
        activated: read_activated_at(metadata.annotations.as_ref()),
        ..Machine::blank(id)
    }
}

fn read_standby_state(object: &KubeVirtMachineObject) -> Option<Arc<StandbyState>> {
    let (phase, ready_since) = (object.standby?, object.status.ready_since);
    let kept_off = standby::is_kept_off(object.run_strategy);
    Some(Arc::new(StandbyState { phase, ready_since, kept_off }))
}

/// Name of the revision in the label of the machine.
fn labeled_revision(object: &KubeVirtMachineObject) -> Option<Arc<str>> {
    let revision = object.labels.as_ref()?.get(REVISION_LABEL)?;
    Some(intern_text(limits::clip_name(revision)))
}

/// The revision whose template the spec has: the label inside the spec, which KubeVirt copies to the
/// instance. A client that replaces the spec, such as the restore of a snapshot, replaces this label and not
/// the label of the machine. Without one of the two labels, it is unknown.
fn written_revision(object: &KubeVirtMachineObject, outer: Option<&Arc<str>>) -> Option<RevisionId> {
    let outer = outer?.clone();
    match &object.inner_labels {
        Some(labels) => labels.get(REVISION_LABEL).map(|inner| intern_text(limits::clip_name(inner)).into()),
        // Labels that are too large to be kept.
        None => Some(outer.into()),
    }
}

fn machine_activity(object: &KubeVirtMachineObject, is_marked: bool) -> MachineActivity {
    let status = &object.status;
    let waits = match object.run_strategy {
        // KubeVirt reports `Stopped` also between two instances.
        Some(strategy) if status.state_change_requested || strategy.restarts() && is_marked => {
            strategy == RunStrategy::WaitAsReceiver
        }
        // A machine whose guest has ended starts only when a user requests it.
        Some(RunStrategy::Manual | RunStrategy::RerunOnFailure | RunStrategy::Once) => {
            status.printable_status == Some(PrintableStatus::Stopped)
        }
        // It starts only when another cluster migrates a guest to it.
        Some(RunStrategy::WaitAsReceiver) => true,
        _ => false,
    };
    match status.readiness {
        Readiness::Ready => MachineActivity::Running,
        // It is off on purpose, so that it does not count as unavailable.
        _ if object.run_strategy == Some(RunStrategy::Halted) || waits => MachineActivity::Stopped,
        _ => MachineActivity::NotRunning,
    }
}

/// Why a machine is not ready and does not become ready by itself.
fn not_ready_problem(object: &KubeVirtMachineObject, activity: MachineActivity) -> Option<Arc<str>> {
    let status = &object.status;
    if matches!(status.readiness, Readiness::Ready) {
        return None;
    }
    let stopped = || {
        let is_stopped = activity == MachineActivity::Stopped && !status.state_change_requested;
        let states = [PrintableStatus::Stopped, PrintableStatus::WaitingForReceiver];
        let has_stopped = status.printable_status.is_some_and(|state| states.contains(&state));
        object.run_strategy.filter(|_| is_stopped && has_stopped).and_then(stop_problem).map(intern_text)
    };
    restore_problem(status).or_else(|| status.problem.clone()).or_else(stopped)
}

/// That KubeVirt restores a machine. Its volumes can be missing meanwhile, which is no problem of its own.
fn restore_problem(status: &KubeVirtMachineStatus) -> Option<Arc<str>> {
    let restore = status.restore.as_deref()?;
    Some(intern_text(&format!(
        "VirtualMachineRestore {restore} is in progress, and KubeVirt starts the machine only when it has ended"
    )))
}

/// Why KubeVirt does not start a stopped machine with this run strategy; `None` if it does.
fn stop_problem(strategy: RunStrategy) -> Option<&'static str> {
    match strategy {
        RunStrategy::Always => None,
        RunStrategy::Halted => Some(
            "it is stopped, and its runStrategy Halted keeps it off: set another runStrategy to start it",
        ),
        RunStrategy::Manual => Some(
            "it is stopped, and with its runStrategy Manual only a user starts it: start it, or delete the machine",
        ),
        RunStrategy::RerunOnFailure => Some(
            "its guest was shut down, and with its runStrategy RerunOnFailure KubeVirt does not start it again: start \
             it, or delete the machine",
        ),
        RunStrategy::Once => Some(
            "its guest has ended, and with its runStrategy Once KubeVirt does not start it again: delete the machine",
        ),
        RunStrategy::WaitAsReceiver => Some(
            "with its runStrategy WaitAsReceiver it starts only when another cluster migrates a guest to it",
        ),
    }
}

/// Whether the machine is not ready on purpose: it is stopped, paused or shut down, or moves, or KubeVirt
/// reads or replaces its volumes.
fn is_unready_on_purpose(status: &KubeVirtMachineStatus, activity: MachineActivity) -> bool {
    const STATES: [PrintableStatus; 5] = [
        PrintableStatus::Paused,
        PrintableStatus::Stopping,
        PrintableStatus::Terminating,
        PrintableStatus::Migrating,
        PrintableStatus::WaitingForReceiver,
    ];
    activity == MachineActivity::Stopped
        || status.snapshotting
        || status.restore.is_some()
        || status.printable_status.is_some_and(|state| STATES.contains(&state))
}

/// A snapshot or a restore may be what repairs the machine, so until it has ended, autohealing leaves the
/// machine as it is.
fn start_health(status: &KubeVirtMachineStatus) -> StartHealth {
    if status.snapshotting || status.restore.is_some() {
        return StartHealth::default();
    }
    let failing = status.printable_status.is_some_and(PrintableStatus::is_start_failure);
    let (not_ready, since) = match status.readiness {
        Readiness::NotReady { since } => (true, since),
        Readiness::Ready | Readiness::Unknown => (false, None),
    };
    StartHealth {
        failed_starts: u32::try_from(status.start_failures).unwrap_or(u32::MAX),
        failing: failing && not_ready,
        not_ready,
        not_ready_since: since,
    }
}
