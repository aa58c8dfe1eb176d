//! Restarts of instances, and the revision that is recorded on them.
//!
//! The deletion of an instance cannot require the version of its machine. Therefore the machine is marked
//! first, at the version that was read. Between this read and the deletion the machine can neither be claimed
//! nor become protected unnoticed.

use kube::Resource;
use kube::api::Patch;
use serde::de::IgnoredAny;
use serde_json::json;
use vmpool_engine::ledger::VersionedFacts;
use vmpool_engine::protection::RESTARTING;
use vmpool_engine::revisions::RevisionId;
use vmpool_engine::{Machine, ObjectId, Uid};
use vmpool_kit::object::collection_path;
use vmpool_kit::write::WriteError;
use vmpool_platforms::{InstanceOf, Instances, Platform, RestartRequest, Wording};

use super::outcome::{ActionOutcome, Effect, PlanValidity};
use crate::metrics::WriteKind;
use crate::pools::context::PoolContext;
use crate::pools::events::{EventReason, PoolEvent};
use crate::pools::pool_entry::PoolEntry;
use crate::pools::seen_facts::seen_facts;

/// Requests the restart of an instance of a machine. Another instance was already started with the update.
pub(super) async fn restart_instance<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    instance: &Uid,
    revision: &RevisionId,
) -> ActionOutcome {
    let (namespace, name) = (&*pool.facts.namespace, &machine.name);
    let live = match read_machine_and_instance::<P>(context, pool, machine, instance).await {
        Ok(live) => live,
        Err(outcome) => return outcome,
    };
    let facts = seen_facts(&live.0, P::read_machine);
    let is_marked = facts.facts.protection.as_ref().is_some_and(|known| known.restarting.is_some());
    let now = context.leader.env.now();
    let holds_guest = facts.facts.is_protected(now) || facts.facts.must_drain(now, pool.facts.drain_timeout);
    if holds_guest && !is_marked {
        return ActionOutcome::changed(facts);
    }
    let mut outcome = ActionOutcome::default();
    let written = match P::Instances::restart(&live.0, &live.1) {
        RestartRequest::DeleteInstance => {
            if !is_marked {
                match mark_machine_restarting(context, pool, &live.0, machine, revision).await {
                    Ok(seen) => outcome = outcome.with(Effect::Machine(seen)),
                    Err(outcome) => return outcome,
                }
            }
            let target = ObjectId { name: name.clone(), uid: instance.clone() };
            let path = collection_path::<InstanceOf<P>>(namespace);
            context.leader.writer.delete(WriteKind::RestartInstance, path, &target, None).await.map(|_| ())
        }
        RestartRequest::PatchMachineStatus(patch) => {
            let (path, patch) = (collection_path::<P::Machine>(namespace), Patch::Merge(patch));
            let kind = WriteKind::RestartInstance;
            context
                .leader
                .writer
                .patch::<IgnoredAny, _>(kind, path, name, Some("status"), patch)
                .await
                .map(|_| ())
        }
        // It uses budget until it has ended, or for the time that a restart may take.
        RestartRequest::InProgress => return ActionOutcome::done().with(Effect::Restart(instance.clone())),
        RestartRequest::Impossible => return ActionOutcome::changed(facts),
    };
    match &written {
        Ok(()) => outcome = outcome.with(Effect::Restart(instance.clone())),
        // The platform may carry it out, so that it uses budget.
        Err(WriteError::Unconfirmed(_)) => {
            outcome = outcome.with(Effect::UnconfirmedRestart(instance.clone()));
        }
        Err(_) => {}
    }
    match written {
        Ok(()) => {
            tracing::info!(machine = &*machine.name, "requested a restart of a machine");
            let note = P::Wording::restarted(namespace, machine);
            outcome.done = true;
            outcome.events.push(PoolEvent {
                reason: EventReason::RestartRequested,
                name: machine.name.to_string(),
                note,
            });
        }
        Err(error) if error.is_gone() || error.is_conflict() => outcome.validity = PlanValidity::Outdated,
        Err(error) => outcome.fail(failed_restart_event(machine, &error), error),
    }
    outcome
}

