//! Repairs of single machines. They are rare, so each starts with a live read and ends with a guarded write.

use std::sync::Arc;

use jiff::Timestamp;
use kube::Resource;
use kube::api::Patch;
use serde_json::{Value, json};
use vmpool_engine::model::DiskDraft;
use vmpool_engine::protection::{RESTARTING, UNTIL, text_of};
use vmpool_engine::{Machine, ObjectId, Pool};
use vmpool_platforms::{Disks, Finalizers, PatchBody, Pins, Platform};

use super::basis::Basis;
use super::outcome::{Outcome, Written, of_machine, of_machine_with};
use super::rejected_disks::judge_patched_disks;
use super::{create, disk, pin};
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
        Outcome::failed(PoolEvent { reason: self.reason, name: self.machine.name.to_string(), note }, error)
    }
}

/// Restores the labels of a machine.
pub(super) async fn relabel<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
) -> Outcome {
    let repair = Repair::labels(machine, "restoring the labels of");
    let is_ours = |live: &Machine| live.belongs_to(&pool.facts.id);
    of_machine(patch(context, pool, &repair, is_ours, P::managed_labels(&pool.object)).await)
}

/// Replaces the time in the protection of a machine, which cannot be read or is too far in the future.
pub(super) async fn shorten_protection<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    until: Timestamp,
) -> Outcome {
    let repair = Repair::labels(machine, "shortening the protection of");
    let is_invalid = |live: &Machine| {
        let protection = live.protection.as_ref();
        let maximum = pool.facts.max_protection;
        live.belongs_to(&pool.facts.id)
            && protection.is_some_and(|known| known.shortened(context.env.now(), maximum).is_some())
    };
    let text = text_of(until);
    let body = json!({ "metadata": { "annotations": { UNTIL: text } } });
    of_machine_with(patch(context, pool, &repair, is_invalid, body).await, || {
        let note = format!(
            "changed the end of the protection of machine {machine} to {text}: the annotation {UNTIL} was not a time \
             in RFC 3339, or was later than the pool allows"
        );
        vec![PoolEvent { reason: Reason::ProtectionShortened, name: machine.name.to_string(), note }]
    })
}

/// Removes the mark that the machine is being restarted.
pub(super) async fn end_restart<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
) -> Outcome {
    let repair = Repair::labels(machine, "removing the mark of a restart from");
    let is_marked = |live: &Machine| live.protection.as_ref().is_some_and(|known| known.restarting.is_some());
    let body = json!({ "metadata": { "annotations": { RESTARTING: null } } });
    of_machine(patch(context, pool, &repair, is_marked, body).await)
}

/// Adds the finalizer of the controller to a machine.
pub(super) async fn add_finalizer<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
) -> Outcome {
    let repair = Repair::labels(machine, "adding the finalizer of the pool to");
    let operations = |live: &P::Machine| P::Finalizers::add(live).unwrap_or_else(|| json!([]));
    of_machine(edit(context, pool, &repair, operations).await)
}

/// Reads a machine live, if it still fits the plan, which used the machine that the cache showed.
async fn fitting<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    repair: &Repair<'_>,
    fits: impl Fn(&Machine) -> bool,
) -> Result<P::Machine, Outcome> {
    let live = live(context, pool, repair).await?;
    let facts = seen(&live, P::read_machine);
    if fits(&facts.facts) { Ok(live) } else { Err(Outcome::changed(facts)) }
}

/// Sends a merge patch for a machine at the version of a live read, if the live machine still fits.
async fn patch<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    repair: &Repair<'_>,
    fits: impl Fn(&Machine) -> bool,
    mut patch: Value,
) -> Written {
    let live = fitting(context, pool, repair, fits).await?;
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
    // A user may have given the machine back to its pool. Then it keeps its disks and labels.
    let is_released = |live: &Machine| is_released(&pool.facts, live);
    let facts = seen(&live, P::read_machine);
    if !is_released(&facts.facts) {
        return Outcome::changed(facts);
    }
    if let Err(error) = pin::keep(context, pool, P::Pins::used_by(&live), machine).await {
        return repair.failed(error);
    }
    let (handed, stop) = disk::transfer(context, pool, &facts.facts, shared).await;
    let outcome = match (stop, P::release(&live)) {
        (Some(stop), _) => stop,
        (None, PatchBody::Merge(merge)) => {
            of_machine(patch(context, pool, &repair, is_released, merge).await)
        }
        (None, PatchBody::Json(_)) => {
            let operations = |live: &P::Machine| match P::release(live) {
                PatchBody::Json(operations) | PatchBody::Merge(operations) => operations,
            };
            of_machine(edit_if(context, pool, &repair, is_released, operations).await)
        }
    };
    outcome.after(handed)
}

