//! Repairs of single machines. They are rare, so each starts with a live read and ends with a guarded write.

use std::sync::Arc;

use kube::Resource;
use kube::api::Patch;
use serde_json::{Value, json};
use vmpool_engine::ObjectId;
use vmpool_engine::model::DiskDraft;
use vmpool_platforms::{Disks, Finalizers, PatchBody, Platform};

use super::basis::Basis;
use super::outcome::Outcome;
use super::{create, disk};
use crate::context::Context;
use crate::events::{PoolEvent, Reason};
use crate::metrics::WriteKind;
use crate::object::{collection, seen};
use crate::pool_entry::PoolEntry;
use crate::write::WriteError;

/// One repair of a machine.
struct Repair<'a> {
    machine: &'a ObjectId,
    /// The repair in words, with all its objects, for the event about its failure.
    what: String,
    /// The reason of that event.
    reason: Reason,
}

impl<'a> Repair<'a> {
    fn labels(machine: &'a ObjectId, what: &str) -> Self {
        Self { machine, what: format!("{what} machine {machine}"), reason: Reason::FailedRepair }
    }

    fn disk(machine: &'a ObjectId, what: String) -> Self {
        Self { machine, what, reason: Reason::FailedDisk }
    }

    fn failed(&self, error: WriteError) -> Outcome {
        let note = format!("{}: {error}", self.what);
        Outcome::Failed(PoolEvent { reason: self.reason, name: self.machine.name.to_string(), note }, error)
    }
}

/// Restores the labels of a machine.
pub(super) async fn relabel<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
) -> Outcome {
    let repair = Repair::labels(machine, "restoring the labels of");
    patch(context, pool, &repair, P::managed_labels(&pool.object)).await
}

/// Adds the finalizer of the controller to a machine.
pub(super) async fn add_finalizer<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
) -> Outcome {
    let repair = Repair::labels(machine, "adding the finalizer of the pool to");
    edit(context, pool, &repair, |live| P::Finalizers::add(live).unwrap_or_else(|| json!([]))).await
}

/// Sends a merge patch for a machine at the version of a live read.
async fn patch<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    repair: &Repair<'_>,
    mut patch: Value,
) -> Outcome {
    let live = match live(context, pool, repair).await {
        Ok(live) => live,
        Err(outcome) => return outcome,
    };
    patch["metadata"]["uid"] = json!(repair.machine.uid.as_str());
    patch["metadata"]["resourceVersion"] = json!(live.meta().resource_version);
    send(context, pool, repair, Patch::Merge(patch)).await
}

/// Removes the controller's labels and annotations from a released machine. First the machine becomes the owner of its
/// retained disks, except those that it shares with a machine of the pool.
pub(super) async fn release<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    shared: &[Arc<str>],
) -> Outcome {
    let repair = Repair::labels(machine, "removing the labels of the pool from");
    let live = match live(context, pool, &repair).await {
        Ok(live) => live,
        Err(outcome) => return outcome,
    };
    let (handed, stop) = disk::transfer(context, pool, &P::read_machine(&live), shared).await;
    let outcome = match (stop, P::release(&live)) {
        (Some(stop), _) => stop,
        (None, PatchBody::Merge(merge)) => patch(context, pool, &repair, merge).await,
        (None, PatchBody::Json(_)) => {
            let operations = |live: &P::Machine| match P::release(live) {
                PatchBody::Json(operations) | PatchBody::Merge(operations) => operations,
            };
            edit(context, pool, &repair, operations).await
        }
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
    let repair = Repair::disk(
        machine,
        format!("detaching disk {disk} from machine {machine}, because another machine keeps it"),
    );
    let outcome = edit(context, pool, &repair, |live| P::Disks::detach(live, position, disk)).await;
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
    let name = &to.name;
    let what = if **name == *from {
        format!("recording disk {name} in the disk map of machine {machine}")
    } else {
        format!("replacing disk {from} of machine {machine} by disk {name}")
    };
    edit(context, pool, &Repair::disk(machine, what), |live| P::Disks::repoint(live, position, from, to))
        .await
}

/// Sends the JSON patch that `operations` computes from the live machine.
async fn edit<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    repair: &Repair<'_>,
    operations: impl Fn(&P::Machine) -> Value,
) -> Outcome {
    let live = match live(context, pool, repair).await {
        Ok(live) => live,
        Err(outcome) => return outcome,
    };
    let operations = operations(&live);
    match serde_json::from_value(operations) {
        Ok(operations) => {
            let patch = Patch::<()>::Json(operations);
            match send(context, pool, repair, patch).await {
                Outcome::Failed(_, error) if error.is_unprocessable() => {
                    refused(context, pool, repair, &live, error).await
                }
                outcome => outcome,
            }
        }
        Err(error) => repair.failed(WriteError::Invalid(error.into())),
    }
}

/// Distinguishes the two causes of a rejected patch. If the machine changed since it was read as `old`, a test in the
/// patch failed. Otherwise the patch itself is rejected, and an immediate retry would repeat forever.
async fn refused<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    repair: &Repair<'_>,
    old: &P::Machine,
    error: WriteError,
) -> Outcome {
    match live(context, pool, repair).await {
        Ok(new) if new.meta().resource_version == old.meta().resource_version => repair.failed(error),
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
    let name = &draft.name;
    let repair = Repair::disk(machine, format!("creating missing disk {name} of machine {machine}"));
    if let Err(outcome) = live(context, pool, &repair).await {
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
    repair: &Repair<'_>,
) -> Result<P::Machine, Outcome> {
    let machine = repair.machine;
    match context.get_live::<P::Machine>(&pool.facts.namespace, &machine.name).await {
        Ok(Some(live)) => {
            let meta = live.meta();
            let same = meta.uid.as_deref() == Some(machine.uid.as_str());
            if same && meta.deletion_timestamp.is_none() { Ok(live) } else { Err(Outcome::Outdated) }
        }
        Ok(None) => Err(Outcome::Outdated),
        Err(error) => Err(repair.failed(WriteError::Unconfirmed(error.to_string()))),
    }
}

async fn send<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    repair: &Repair<'_>,
    patch: Patch<impl serde::Serialize + std::fmt::Debug>,
) -> Outcome {
    let path = collection::<P::Machine>(&pool.facts.namespace);
    match context
        .writer
        .patch::<P::Machine, _>(WriteKind::PatchMachine, path, &repair.machine.name, None, patch)
        .await
    {
        Ok(machine) => Outcome::Machine(seen(&machine, P::read_machine), Vec::new()),
        Err(error) if error.is_gone() || error.is_conflict() => Outcome::Outdated,
        Err(error) => repair.failed(error),
    }
}
