//! The plain types of this module as the data model of the engine.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use vmpool_api::kubevirt::annotations;
use vmpool_api::kubevirt::values::{PrintableStatus, RunStrategy, SortPolicy, StatePreservation};
use vmpool_engine::limits;
use vmpool_engine::model::{
    AutohealingPolicy, DisruptionBudget, Finalizer, Instance, MachineActivity, MachineFilter,
    MachineReferences, Membership, Naming, Preservation, RequestedRevision, Restarts, RolloutPolicy,
    ScaleDownPolicy, Selectable, StartHealth, StatusContent,
};
use vmpool_engine::protection::{self, Protection};
use vmpool_engine::revisions::RevisionId;
use vmpool_engine::scale_down::removal::{RemovalRecord, RemovedMachines};
use vmpool_engine::{Machine, ObjectId, ParsedPool, Pool};
use vmpool_platform::copied_pool::hold_error;
use vmpool_platform::intern::InternTable;
use vmpool_platform::intern::intern_text;

use super::annotated_names::find_unknown_name;
use super::history_limit::read_history_limit;
use super::keys::REVISION_LABEL;
use super::objects::{FinalizerSummary, InstanceObject, KubeVirtMachineObject, KubeVirtPoolObject};
use super::read::{
    self, MachineFacts, MachineSelection, PoolFacts, PoolSettings, Readiness, ScaleInMode, UpdateMode,
};
use super::selectors::MachineSelector;
use super::{moved_storage, pins, publish, restart, revision};

/// Name and UID of an object.
pub(super) fn object_id(metadata: &ObjectMeta) -> ObjectId {
    ObjectId::new(metadata.name.as_deref().unwrap_or_default(), metadata.uid.as_deref().unwrap_or_default())
}

/// A pool.
pub(super) fn read_pool(object: &KubeVirtPoolObject) -> ParsedPool {
    let PoolFacts {
        id,
        namespace,
        generation,
        deleting,
        finalizers,
        settings,
        validation_errors,
        invalid_settings,
    } = read::read_pool_facts(object);
    let (mut validation_errors, mut invalid_settings) = (validation_errors, invalid_settings);
    let annotations_of_pool = object.metadata.annotations.as_ref();
    let max_protection =
        protection::read_max_protection(&settings.max_protection, annotations_of_pool, &mut invalid_settings);
    let history = read_history_limit(&settings.history_limit, annotations_of_pool, &mut invalid_settings);
    let policy =
        object.metadata.annotations.as_ref().and_then(|map| map.get(annotations::INSTANCETYPE_POLICY));
    invalid_settings.extend(policy.and_then(|policy| {
        pins::policy::instancetype_policy_error(
            &policy.as_str().into(),
            &format!("annotation {}", annotations::INSTANCETYPE_POLICY),
        )
    }));
    let names = annotations_of_pool.and_then(|map| map.get(annotations::NAME_GENERATION));
    invalid_settings.extend(names.and_then(|text| find_unknown_name(text)).map(|name| {
        let name = limits::shorten_message(format!("{name:?}"));
        format!("annotation {}: {name} is no setting, so it has no effect", annotations::NAME_GENERATION)
    }));
    invalid_settings.truncate(limits::VALIDATION_ERRORS);
    let text = object.metadata.annotations.as_ref().and_then(|map| map.get(annotations::SCALE_IN_TARGETS));
    let record = RemovalRecord::parse(text.map(String::as_str).unwrap_or_default()).unwrap_or_else(|error| {
        validation_errors.push(limits::shorten_message(format!(
            "annotation {}: {error}, so no machine is created or removed until it is corrected",
            annotations::SCALE_IN_TARGETS
        )));
        RemovalRecord::default()
    });
    validation_errors.extend(hold_error(&object.metadata, annotations::MACHINES_OF, &id));
    let removed = annotations_of_pool.and_then(|map| map.get(annotations::REMOVED_MACHINES));
    let PoolSettings {
        replicas,
        paused,
        max_unavailable,
        max_protection: _,
        history_limit: _,
        scale_in,
        update,
        names: _,
        data_volume_templates,
        autohealing,
        selector,
    } = settings;
    let (scale_down_policy, scale_down_selection) = match scale_in.mode {
        ScaleInMode::Proactive if validation_errors.is_empty() => order_and_selection(scale_in.selection),
        ScaleInMode::Opportunistic if validation_errors.is_empty() => {
            (ScaleDownPolicy::StoppedOnly, MachineFilter::default())
        }
        _ => (ScaleDownPolicy::Explicit, MachineFilter::default()),
    };
    Pool {
        generation,
        deleting,
        desired: replicas,
        paused,
        scale_down_policy,
        scale_down_selection,
        preservation: match (scale_in.preservation, scale_in.mode) {
            (StatePreservation::Disabled, _) => Preservation::Never,
            (_, ScaleInMode::Opportunistic) => Preservation::Always,
            (_, ScaleInMode::Proactive | ScaleInMode::Unmanaged) => Preservation::UnlessChanged,
        },
        membership: Membership::Selector(selector.map(|selector| selector.to_engine()).unwrap_or_default()),
        finalizer: if finalizers.position.is_some() { Finalizer::Present } else { Finalizer::Missing },
        autohealing: autohealing.map(|healing| AutohealingPolicy {
            failed_starts: u32::try_from(healing.threshold).unwrap_or(u32::MAX),
            after: healing.failing_time,
        }),
        max_protection,
        naming: Naming::Ordinal,
        rollout: RolloutPolicy { history, ..rollout_policy(update, max_unavailable) },
        storage_templates: data_volume_templates,
        storage_moves: moved_storage::recorded_moves(&object.metadata),
        record,
        removed: removed.map(|text| RemovedMachines::parse(text)).unwrap_or_default(),
        writers: object.writers.clone(),
        published: publish::published_from_pool(object),
        status_content: StatusContent::FailureAndPause,
        validation_errors,
        invalid_settings,
        template_variant: policy.map(|policy| intern_text(limits::clip_name(policy))),
        ..Pool::new(id, &namespace, RequestedRevision::default())
    }
}

