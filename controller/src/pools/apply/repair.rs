//! Repairs of single machines. They are rare, so each starts with a live read and ends with a guarded write.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::Patch;
use serde_json::{Value, json};
use vmpool_engine::draining::{DrainMark, MARK as DRAINING};
use vmpool_engine::model::DiskDraft;
use vmpool_engine::protection::{RESTARTING, UNTIL, timestamp_text};
use vmpool_engine::{Machine, ObjectId, Pool};
use vmpool_kit::object::collection_path;
use vmpool_kit::write::WriteError;
use vmpool_platforms::{Disks, Finalizers, PatchBody, Platform, TemplateCopies};

use super::basis::PlanBasis;
use super::machine_patch::{Requirement, guard_machine_patch, is_patch_outdated};
use super::outcome::{ActionOutcome, MachineWriteResult, machine_write_outcome, machine_write_outcome_with};
use super::rejected_disks::judge_patched_disks;
use super::{copy, create, disk};
use crate::metrics::WriteKind;
use crate::pools::context::PoolContext;
use crate::pools::events::{EventReason, PoolEvent};
use crate::pools::pool_entry::PoolEntry;
use crate::pools::seen_facts::seen_facts;

/// One repair of a machine.
struct Repair<'a> {
    machine: &'a ObjectId,
    /// The repair in words, with all its objects, for the event about its failure.
    what: String,
    /// The reason of that event.
    reason: EventReason,
}

impl<'a> Repair<'a> {
    fn labels(machine: &'a ObjectId, what: &str) -> Self {
        Self { machine, what: format!("{what} machine {machine}"), reason: EventReason::FailedRepair }
    }

    fn disk(machine: &'a ObjectId, what: String) -> Self {
        Self { machine, what, reason: EventReason::FailedDisk }
    }

    fn failed(&self, error: WriteError) -> ActionOutcome {
        let note = format!("{}: {error}", self.what);
        ActionOutcome::failed(
            PoolEvent { reason: self.reason, name: self.machine.name.to_string(), note },
            error,
        )
    }
}

/// Restores the labels of a machine.
pub(super) async fn restore_machine_labels<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
) -> ActionOutcome {
    let repair = Repair::labels(machine, "restoring the labels of");
    let is_ours = |live: &Machine| live.belongs_to(&pool.facts.id);
    let patch = FittingPatch {
        fits: is_ours,
        merge: P::managed_labels(&pool.object),
        requirement: Requirement::SpecAndMetadata,
    };
    machine_write_outcome(patch_fitting_machine(context, pool, &repair, patch).await)
}

/// Replaces the time in the protection of a machine, which cannot be read or is too far in the future.
pub(super) async fn shorten_protection<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    until: Timestamp,
) -> ActionOutcome {
    let repair = Repair::labels(machine, "shortening the protection of");
    let is_invalid = |live: &Machine| {
        let protection = live.protection.as_ref();
        let maximum = pool.facts.max_protection;
        live.belongs_to(&pool.facts.id)
            && protection.is_some_and(|known| known.shortened(context.leader.env.now(), maximum).is_some())
    };
    let text = timestamp_text(until);
    let body = json!({ "metadata": { "annotations": { UNTIL: text } } });
    let patch = FittingPatch { fits: is_invalid, merge: body, requirement: Requirement::Version };
    machine_write_outcome_with(patch_fitting_machine(context, pool, &repair, patch).await, || {
        let note = format!(
            "changed the end of the protection of machine {machine} to {text}: the annotation {UNTIL} was not a time \
             in RFC 3339, or was later than the pool allows"
        );
        vec![PoolEvent { reason: EventReason::ProtectionShortened, name: machine.name.to_string(), note }]
    })
}

/// Marks a machine with hooks as draining.
pub(super) async fn begin_drain<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    mark: &DrainMark,
) -> ActionOutcome {
    let repair = Repair::labels(machine, "beginning the drain of");
    let may_begin = |live: &Machine| {
        live.belongs_to(&pool.facts.id) && live.may_begin_drain(mark, context.leader.env.now())
    };
    let body = json!({ "metadata": { "annotations": { DRAINING: mark.text() } } });
    let patch = FittingPatch { fits: may_begin, merge: body, requirement: Requirement::Version };
    machine_write_outcome_with(patch_fitting_machine(context, pool, &repair, patch).await, || {
        let note = format!(
            "machine {machine} drains before {}, until its hooks are released, at the latest until {}",
            mark.reason.step(),
            timestamp_text(mark.deadline)
        );
        vec![PoolEvent { reason: EventReason::DrainBegan, name: machine.name.to_string(), note }]
    })
}

