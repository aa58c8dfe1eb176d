//! Writes of retained disks. Each requires the UID and the version of the disk that the plan used, so that a
//! concurrent use of the disk is not overwritten.

use std::sync::Arc;

use kube::Resource;
use kube::api::Patch;
use serde_json::{Value, json};
use vmpool_api::Quantity;
use vmpool_engine::ledger::VersionedFacts;
use vmpool_engine::model::{DiskAnnotations, DiskDraft, DiskRestore, DiskSource};
use vmpool_engine::plan::DiskDeleteReason;
use vmpool_engine::{Disk, Machine, ObjectId};
use vmpool_kit::object::collection_path;
use vmpool_kit::write::WriteError;
use vmpool_platforms::{DiskOf, Disks, Platform};
use vmpool_runtime::telemetry::with_causes;

use super::basis::{PlanBasis, free_disks_in_drafts};
use super::outcome::{ActionOutcome, Effect};
use crate::metrics::{ClaimOutcome, ControllerMetrics, WriteKind};
use crate::pools::context::PoolContext;
use crate::pools::events::{EventReason, PoolEvent};
use crate::pools::pool_entry::PoolEntry;
use crate::pools::seen_facts::seen_facts;

/// Allocates the free disks among `disks` to `machine`, in sequence. Returns the allocated disks, and the
/// outcome of the first failed write, or of the pool's spec that changed meanwhile. After that, the machine
/// must not refer to any of the disks.
///
/// An allocation is one write: it records the machine and removes the time since when the disk is free.
pub(super) async fn allocate_free_disks<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    basis: &PlanBasis,
    disks: &[DiskDraft],
    machine: &Arc<str>,
) -> (Vec<VersionedFacts<Disk>>, Option<ActionOutcome>) {
    let annotations =
        DiskAnnotations { claimed_by: Some(machine.clone()), free_since: None, collecting_since: None };
    let mut claimed = Vec::new();
    for disk in free_disks_in_drafts(disks) {
        let doing = || format!("allocating disk {disk} to machine {machine}");
        match patch_planned_disk(context, pool, basis, disk, P::Disks::annotations(&annotations), doing).await
        {
            Ok(disk) => {
                context.metrics.disks.claimed(ClaimOutcome::Done);
                claimed.push(disk);
            }
            Err(stop) => {
                let failed = stop.error.is_some();
                let outcome = if failed { ClaimOutcome::Failed } else { ClaimOutcome::Outdated };
                context.metrics.disks.claimed(outcome);
                return (claimed, Some(stop));
            }
        }
    }
    // An admission webhook may have delayed the writes for long.
    let stop = (!claimed.is_empty() && !context.has_no_newer_spec(&pool.facts)).then(ActionOutcome::outdated);
    (claimed, stop)
}

/// The events about free disks that a machine uses now.
pub(super) fn disk_allocation_events(
    metrics: &ControllerMetrics,
    disks: &[DiskDraft],
    machine: &ObjectId,
) -> Vec<PoolEvent> {
    let reused = disks.iter().filter(|disk| matches!(disk.source, DiskSource::Free(_)));
    let events = reused.map(|disk| {
        metrics.disks.reused.inc();
        PoolEvent {
            reason: EventReason::DiskReused,
            name: disk.name.to_string(),
            note: format!(
                "machine {machine} got free disk {} for disk template {}",
                disk.name, disk.template
            ),
        }
    });
    events.collect()
}

/// The event about a disk that was detached from a machine.
pub(super) fn disk_detached_event(disk: &str, machine: &ObjectId, why: &str) -> PoolEvent {
    PoolEvent {
        reason: EventReason::DiskDetached,
        name: disk.to_owned(),
        note: format!("detached disk {disk} from machine {machine}: {why}"),
    }
}

/// Writes the annotations of a disk. If the write removes the allocation to a machine, a live read must not
/// find that machine.
pub(super) async fn annotate_disk<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    basis: &PlanBasis,
    disk: &ObjectId,
    annotations: &DiskAnnotations,
    absent: Option<&Arc<str>>,
) -> ActionOutcome {
    if let Some(absent) = absent {
        match context.get_live::<P::Machine>(&pool.facts.namespace, absent).await {
            Ok(None) => {}
            Ok(Some(live)) => {
                let live = seen_facts(&live, P::read_machine);
                if is_claimant(&live.facts, pool, disk) {
                    return ActionOutcome::changed(live);
                }
            }
            Err(error) => {
                let error = WriteError::Unconfirmed(error.to_string());
                return failed_disk_outcome(
                    &disk.name,
                    &format!("freeing disk {disk}, which was allocated to machine {absent}"),
                    error,
                );
            }
        }
    }
    let doing = || format!("marking disk {disk}");
    match patch_planned_disk(context, pool, basis, disk, P::Disks::annotations(annotations), doing).await {
        Ok(disk) => ActionOutcome::done().with(Effect::Disk(disk)),
        Err(outcome) => outcome,
    }
}

