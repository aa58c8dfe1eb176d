//! Repairs of single machines. They are rare, so each starts with a live read and ends with a guarded write.

use std::sync::Arc;

use kube::Resource;
use kube::api::Patch;
use serde_json::{Value, json};
use vmpool_engine::ObjectId;
use vmpool_engine::model::DiskDraft;
use vmpool_platforms::Platform;

use super::basis::Basis;
use super::outcome::Outcome;
use super::{create, disk};
use crate::context::Context;
use crate::events::{PoolEvent, Reason};
use crate::metrics::WriteKind;
use crate::object::{collection, seen};
use crate::pool_entry::PoolEntry;
use crate::write::WriteError;

/// Sends a merge patch for a machine at the version of a live read.
pub(super) async fn patch<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    mut patch: Value,
) -> Outcome {
    let live = match live(context, pool, machine).await {
        Ok(live) => live,
        Err(outcome) => return outcome,
    };
    patch["metadata"]["uid"] = json!(machine.uid.as_str());
    patch["metadata"]["resourceVersion"] = json!(live.meta().resource_version);
    send(context, pool, machine, Patch::Merge(patch), Reason::FailedRepair).await
}

/// Removes the controller's labels and annotations from a released machine. First the machine becomes the owner of its
/// retained disks, except those that it shares with a machine of the pool.
pub(super) async fn release<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    shared: &[Arc<str>],
) -> Outcome {
    let live = match live(context, pool, machine).await {
        Ok(live) => P::read_machine(&live),
        Err(outcome) => return outcome,
    };
    let (handed, stop) = disk::transfer(context, pool, &live, shared).await;
    let outcome = match stop {
        Some(stop) => stop,
        None => patch(context, pool, machine, P::remove_markers()).await,
    };
    outcome.after(handed)
}

/// Makes a machine refer to another disk. A free disk is allocated to it first.
pub(super) async fn repoint<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    basis: &Basis,
    machine: &ObjectId,
    from: (usize, &str),
    to: &DiskDraft,
) -> Outcome {
    let drafts = std::slice::from_ref(to);
    let (claimed, stop) = disk::claim(context, pool, basis, drafts, &machine.name).await;
    let outcome = match stop {
        Some(stop) => stop,
        None => match point(context, pool, machine, from, to).await {
            // Only the disk map changed.
            Outcome::Machine(changed, events) if from.1 == &*to.name => Outcome::Machine(changed, events),
            Outcome::Machine(changed, mut events) => {
                let why = format!("disk {} replaces it", to.name);
                events.push(disk::detached(from.1, machine, &why));
                events.extend(disk::reused(&context.metrics, drafts, machine));
                Outcome::Machine(changed, events)
            }
            Outcome::Failed(event, error) => Outcome::DisksRefused(drafts.to_vec(), event, error),
            outcome => outcome,
        },
    };
    outcome.after(claimed)
}

/// Removes a device from a machine, because another machine keeps its disk.
pub(super) async fn detach<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    position: usize,
    disk: &str,
) -> Outcome {
    let outcome = edit(context, pool, machine, |live| P::detach(live, position, disk)).await;
    match outcome {
        Outcome::Machine(changed, mut events) => {
            events.push(disk::detached(disk, machine, "another machine keeps it"));
            Outcome::Machine(changed, events)
        }
        outcome => outcome,
    }
}

async fn point<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    (position, from): (usize, &str),
    to: &DiskDraft,
) -> Outcome {
    edit(context, pool, machine, |live| P::repoint(live, position, from, to)).await
}

/// Sends the JSON patch that `operations` computes from the live machine.
async fn edit<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    operations: impl Fn(&P::Machine) -> Value,
) -> Outcome {
    let live = match live(context, pool, machine).await {
        Ok(live) => live,
        Err(outcome) => return outcome,
    };
    let operations = operations(&live);
    match serde_json::from_value(operations) {
        Ok(operations) => {
            let patch = Patch::<()>::Json(operations);
            match send(context, pool, machine, patch, Reason::FailedDisk).await {
                Outcome::Failed(_, error) if error.is_unprocessable() => {
                    refused(context, pool, machine, &live, error).await
                }
                outcome => outcome,
            }
        }
        Err(error) => failed(machine, Reason::FailedDisk, WriteError::Invalid(error.into())),
    }
}

/// Distinguishes the two causes of a rejected patch. If the machine changed since it was read as `old`, a test in the
/// patch failed. Otherwise the patch itself is rejected, and an immediate retry would repeat forever.
async fn refused<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    old: &P::Machine,
    error: WriteError,
) -> Outcome {
    match live(context, pool, machine).await {
        Ok(new) if new.meta().resource_version == old.meta().resource_version => {
            failed(machine, Reason::FailedDisk, error)
        }
        Ok(_) => Outcome::Outdated,
        Err(outcome) => outcome,
    }
}

/// Creates a missing disk of a machine.
pub(super) async fn disk<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    draft: &DiskDraft,
) -> Outcome {
    // The machine may be gone by now, and its disk would have no owner until the garbage collector deletes it.
    if let Err(outcome) = live(context, pool, machine).await {
        return outcome;
    }
    match create::disk(context, pool, machine, draft).await {
        Ok(disk) => {
            let owner = create::owner(pool, machine, draft);
            let ours = disk.facts.owner.as_ref().is_some_and(|found| found.uid == owner);
            let event = ours.then(|| PoolEvent {
                reason: Reason::DiskCreated,
                name: draft.name.to_string(),
                note: format!("created missing disk {} of machine {machine}", draft.name),
            });
            Outcome::Disk(disk, event)
        }
        Err(error) => Outcome::Failed(create::disk_failure(draft, &error), error),
    }
}

async fn live<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
) -> Result<P::Machine, Outcome> {
    match context.get_live::<P::Machine>(&pool.facts.namespace, &machine.name).await {
        Ok(Some(live)) => {
            let meta = live.meta();
            let same = meta.uid.as_deref() == Some(machine.uid.as_str());
            if same && meta.deletion_timestamp.is_none() { Ok(live) } else { Err(Outcome::Outdated) }
        }
        Ok(None) => Err(Outcome::Outdated),
        Err(error) => Err(failed(machine, Reason::FailedRepair, WriteError::Unconfirmed(error.to_string()))),
    }
}

async fn send<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    patch: Patch<impl serde::Serialize + std::fmt::Debug>,
    reason: Reason,
) -> Outcome {
    let path = collection::<P::Machine>(&pool.facts.namespace);
    match context
        .writer
        .patch::<P::Machine, _>(WriteKind::PatchMachine, path, &machine.name, None, patch)
        .await
    {
        Ok(machine) => Outcome::Machine(seen(&machine, P::read_machine), Vec::new()),
        Err(error) if error.is_gone() || error.is_conflict() => Outcome::Outdated,
        Err(error) => failed(machine, reason, error),
    }
}

fn failed(machine: &ObjectId, reason: Reason, error: WriteError) -> Outcome {
    let note = format!("repairing machine {machine}: {error}");
    Outcome::Failed(PoolEvent { reason, name: machine.name.to_string(), note }, error)
}