/// Removes the mark of a drain whose step does not follow.
pub(super) async fn end_drain<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
) -> ActionOutcome {
    let repair = Repair::labels(machine, "ending the drain of");
    let may_end =
        |live: &Machine| live.belongs_to(&pool.facts.id) && live.may_end_drain(context.leader.env.now());
    let body = json!({ "metadata": { "annotations": { DRAINING: null } } });
    let patch = FittingPatch { fits: may_end, merge: body, requirement: Requirement::Version };
    machine_write_outcome_with(patch_fitting_machine(context, pool, &repair, patch).await, || {
        let note = format!("machine {machine} drains no longer: it stays in the pool");
        vec![PoolEvent { reason: EventReason::DrainEnded, name: machine.name.to_string(), note }]
    })
}

/// Removes the mark that the machine is being restarted.
pub(super) async fn end_restart<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
) -> ActionOutcome {
    let repair = Repair::labels(machine, "removing the mark of a restart from");
    let is_marked = |live: &Machine| live.protection.as_ref().is_some_and(|known| known.restarting.is_some());
    let body = json!({ "metadata": { "annotations": { RESTARTING: null, DRAINING: null } } });
    let patch = FittingPatch { fits: is_marked, merge: body, requirement: Requirement::SpecAndMetadata };
    machine_write_outcome(patch_fitting_machine(context, pool, &repair, patch).await)
}

/// Adds the finalizer of the controller to a machine.
pub(super) async fn add_finalizer<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
) -> ActionOutcome {
    let repair = Repair::labels(machine, "adding the finalizer of the pool to");
    let operations = |live: &P::Machine| P::Finalizers::add(live).unwrap_or_else(|| json!([]));
    machine_write_outcome(edit_machine(context, pool, &repair, operations).await)
}

/// Reads a machine live, if it still fits the plan, which used the machine that the cache showed.
async fn read_fitting_machine<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    repair: &Repair<'_>,
    fits: impl Fn(&Machine) -> bool,
) -> Result<P::Machine, ActionOutcome> {
    let live = read_machine_to_repair(context, pool, repair).await?;
    let facts = seen_facts(&live, P::read_machine);
    if fits(&facts.facts) { Ok(live) } else { Err(ActionOutcome::changed(facts)) }
}

/// A merge patch for a machine that still fits the plan.
struct FittingPatch<F> {
    /// Whether the live machine fits.
    fits: F,
    merge: Value,
    requirement: Requirement,
}

/// Sends a merge patch for a machine, if the live machine fits and does not change before.
async fn patch_fitting_machine<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    repair: &Repair<'_>,
    patch: FittingPatch<impl Fn(&Machine) -> bool>,
) -> MachineWriteResult {
    let (namespace, id) = (&*pool.facts.namespace, repair.machine);
    let unread = |error: String| repair.failed(WriteError::Unconfirmed(error));
    let body = context.get_text::<P::Machine>(namespace, &id.name).await;
    let body = body.map_err(|error| unread(error.to_string()))?.ok_or_else(ActionOutcome::outdated)?;
    let object: P::Machine =
        serde_json::from_slice(body.bytes()).map_err(|error| unread(error.to_string()))?;
    if !is_live_machine(object.meta(), id) {
        return Err(ActionOutcome::outdated());
    }
    let facts = seen_facts(&object, P::read_machine);
    if !(patch.fits)(&facts.facts) {
        return Err(ActionOutcome::changed(facts));
    }
    let live: Value = serde_json::from_slice(body.bytes()).map_err(|error| unread(error.to_string()))?;
    let guarded = guard_machine_patch(&live, &patch.merge, patch.requirement);
    match send_machine_patch(context, pool, repair, guarded.clone()).await {
        Err(ActionOutcome { error: Some(error), .. })
            if is_patch_outdated(context, namespace, id, &guarded, &error).await =>
        {
            Err(ActionOutcome::outdated())
        }
        written => written,
    }
}