/// Marks a machine that is being restarted, at the version of `live`.
async fn mark_machine_restarting<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    live: &P::Machine,
    machine: &ObjectId,
    revision: &RevisionId,
) -> Result<VersionedFacts<Machine>, ActionOutcome> {
    let patch = Patch::Merge(json!({ "metadata": {
        "uid": machine.uid.as_str(),
        "resourceVersion": live.meta().resource_version,
        "annotations": { RESTARTING: revision.as_str() },
    }}));
    let path = collection_path::<P::Machine>(&pool.facts.namespace);
    let result = context.leader.writer.patch::<P::Machine, _>(
        WriteKind::PatchMachine,
        path,
        &machine.name,
        None,
        patch,
    );
    match result.await {
        Ok(after) => Ok(seen_facts(&after, P::read_machine)),
        Err(error) if error.is_gone() || error.is_conflict() => Err(ActionOutcome::outdated()),
        Err(error) => Err(ActionOutcome::failed(failed_restart_event(machine, &error), error)),
    }
}

/// Records on the instance of a machine that it has the template of `revision`. Another instance was started
/// with another template.
pub(super) async fn record_instance_revision<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    instance: &Uid,
    revision: &RevisionId,
) -> ActionOutcome {
    let namespace = &*pool.facts.namespace;
    let (_, live) = match read_machine_and_instance::<P>(context, pool, machine, instance).await {
        Ok(live) => live,
        Err(outcome) => return outcome,
    };
    let Some(operations) = P::Instances::record_revision(&live, revision) else {
        return ActionOutcome::outdated();
    };
    let written = match serde_json::from_value(operations) {
        Ok(operations) => {
            let (path, patch) = (collection_path::<InstanceOf<P>>(namespace), Patch::<()>::Json(operations));
            let kind = WriteKind::UpdateMachine;
            context.leader.writer.patch::<IgnoredAny, _>(kind, path, &machine.name, None, patch).await
        }
        Err(error) => Err(WriteError::Invalid(error.into())),
    };
    match written {
        Ok(_) => ActionOutcome::done(),
        Err(error) if error.is_gone() || context.is_outdated(&error, &live).await => {
            ActionOutcome::outdated()
        }
        Err(error) => {
            let note = format!("recording revision {revision} on the instance of machine {machine}: {error}");
            let event = PoolEvent { reason: EventReason::FailedRepair, name: machine.name.to_string(), note };
            ActionOutcome::failed(event, error)
        }
    }
}

/// The machine and its instance, if they are those of the plan and the machine still belongs to the pool.
async fn read_machine_and_instance<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    instance: &Uid,
) -> Result<(P::Machine, InstanceOf<P>), ActionOutcome> {
    let (namespace, name) = (&*pool.facts.namespace, &machine.name);
    let unread = |error: String| {
        let error = WriteError::Unconfirmed(error);
        ActionOutcome::failed(failed_restart_event(machine, &error), error)
    };
    let found =
        context.get_live::<P::Machine>(namespace, name).await.map_err(|error| unread(error.to_string()))?;
    let machine_object = found.ok_or_else(ActionOutcome::outdated)?;
    let facts = seen_facts(&machine_object, P::read_machine);
    if facts.facts.id != *machine {
        return Err(ActionOutcome::outdated());
    }
    // A user may have detached it after the plan: it then stays unchanged.
    if facts.facts.terminating || !pool.facts.includes(&facts.facts) {
        return Err(ActionOutcome::changed(facts));
    }
    let found = context
        .get_live::<InstanceOf<P>>(namespace, name)
        .await
        .map_err(|error| unread(error.to_string()))?;
    let found = found.filter(|found| found.meta().uid.as_deref() == Some(instance.as_str()));
    Ok((machine_object, found.ok_or_else(ActionOutcome::outdated)?))
}

fn failed_restart_event(machine: &ObjectId, error: &WriteError) -> PoolEvent {
    let note = format!("restarting machine {machine}: {error}");
    PoolEvent { reason: EventReason::FailedTemplateUpdate, name: machine.name.to_string(), note }
}
