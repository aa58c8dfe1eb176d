//! Repairs of single members. They are rare, so each begins with a live read and ends in a guarded write.

use std::sync::Arc;

use kube::Resource;
use kube::api::Patch;
use serde_json::{Value, json};
use vmpool_engine::ObjectId;
use vmpool_engine::model::DiskDraft;

use super::basis::Basis;
use super::{Outcome, create, disk, seen};
use crate::context::{Context, PoolEntry, collection};
use crate::events::{Happening, Reason};
use crate::metrics::WriteKind;
use crate::platform::Platform;
use crate::write::WriteError;

/// Sends a merge patch to a machine, unless it changed meanwhile.
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

/// Takes our markers off a machine that is no member any more, once the disks are its own that the pool had kept for
/// it. Those that it shares with a member stay the pool's.
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
    let (handed, stop) = disk::hand_over(context, pool, &live, shared).await;
    let outcome = match stop {
        Some(stop) => stop,
        None => patch(context, pool, machine, P::remove_markers()).await,
    };
    outcome.after(handed)
}

/// Makes a machine refer to another disk, which is promised to it first if it is a free one.
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
            // Only the disk map was wrong.
            Outcome::Machine(changed, happenings) if from.1 == &*to.name => {
                Outcome::Machine(changed, happenings)
            }
            Outcome::Machine(changed, mut happenings) => {
                let why = format!("disk {} takes its place", to.name);
                happenings.push(disk::detached(from.1, machine, &why));
                happenings.extend(disk::reused(&context.metrics, drafts, machine));
                Outcome::Machine(changed, happenings)
            }
            Outcome::Failed(happening, error) => Outcome::DisksRefused(drafts.to_vec(), happening, error),
            outcome => outcome,
        },
    };
    outcome.after(claimed)
}

/// Takes a device away from a machine, because another machine keeps its disk.
pub(super) async fn detach<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    position: usize,
    disk: &str,
) -> Outcome {
    let outcome = edit(context, pool, machine, |live| P::detach(live, position, disk)).await;
    match outcome {
        Outcome::Machine(changed, mut happenings) => {
            happenings.push(disk::detached(disk, machine, "another machine keeps it"));
            Outcome::Machine(changed, happenings)
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

/// Sends the JSON patch that `operations` makes of a machine as it is now.
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

/// A test in the patch failed if the machine changed since it was read as `old`. If it did not, the patch itself is
/// refused: trying again at once would not end.
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

/// Creates a disk that a member lacks.
pub(super) async fn disk<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    member: &ObjectId,
    draft: &DiskDraft,
) -> Outcome {
    // The member may be gone by now, and its disk would be nobody's until the garbage collector came by.
    if let Err(outcome) = live(context, pool, member).await {
        return outcome;
    }
    match create::disk(context, pool, member, draft).await {
        Ok(disk) => {
            let owner = create::owner(pool, member, draft);
            let ours = disk.facts.owner.as_ref().is_some_and(|found| found.uid == owner);
            let happening = ours.then(|| Happening {
                reason: Reason::DiskCreated,
                name: draft.name.to_string(),
                note: format!("created disk {} that machine {member} lacked", draft.name),
            });
            Outcome::Disk(disk, happening)
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
        Err(error) => Err(failed(machine, Reason::FailedRepair, WriteError::Lost(error.to_string()))),
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
    Outcome::Failed(Happening { reason, name: machine.name.to_string(), note }, error)
}