/// Whether a machine still does not belong to the pool: it has no controller owner, or its labels do not match the selector
/// of the pool.
fn is_released(pool: &Pool, live: &Machine) -> bool {
    live.owner.as_ref().is_none_or(|owner| owner.is_pool(&pool.id) && !pool.includes(live))
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
    if let Some(stop) = stop {
        return stop.after(claimed);
    }
    let mut outcome = of_machine_with(point(context, pool, machine, from, to).await, || {
        // Only the disk map changed.
        if from.1 == &*to.name {
            return Vec::new();
        }
        let why = format!("disk {} replaces it", to.name);
        let mut events = vec![disk::detached(from.1, machine, &why)];
        events.extend(disk::reused(&context.metrics, drafts, machine));
        events
    });
    if let Some(error) = &outcome.error {
        let effect = judge_patched_disks(basis, drafts.to_vec(), error);
        outcome = outcome.with(effect);
    }
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
    let written = edit(context, pool, &repair, |live| P::Disks::detach(live, position, disk)).await;
    of_machine_with(written, || vec![disk::detached(disk, machine, "another machine keeps it")])
}

async fn point<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    (position, from): (usize, &str),
    to: &DiskDraft,
) -> Written {
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
) -> Written {
    edit_if(context, pool, repair, |_| true, operations).await
}

/// As [`edit`], if the live machine still fits.
async fn edit_if<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    repair: &Repair<'_>,
    fits: impl Fn(&Machine) -> bool,
    operations: impl Fn(&P::Machine) -> Value,
) -> Written {
    let live = fitting(context, pool, repair, fits).await?;
    let operations = serde_json::from_value(operations(&live))
        .map_err(|error| repair.failed(WriteError::Invalid(error.into())))?;
    match send(context, pool, repair, Patch::<()>::Json(operations)).await {
        Err(Outcome { error: Some(error), .. }) if context.is_outdated(&error, &live).await => {
            Err(Outcome::outdated())
        }
        written => written,
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
        Ok(created) => {
            let owner = create::owner(pool, machine, draft);
            let ours = created.disk.facts.owner.as_ref() == Some(&owner);
            let event = ours.then(|| PoolEvent {
                reason: Reason::DiskCreated,
                name: draft.name.to_string(),
                note: format!("created missing disk {} of machine {machine}", draft.name),
            });
            let mut outcome = Outcome::done().reporting(event);
            created.report(&mut outcome);
            outcome
        }
        Err(error) => {
            let unconfirmed = create::unconfirmed_disk(pool, machine, draft, &error);
            let mut outcome = Outcome::failed(create::disk_failure(draft, &error), error);
            outcome.effects.extend(unconfirmed);
            outcome
        }
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
            if same && meta.deletion_timestamp.is_none() { Ok(live) } else { Err(Outcome::outdated()) }
        }
        Ok(None) => Err(Outcome::outdated()),
        Err(error) => Err(repair.failed(WriteError::Unconfirmed(error.to_string()))),
    }
}

async fn send<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    repair: &Repair<'_>,
    patch: Patch<impl serde::Serialize + std::fmt::Debug>,
) -> Written {
    let path = collection::<P::Machine>(&pool.facts.namespace);
    match context
        .writer
        .patch::<P::Machine, _>(WriteKind::PatchMachine, path, &repair.machine.name, None, patch)
        .await
    {
        Ok(machine) => Ok(seen(&machine, P::read_machine)),
        Err(error) if error.is_gone() || error.is_conflict() => Err(Outcome::outdated()),
        Err(error) => Err(repair.failed(error)),
    }
}