/// Whether the machine that a disk is allocated to may use it: the pool owns the machine, or the machine
/// refers to the disk.
fn is_claimant<P: Platform>(machine: &Machine, pool: &PoolEntry<P>, disk: &ObjectId) -> bool {
    machine.belongs_to(&pool.facts.id) || machine.held_disks().any(|known| *known == disk.name)
}

/// Expands a disk.
pub(super) async fn expand_disk<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    basis: &PlanBasis,
    disk: &ObjectId,
    bytes: u64,
) -> ActionOutcome {
    let size = Quantity::from_bytes(bytes);
    let doing = || format!("expanding disk {disk} to {size}");
    match patch_planned_disk(context, pool, basis, disk, P::Disks::expand(bytes), doing).await {
        Ok(grown) => {
            context.metrics.disks.grown.inc();
            let note = format!("expanded disk {disk} to {size}, the size of its disk template");
            let event = PoolEvent { reason: EventReason::DiskResized, name: disk.name.to_string(), note };
            ActionOutcome::done().with(Effect::Disk(grown)).reporting([event])
        }
        Err(outcome) => outcome,
    }
}

/// Deletes an unused disk. If the live read finds a machine or an attachment that uses it, removes the mark
/// for deletion instead.
pub(super) async fn delete_unused_disk<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    basis: &PlanBasis,
    disk: &ObjectId,
    reason: DiskDeleteReason,
) -> ActionOutcome {
    let Some(planned) = basis.disk(disk) else { return ActionOutcome::outdated() };
    let doing = format!("deleting disk {disk}");
    match basis.user_of(&disk.name) {
        Err(error) => {
            let error = WriteError::Unconfirmed(with_causes(&error));
            return failed_disk_outcome(&disk.name, &doing, error);
        }
        Ok(Some(user)) => {
            tracing::warn!(disk = &*disk.name, user = &**user, "a disk that was to be deleted is in use");
            context.metrics.disks.spared.inc();
            let annotations = DiskAnnotations { collecting_since: None, ..planned.facts.annotations.clone() };
            let doing = || format!("keeping disk {disk}, which {user} uses");
            return match patch_planned_disk(
                context,
                pool,
                basis,
                disk,
                P::Disks::annotations(&annotations),
                doing,
            )
            .await
            {
                Ok(disk) => ActionOutcome::outdated().with(Effect::Disk(disk)),
                Err(outcome) => outcome,
            };
        }
        Ok(None) => {}
    }
    let path = collection_path::<DiskOf<P>>(&pool.facts.namespace);
    match context.leader.writer.delete(WriteKind::DeleteDisk, path, disk, Some(planned.version)).await {
        Ok(_) => {
            context.metrics.disks.collected(reason);
            tracing::info!(disk = &*disk.name, disk_uid = disk.uid.as_str(), ?reason, "deleted a disk");
            let why = match reason {
                DiskDeleteReason::Expired => "it was free for longer than the ttl of its disk template",
                DiskDeleteReason::Broken => "it contains no data, and no machine uses it",
                DiskDeleteReason::TemplateRemoved => "its disk template was removed from the pool",
            };
            let note = format!("deleted disk {disk}: {why}");
            let event = PoolEvent { reason: EventReason::DiskDeleted, name: disk.name.to_string(), note };
            ActionOutcome::done().with(Effect::DiskDeleted(planned.facts.clone())).reporting([event])
        }
        Err(error) if error.is_gone() => {
            ActionOutcome::done().with(Effect::DiskDeleted(planned.facts.clone()))
        }
        Err(error) if error.is_conflict() => reread_changed_disk(context, pool, disk).await,
        Err(error) => failed_disk_outcome(&disk.name, &doing, error),
    }
}

/// Makes a released machine the owner of its disks that the pool owns, except `shared`. Otherwise they would
/// be deleted with the pool.
pub(super) async fn transfer_disks_to_machine<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &Machine,
    shared: &[Arc<str>],
) -> (Vec<VersionedFacts<Disk>>, Option<ActionOutcome>) {
    let mut handed = Vec::new();
    if !P::Disks::EXIST {
        return (handed, None);
    }
    for name in machine.held_disks().filter(|name| !shared.contains(name)) {
        let doing = || format!("making disk {name} a disk of released machine {}", machine.id);
        let live = match context.get_live::<DiskOf<P>>(&pool.facts.namespace, name).await {
            Ok(None) => continue,
            Ok(Some(live)) => live,
            Err(error) => {
                return (
                    handed,
                    Some(failed_disk_outcome(name, &doing(), WriteError::Unconfirmed(error.to_string()))),
                );
            }
        };
        let facts = P::Disks::read(&live);
        if facts.terminating || !facts.belongs_to(&pool.facts.id) {
            continue;
        }
        let version = live.meta().resource_version.clone().unwrap_or_default();
        let patch = P::Disks::transfer(&live, &machine.id);
        match patch_at(context, pool, &facts.id, patch, &version).await {
            Ok(disk) => handed.push(disk),
            Err(error) if error.is_gone() || error.is_conflict() => {
                return (handed, Some(ActionOutcome::outdated()));
            }
            Err(error) => return (handed, Some(failed_disk_outcome(name, &doing(), error))),
        }
    }
    (handed, None)
}