/// When the controller updates machines, and which component restarts them.
fn rollout_policy(update: UpdateMode, budget: DisruptionBudget) -> RolloutPolicy {
    let mut rollout = RolloutPolicy { budget, restarts: Restarts::ByUser, ..RolloutPolicy::default() };
    match update {
        UpdateMode::Unmanaged => rollout.disabled = true,
        UpdateMode::Opportunistic => {}
        UpdateMode::Proactive(policy) => {
            rollout.restarts = Restarts::ByController;
            rollout.disabled = policy.machines == MachineSelector::Nothing;
            let (order, selection) = order_and_selection(policy);
            (rollout.order, rollout.selection) = (Some(order), selection);
        }
    }
    rollout
}

/// The order and the selection of a policy. A selection that cannot be read selects no machine.
fn order_and_selection(policy: MachineSelection) -> (ScaleDownPolicy, MachineFilter) {
    let order = match policy.order {
        SortPolicy::AscendingOrder => ScaleDownPolicy::LowestOrdinalFirst,
        SortPolicy::DescendingOrder => ScaleDownPolicy::HighestOrdinalFirst,
        SortPolicy::Newest => ScaleDownPolicy::NewestFirst,
        SortPolicy::Oldest => ScaleDownPolicy::OldestFirst,
        SortPolicy::Random => ScaleDownPolicy::Random,
    };
    let none = MachineFilter::default();
    match policy.machines {
        MachineSelector::All => (order, none),
        MachineSelector::Nothing => (ScaleDownPolicy::Explicit, none),
        MachineSelector::Matching { labels, nodes } => {
            (order, MachineFilter { labels: labels.to_engine(), nodes: nodes.to_engine() })
        }
    }
}

/// A machine.
pub(super) fn read_machine(object: &KubeVirtMachineObject) -> Machine {
    static RECENT: InternTable<Selectable> = InternTable::new();
    static REFERENCES: InternTable<MachineReferences> = InternTable::new();
    let facts = read::read_machine_facts(object);
    let MachineFacts { id, created, terminating, owner, labels, inner_labels, node_selector, .. } = &facts;
    let FinalizerSummary { position, dependents_first, .. } = facts.finalizers;
    let kept = |labels: &Option<super::labels::CachedLabels>| labels.as_deref().cloned();
    let selectable = Selectable {
        labels: kept(labels),
        instance_labels: kept(inner_labels),
        node_selector: kept(node_selector),
    };
    let protection = Protection::read(object.metadata.annotations.as_ref());
    let is_marked = protection.as_ref().is_some_and(|known| known.restarting.is_some());
    let activity = machine_activity(&facts, is_marked);
    let is_released = owner.is_none() && position.is_some();
    let former_pool = facts.revision.as_deref().filter(|_| is_released).and_then(|name| {
        Some(intern_text(revision::pool_name_of_revision(name, id.name.rsplit_once('-')?.0)?))
    });
    Machine {
        created: *created,
        terminating: *terminating,
        owner: owner.clone(),
        pool_label: former_pool,
        revision: facts.revision.clone().map(Into::into),
        written: written_revision(&facts),
        storage_revision: facts.storage_revision.clone().map(Into::into),
        evaluated: true,
        activity,
        restart_pending: facts.restart_required,
        stop_requested: facts.state_change_requested,
        restoring: facts.restore.is_some(),
        restartable: facts.run_strategy.is_some_and(restart::is_restart_possible),
        devices_ready: true,
        has_finalizer: position.is_some(),
        discards_storage: facts.terminating && dependents_first,
        awaits_dependents_since: facts.deleted.filter(|_| dependents_first && facts.finalizers.count == 1),
        selectable: RECENT.get(&selectable, || Arc::new(selectable.clone())),
        problem: not_ready_problem(&facts, activity),
        waits_for_storage: facts.printable_status.is_some_and(PrintableStatus::waits_for_storage)
            && !matches!(facts.readiness, Readiness::Ready),
        start_health: start_health(&facts),
        volumes: object.storage.volumes.clone(),
        references: REFERENCES.get(&object.references, || Arc::new(object.references.clone())),
        protection,
        ..Machine::blank(id.clone())
    }
}