/// Whether an object is this machine, and is not being deleted.
fn is_live_machine(meta: &ObjectMeta, machine: &ObjectId) -> bool {
    meta.uid.as_deref() == Some(machine.uid.as_str()) && meta.deletion_timestamp.is_none()
}

/// Removes the controller's labels and annotations from a released machine. First the machine becomes the
/// owner of its retained disks, except those that it shares with a machine of the pool.
pub(super) async fn release_from_pool<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    shared: &[Arc<str>],
) -> ActionOutcome {
    let repair = Repair::labels(machine, "removing the labels of the pool from");
    let live = match read_machine_to_repair(context, pool, &repair).await {
        Ok(live) => live,
        Err(outcome) => return outcome,
    };
    // A user may have given the machine back to its pool. Then it keeps its disks and labels.
    let is_released = |live: &Machine| is_released(&pool.facts, live);
    let facts = seen_facts(&live, P::read_machine);
    if !is_released(&facts.facts) {
        return ActionOutcome::changed(facts);
    }
    if let Err(error) =
        copy::share_copies_with_machine(context, pool, P::TemplateCopies::copies_used_by(&live), machine)
            .await
    {
        return repair.failed(error);
    }
    let (handed, stop) = disk::transfer_disks_to_machine(context, pool, &facts.facts, shared).await;
    let outcome = match (stop, P::release(&live)) {
        (Some(stop), _) => stop,
        (None, PatchBody::Merge(merge)) => {
            let patch = FittingPatch { fits: is_released, merge, requirement: Requirement::SpecAndMetadata };
            machine_write_outcome(patch_fitting_machine(context, pool, &repair, patch).await)
        }
        (None, PatchBody::Json(_)) => {
            let operations = |live: &P::Machine| match P::release(live) {
                PatchBody::Json(operations) | PatchBody::Merge(operations) => operations,
            };
            machine_write_outcome(edit_fitting_machine(context, pool, &repair, is_released, operations).await)
        }
    };
    outcome.after(handed)
}

/// Whether a machine still does not belong to the pool: it has no controller owner, or its labels do not
/// match the selector of the pool.
fn is_released(pool: &Pool, live: &Machine) -> bool {
    live.owner.as_ref().is_none_or(|owner| owner.is_pool(&pool.id) && !pool.includes(live))
}

/// A device of a machine that gets another disk.
pub(super) struct PlannedRepoint<'a> {
    pub(super) machine: &'a ObjectId,
    /// The position of the device.
    pub(super) position: usize,
    /// The disk that the device refers to.
    pub(super) from: &'a str,
    pub(super) to: &'a DiskDraft,
}

/// Makes a machine refer to another disk. A free disk is allocated to it first.
pub(super) async fn repoint_machine_disk<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    basis: &PlanBasis,
    wanted: &PlannedRepoint<'_>,
) -> ActionOutcome {
    let PlannedRepoint { machine, from, to, .. } = *wanted;
    let drafts = std::slice::from_ref(to);
    let (claimed, stop) = disk::allocate_free_disks(context, pool, basis, drafts, &machine.name).await;
    if let Some(stop) = stop {
        return stop.after(claimed);
    }
    let mut outcome = machine_write_outcome_with(patch_disk_reference(context, pool, wanted).await, || {
        // Only the disk map changed.
        if from == &*to.name {
            return Vec::new();
        }
        let why = format!("disk {} replaces it", to.name);
        let mut events = vec![disk::disk_detached_event(from, machine, &why)];
        events.extend(disk::disk_allocation_events(&context.metrics, drafts, machine));
        events
    });
    if let Some(error) = &outcome.error {
        let effect = judge_patched_disks(basis, drafts.to_vec(), error);
        outcome = outcome.with(effect);
    }
    outcome.after(claimed)
}

/// Removes a device from a machine, because another machine keeps its disk.
pub(super) async fn detach_shared_disk<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    position: usize,
    disk: &str,
) -> ActionOutcome {
    let repair = Repair::disk(
        machine,
        format!("detaching disk {disk} from machine {machine}, because another machine keeps it"),
    );
    let written = edit_machine(context, pool, &repair, |live| P::Disks::detach(live, position, disk)).await;
    machine_write_outcome_with(written, || {
        vec![disk::disk_detached_event(disk, machine, "another machine keeps it")]
    })
}