/// Makes the machine or the pool the owner of a disk that the platform restored, if the disk still has none.
pub(super) async fn adopt_restored<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    disk: &ObjectId,
    template: &Arc<str>,
) -> ActionOutcome {
    let doing = || format!("adopting disk {disk}, which the platform restored for machine {machine}");
    let live = match context.get_live::<DiskOf<P>>(&pool.facts.namespace, &disk.name).await {
        Ok(Some(live)) => live,
        Ok(None) => return ActionOutcome::outdated(),
        Err(error) => {
            return failed_disk_outcome(&disk.name, &doing(), WriteError::Unconfirmed(error.to_string()));
        }
    };
    let facts = P::Disks::read(&live);
    let is_same = facts.id == *disk && !facts.terminating;
    if !is_same || facts.owner.is_some() || facts.restore != DiskRestore::Created {
        return ActionOutcome::outdated().with(Effect::Disk(seen_facts(&live, P::Disks::read)));
    }
    let draft = DiskDraft::new(disk.name.clone(), template.clone());
    let Some(patch) = P::Disks::adopt(&pool.object, &live, machine, &draft) else {
        return ActionOutcome::outdated();
    };
    let version = live.meta().resource_version.clone().unwrap_or_default();
    match patch_at(context, pool, disk, patch, &version).await {
        Ok(adopted) => {
            let note = format!("machine {machine} continues with disk {disk}, which the platform restored");
            let event = PoolEvent { reason: EventReason::DiskRestored, name: disk.name.to_string(), note };
            ActionOutcome::done().with(Effect::Disk(adopted)).reporting([event])
        }
        Err(error) if error.is_gone() || error.is_conflict() => {
            reread_changed_disk(context, pool, disk).await
        }
        Err(error) => failed_disk_outcome(&disk.name, &doing(), error),
    }
}

/// Sends a merge patch for a disk at the version that the plan used.
async fn patch_planned_disk<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    basis: &PlanBasis,
    disk: &ObjectId,
    patch: Value,
    doing: impl Fn() -> String,
) -> Result<VersionedFacts<Disk>, ActionOutcome> {
    // The cache already shows a change.
    let Some(planned) = basis.disk(disk) else { return Err(ActionOutcome::outdated()) };
    match patch_at(context, pool, disk, patch, &planned.version.to_string()).await {
        Ok(disk) => Ok(disk),
        Err(error) if error.is_gone() || error.is_conflict() => {
            Err(reread_changed_disk(context, pool, disk).await)
        }
        Err(error) => Err(failed_disk_outcome(&disk.name, &doing(), error)),
    }
}

async fn patch_at<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    disk: &ObjectId,
    mut patch: Value,
    version: &str,
) -> Result<VersionedFacts<Disk>, WriteError> {
    patch["metadata"]["uid"] = json!(disk.uid.as_str());
    patch["metadata"]["resourceVersion"] = json!(version);
    let path = collection_path::<DiskOf<P>>(&pool.facts.namespace);
    let patch = Patch::Merge(patch);
    let written = context
        .leader
        .writer
        .patch::<DiskOf<P>, _>(WriteKind::PatchDisk, path, &disk.name, None, patch)
        .await?;
    Ok(seen_facts(&written, P::Disks::read))
}

/// Reads a disk that differs from the one that the plan used, because the watch may be stalled.
async fn reread_changed_disk<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    disk: &ObjectId,
) -> ActionOutcome {
    match context.get_live::<DiskOf<P>>(&pool.facts.namespace, &disk.name).await {
        Ok(Some(live)) => ActionOutcome::outdated().with(Effect::Disk(seen_facts(&live, P::Disks::read))),
        Ok(None) => ActionOutcome::outdated(),
        Err(error) => failed_disk_outcome(
            &disk.name,
            &format!("reading disk {disk}"),
            WriteError::Unconfirmed(error.to_string()),
        ),
    }
}

fn failed_disk_outcome(disk: &str, doing: &str, error: WriteError) -> ActionOutcome {
    let note = format!("{doing}: {error}");
    ActionOutcome::failed(PoolEvent { reason: EventReason::FailedDisk, name: disk.to_owned(), note }, error)
}
