//! The effects of outcomes on the memory, the metrics and the events.

use std::time::Duration;

use vmpool_engine::failure::FailureReason;
use vmpool_engine::plan::{DeleteReason, UpdateOutcome};
use vmpool_engine::removal::Entry;
use vmpool_engine::{Memory, ObjectId};
use vmpool_platforms::{Platform, Wording};

use super::outcome::{CreateResult, MadeDisk, Outcome, PrunedRecord, Step, Unit, Update};
use super::rejected_disks::record_rejected_disks;
use super::{create, delete, disk, update};
use crate::context::Context;
use crate::events::{PoolEvent, Reason};
use crate::pool_entry::PoolEntry;
use crate::write::WriteError;

/// Records the outcome in the memory.
pub(super) fn record<P: Platform>(
    outcome: Outcome,
    context: &Context<P>,
    pool: &PoolEntry<P>,
    memory: &mut Memory,
) -> Step {
    let uptime = context.env.uptime();
    match outcome {
        Outcome::Skipped | Outcome::Outdated => Step::outdated(),
        Outcome::Done => Step::done(None),
        Outcome::Machine(seen, events) => {
            memory.machines.written(seen, uptime);
            Step { events, ..Step::done(None) }
        }
        Outcome::DisksRefused(disks, event, error) => {
            record_rejected_disks(memory, &disks, &error, uptime);
            Step::failed(event, error)
        }
        Outcome::Differs(seen, revision) => {
            memory.rollout_attempts.record(&seen.facts.id.uid, &revision, UpdateOutcome::Differs, uptime);
            memory.machines.written(seen, uptime);
            Step::outdated()
        }
        Outcome::Changed(seen) => {
            memory.machines.written(seen, uptime);
            Step::outdated()
        }
        Outcome::Disk(seen, event) => {
            memory.disks.written(seen, uptime);
            Step::done(event)
        }
        Outcome::DiskChanged(seen) => {
            memory.disks.written(seen, uptime);
            Step::outdated()
        }
        Outcome::DiskDeleted(disk, event) => {
            memory.disks.deleted(&disk, uptime);
            Step::done(event)
        }
        Outcome::After(disks, rest) => {
            for disk in disks {
                memory.disks.written(disk, uptime);
            }
            record(*rest, context, pool, memory)
        }
        Outcome::Marked(seen, rest) => {
            memory.machines.written(seen, uptime);
            record(*rest, context, pool, memory)
        }
        Outcome::Deleted(id, reason) => {
            forget_live(context, pool, memory, &id, uptime);
            tracing::info!(machine = &*id.name, machine_uid = id.uid.as_str(), ?reason, "deleted a machine");
            context.metrics.removals.deleted(reason);
            // The event about a target is sent when its entry is removed from the record, because other programs
            // delete most targets.
            if reason == DeleteReason::Unhealthy {
                memory.heal(&id, uptime);
            }
            let note = (reason != DeleteReason::Targeted)
                .then(|| P::Wording::deleted(&pool.facts.namespace, &id, reason));
            let event = note.map(|note| PoolEvent {
                reason: Reason::SuccessfulDelete,
                name: id.name.to_string(),
                note,
            });
            Step::done(event)
        }
        Outcome::Gone(id) => {
            forget_live(context, pool, memory, &id, uptime);
            Step::done(None)
        }
        Outcome::Restarted { machine, instance } => {
            memory.restarts.request(&instance, uptime);
            tracing::info!(machine = &*machine.name, "requested a restart of a machine");
            let note = P::Wording::restarted(&pool.facts.namespace, &machine);
            let event = PoolEvent { reason: Reason::RestartRequested, name: machine.name.to_string(), note };
            Step::done(Some(event))
        }
        Outcome::RestartInProgress(instance) => {
            memory.restarts.request(&instance, uptime);
            Step::done(None)
        }
        Outcome::MaybeRestarted(instance, event, error) => {
            memory.restarts.request(&instance, uptime);
            Step::failed(event, error)
        }
        // While the deletion is unconfirmed, the plan deletes no other machine in its place.
        Outcome::MaybeDeleted(id, error) => {
            memory.delete_unconfirmed(&id.uid, uptime);
            Step::failed(delete::failure(&id, &error), error)
        }
        Outcome::StorageConflict(name, why) => {
            tracing::warn!(machine = &*name, why, "did not create a machine");
            memory.record_storage_conflict(&name, why.clone(), uptime);
            let event = PoolEvent { reason: Reason::FailedCreate, name: name.to_string(), note: why };
            // The next plan creates the others, and reports this one.
            Step { events: vec![event], ..Step::outdated() }
        }
        Outcome::Unit(unit) => created(unit, context, pool, memory),
        Outcome::Updated(update) => updated(update, memory, uptime),
        Outcome::Revision { change, done } => {
            Step { revision: Some(change), done, outdated: !done, ..Step::default() }
        }
        Outcome::PrunedRecord(pruned) => record_pruned(pruned, context, pool, memory),
        Outcome::Failed(event, error) => Step::failed(event, error),
    }
}

fn forget_live<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    memory: &mut Memory,
    id: &ObjectId,
    uptime: Duration,
) {
    if let Some(known) = context.known_machine(&pool.facts, memory, id) {
        memory.machines.deleted(&known, uptime);
    }
}