async fn patch_disk_reference<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    wanted: &PlannedRepoint<'_>,
) -> MachineWriteResult {
    let PlannedRepoint { machine, position, from, to } = *wanted;
    let name = &to.name;
    let what = if **name == *from {
        format!("recording disk {name} in the disk map of machine {machine}")
    } else {
        format!("replacing disk {from} of machine {machine} by disk {name}")
    };
    edit_machine(context, pool, &Repair::disk(machine, what), |live| {
        P::Disks::repoint(live, position, from, to)
    })
    .await
}

/// Sends the JSON patch that `operations` computes from the live machine.
async fn edit_machine<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    repair: &Repair<'_>,
    operations: impl Fn(&P::Machine) -> Value,
) -> MachineWriteResult {
    edit_fitting_machine(context, pool, repair, |_| true, operations).await
}

/// As [`edit_machine`], if the live machine still fits.
async fn edit_fitting_machine<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    repair: &Repair<'_>,
    fits: impl Fn(&Machine) -> bool,
    operations: impl Fn(&P::Machine) -> Value,
) -> MachineWriteResult {
    let live = read_fitting_machine(context, pool, repair, fits).await?;
    let operations = serde_json::from_value(operations(&live))
        .map_err(|error| repair.failed(WriteError::Invalid(error.into())))?;
    match send_machine_patch(context, pool, repair, Patch::<()>::Json(operations)).await {
        Err(ActionOutcome { error: Some(error), .. }) if context.is_outdated(&error, &live).await => {
            Err(ActionOutcome::outdated())
        }
        written => written,
    }
}

/// Creates a missing disk of a machine.
pub(super) async fn create_missing_disk<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    draft: &DiskDraft,
) -> ActionOutcome {
    // The machine may be gone by now, and its disk would have no owner until the garbage collector deletes
    // it.
    let name = &draft.name;
    let repair = Repair::disk(machine, format!("creating missing disk {name} of machine {machine}"));
    if let Err(outcome) = read_machine_to_repair(context, pool, &repair).await {
        return outcome;
    }
    match create::create_machine_disk(context, pool, machine, draft).await {
        Ok(created) => {
            let owner = create::drafted_disk_owner(pool, machine, draft);
            let ours = created.disk.facts.owner.as_ref() == Some(&owner);
            let event = ours.then(|| PoolEvent {
                reason: EventReason::DiskCreated,
                name: draft.name.to_string(),
                note: format!("created missing disk {} of machine {machine}", draft.name),
            });
            let mut outcome = ActionOutcome::done().reporting(event);
            created.report(&mut outcome);
            outcome
        }
        Err(error) => {
            let unconfirmed = create::unconfirmed_disk(pool, machine, draft, &error);
            let mut outcome = ActionOutcome::failed(create::disk_failure(draft, &error), error);
            outcome.effects.extend(unconfirmed);
            outcome
        }
    }
}

async fn read_machine_to_repair<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    repair: &Repair<'_>,
) -> Result<P::Machine, ActionOutcome> {
    let machine = repair.machine;
    match context.get_live::<P::Machine>(&pool.facts.namespace, &machine.name).await {
        Ok(Some(live)) => {
            if is_live_machine(live.meta(), machine) {
                Ok(live)
            } else {
                Err(ActionOutcome::outdated())
            }
        }
        Ok(None) => Err(ActionOutcome::outdated()),
        Err(error) => Err(repair.failed(WriteError::Unconfirmed(error.to_string()))),
    }
}

async fn send_machine_patch<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    repair: &Repair<'_>,
    patch: Patch<impl serde::Serialize + std::fmt::Debug>,
) -> MachineWriteResult {
    let path = collection_path::<P::Machine>(&pool.facts.namespace);
    match context
        .leader
        .writer
        .patch::<P::Machine, _>(WriteKind::PatchMachine, path, &repair.machine.name, None, patch)
        .await
    {
        Ok(machine) => Ok(seen_facts(&machine, P::read_machine)),
        Err(error) if error.is_gone() || error.is_conflict() => Err(ActionOutcome::outdated()),
        Err(error) => Err(repair.failed(error)),
    }
}