/// The revision whose template the spec has: the label inside the spec, which KubeVirt copies to the
/// instance. A client that replaces the spec, such as the restore of a snapshot, replaces this label and not
/// the label of the machine. Without one of the two labels, it is unknown.
fn written_revision(facts: &MachineFacts) -> Option<RevisionId> {
    let outer = facts.revision.clone()?;
    match &facts.inner_labels {
        Some(labels) => labels.get(REVISION_LABEL).map(|inner| intern_text(limits::clip_name(inner)).into()),
        // Labels that are too large to be kept.
        None => Some(outer.into()),
    }
}

fn machine_activity(facts: &MachineFacts, is_marked: bool) -> MachineActivity {
    let waits = match facts.run_strategy {
        // KubeVirt reports `Stopped` also between two instances.
        Some(strategy) if facts.state_change_requested || strategy.restarts() && is_marked => {
            strategy == RunStrategy::WaitAsReceiver
        }
        // A machine whose guest has ended starts only when a user requests it.
        Some(RunStrategy::Manual | RunStrategy::RerunOnFailure | RunStrategy::Once) => {
            facts.printable_status == Some(PrintableStatus::Stopped)
        }
        // It starts only when another cluster migrates a guest to it.
        Some(RunStrategy::WaitAsReceiver) => true,
        _ => false,
    };
    match facts.readiness {
        Readiness::Ready => MachineActivity::Running,
        _ if facts.is_halted() || waits => MachineActivity::Stopped,
        _ => MachineActivity::NotRunning,
    }
}

/// Why a machine is not ready and does not become ready by itself.
fn not_ready_problem(facts: &MachineFacts, activity: MachineActivity) -> Option<Arc<str>> {
    if matches!(facts.readiness, Readiness::Ready) {
        return None;
    }
    let stopped = || {
        let is_stopped = activity == MachineActivity::Stopped && !facts.state_change_requested;
        let states = [PrintableStatus::Stopped, PrintableStatus::WaitingForReceiver];
        let has_stopped = facts.printable_status.is_some_and(|state| states.contains(&state));
        facts.run_strategy.filter(|_| is_stopped && has_stopped).and_then(stop_problem).map(intern_text)
    };
    restore_problem(facts).or_else(|| facts.problem.clone()).or_else(stopped)
}

/// That KubeVirt restores a machine. Its volumes can be missing meanwhile, which is no problem of its own.
fn restore_problem(facts: &MachineFacts) -> Option<Arc<str>> {
    let restore = facts.restore.as_deref()?;
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

/// A snapshot or a restore may be what repairs the machine, so until it has ended, autohealing leaves the
/// machine as it is.
fn start_health(facts: &MachineFacts) -> StartHealth {
    if facts.snapshotting || facts.restore.is_some() {
        return StartHealth::default();
    }
    let failing = facts.printable_status.is_some_and(PrintableStatus::is_start_failure);
    let (not_ready, since) = match facts.readiness {
        Readiness::NotReady { since } => (true, since),
        Readiness::Ready | Readiness::Unknown => (false, None),
    };
    StartHealth {
        failed_starts: u32::try_from(facts.start_failures).unwrap_or(u32::MAX),
        failing: failing && not_ready,
        not_ready,
        not_ready_since: since,
    }
}

/// An instance.
pub(super) fn read_instance(object: &InstanceObject) -> Instance {
    let facts = read::read_instance_facts(object);
    Instance {
        ready: facts.is_available(),
        machine: facts.machine,
        terminating: facts.terminating,
        revision: facts.revision.map(Into::into),
        live: facts.live,
        pending_update: facts.pending_update,
        id: facts.id,
    }
}

#[cfg(test)]
mod tests;