/// Records a created machine and its disks.
fn created<P: Platform>(unit: Unit, context: &Context<P>, pool: &PoolEntry<P>, memory: &mut Memory) -> Step {
    let (metrics, uptime) = (&*context.metrics, context.env.uptime());
    let Unit { draft, machine, disks } = unit;
    // A rejected create had no effect, so its number can be used again. Any other number is used up.
    if !matches!(machine, CreateResult::Refused(_)) {
        memory.next_number = memory.next_number.max(draft.number + 1);
    }
    let machine = match machine {
        CreateResult::Exists(machine) => machine,
        CreateResult::NameTaken(machine) => {
            // This also resolves an earlier unconfirmed create: another object has the name.
            memory.machines.name_taken(&draft.name);
            // The machine may have belonged to the pool when it was created. Then it uses disks of the pool, which
            // are not free.
            memory.machines.written(machine, uptime);
            return Step::outdated();
        }
        // The API server may still carry out an earlier unconfirmed create.
        CreateResult::NameFreed => return Step::outdated(),
        CreateResult::Unknown(error) => {
            memory.machines.create_unconfirmed(&draft.name, draft.number, uptime);
            return Step::failed(create::machine_failure(&draft, &error), error);
        }
        CreateResult::Refused(error) => {
            record_rejected_disks(memory, &draft.disks, &error, uptime);
            return Step::failed(create::machine_failure(&draft, &error), error);
        }
    };
    let id = machine.facts.id.clone();
    tracing::info!(machine = &*id.name, machine_uid = id.uid.as_str(), "created a machine");
    memory.machines.written(machine, uptime);
    memory.machine_created(uptime);
    memory.accept_disks(draft.disks.iter().map(|disk| &disk.name));
    let created = PoolEvent {
        reason: Reason::SuccessfulCreate,
        name: id.name.to_string(),
        note: P::Wording::created(&pool.facts.namespace, &id),
    };
    let mut step = Step::done(Some(created));
    step.events.extend(disk::reused(metrics, &draft.disks, &id));
    for MadeDisk { draft, owner, result } in disks {
        match result {
            Ok(disk) => {
                // The machine cannot use a foreign disk. The next plan chooses another name.
                if disk.facts.owner.as_ref().is_none_or(|found| found.uid != owner) {
                    step.done = false;
                    step.outdated = true;
                }
                memory.disks.written(disk, uptime);
            }
            Err(error) => {
                if owner != id.uid {
                    create::record_unconfirmed_disk(memory, &draft, &error, uptime);
                }
                step.fail(create::disk_failure(&draft, &error), error);
                step.reason = Some(FailureReason::DiskFailure);
            }
        }
    }
    step
}

/// Records an attempt to update a machine.
fn updated(update: Update, memory: &mut Memory, uptime: Duration) -> Step {
    let Update { machine, to, disks, result } = update;
    let outcome = match &result {
        Ok(_) => Some(UpdateOutcome::Accepted),
        Err(WriteError::Unconfirmed(_)) => Some(UpdateOutcome::Unconfirmed),
        Err(error) if is_verdict(error) => Some(UpdateOutcome::Refused),
        Err(_) => None,
    };
    if let Some(outcome) = outcome {
        memory.rollout_attempts.record(&machine.uid, &to, outcome, uptime);
    }
    match result {
        Ok((written, events)) => {
            tracing::info!(machine = &*machine.name, revision = to.as_str(), "wrote a revision to a machine");
            memory.machines.written(written, uptime);
            memory.accept_disks(disks.iter().map(|disk| &disk.name));
            Step { events, ..Step::done(None) }
        }
        Err(error) => {
            record_rejected_disks(memory, &disks, &error, uptime);
            Step::failed(update::failure(&machine, &to, &error), error)
        }
    }
}

/// Whether the API server validated the update. A busy server did not.
fn is_verdict(error: &WriteError) -> bool {
    matches!(error, WriteError::Refused { status, .. } if status.code != 429)
}

/// Records the pruned removal record.
fn record_pruned<P: Platform>(
    pruned: PrunedRecord,
    context: &Context<P>,
    pool: &PoolEntry<P>,
    memory: &mut Memory,
) -> Step {
    let (metrics, uptime) = (&context.metrics, context.env.uptime());
    let outdated = !pruned.here.is_empty();
    for live in pruned.here {
        memory.machines.written(live, uptime);
    }
    if !pruned.written {
        return Step { outdated, done: true, ..Step::default() };
    }
    let expired = pruned.expired.iter().map(|(_, targets)| targets.len()).sum();
    metrics.removals.settled(pruned.removed.len(), expired);
    let removed = pruned.removed.iter().filter(|entry| !pruned.released.contains(&entry.target.uid));
    let mut events: Vec<PoolEvent> = removed.map(|entry| removed_by_name(pool, entry)).collect();
    events.extend(pruned.expired.into_iter().map(|(request, targets)| {
        tracing::warn!(request = &*request, targets = targets.len(), "dropped a reservation of machines");
        let names: Vec<&str> = targets.iter().map(|target| &*target.name).collect();
        PoolEvent {
            reason: Reason::ReservationExpired,
            name: names.join(", "),
            note: format!(
                "the targeted removal of {} was neither accepted nor withdrawn in time: no machine was \
                 removed; send the request again",
                names.join(", ")
            ),
        }
    }));
    Step { events, outdated, done: true, ..Step::default() }
}

/// The event about a deleted target. Its entry is removed with one write, so there is one event for each target,
/// whichever program deleted it. Names of users are untrusted, so their control characters are escaped.
fn removed_by_name<P: Platform>(pool: &PoolEntry<P>, entry: &Entry) -> PoolEvent {
    let Entry { target, by, .. } = entry;
    let (name, why) = match by {
        Some(by) => (format!("{target} (requested by {by:?})"), format!("as requested by {by:?}")),
        None => (target.to_string(), "in a targeted removal".to_owned()),
    };
    PoolEvent {
        reason: Reason::SuccessfulDelete,
        name,
        note: P::Wording::removed(&pool.facts.namespace, target, &why),
    }
}
