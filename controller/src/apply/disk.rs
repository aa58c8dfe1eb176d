//! Writes of retained disks. Each requires the UID and the version of the disk that the plan used, so that a concurrent
//! use of the disk is not overwritten.

use std::sync::Arc;

use kube::Resource;
use kube::api::Patch;
use serde_json::{Value, json};
use vmpool_api::Quantity;
use vmpool_engine::ledger::Seen;
use vmpool_engine::model::{DiskAnnotations, DiskDraft, DiskRestore, DiskSource};
use vmpool_engine::plan::DiskDeleteReason;
use vmpool_engine::{Disk, Machine, ObjectId};
use vmpool_platforms::{DiskOf, Disks, Platform};

use super::basis::{Basis, free};
use super::outcome::{Effect, Outcome};
use crate::context::Context;
use crate::events::{PoolEvent, Reason};
use crate::metrics::{ClaimOutcome, Metrics, WriteKind};
use crate::object::{collection, seen};
use crate::pool_entry::PoolEntry;
use crate::write::WriteError;

/// Allocates the free disks among `disks` to `machine`, in sequence. Returns the allocated disks, and the outcome of
/// the first failed write. After a failure the machine must not refer to any of the disks.
///
/// An allocation is one write: it records the machine and removes the time since when the disk is free.
pub(super) async fn claim<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    basis: &Basis,
    disks: &[DiskDraft],
    machine: &Arc<str>,
) -> (Vec<Seen<Disk>>, Option<Outcome>) {
    let annotations =
        DiskAnnotations { claimed_by: Some(machine.clone()), free_since: None, collecting_since: None };
    let mut claimed = Vec::new();
    for disk in free(disks) {
        let doing = || format!("allocating disk {disk} to machine {machine}");
        match send(context, pool, basis, disk, P::Disks::annotations(&annotations), doing).await {
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
    (claimed, None)
}

/// The events about free disks that a machine uses now.
pub(super) fn reused(metrics: &Metrics, disks: &[DiskDraft], machine: &ObjectId) -> Vec<PoolEvent> {
    let reused = disks.iter().filter(|disk| matches!(disk.source, DiskSource::Free(_)));
    let events = reused.map(|disk| {
        metrics.disks.reused.inc();
        PoolEvent {
            reason: Reason::DiskReused,
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
pub(super) fn detached(disk: &str, machine: &ObjectId, why: &str) -> PoolEvent {
    PoolEvent {
        reason: Reason::DiskDetached,
        name: disk.to_owned(),
        note: format!("detached disk {disk} from machine {machine}: {why}"),
    }
}

/// Writes the annotations of a disk. If the write removes the allocation to a machine, a live read must not find that
/// machine.
pub(super) async fn annotate<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    basis: &Basis,
    disk: &ObjectId,
    annotations: &DiskAnnotations,
    absent: Option<&Arc<str>>,
) -> Outcome {
    if let Some(absent) = absent {
        match context.get_live::<P::Machine>(&pool.facts.namespace, absent).await {
            Ok(None) => {}
            Ok(Some(live)) => {
                let live = seen(&live, P::read_machine);
                if is_claimant(&live.facts, pool, disk) {
                    return Outcome::changed(live);
                }
            }
            Err(error) => {
                let error = WriteError::Unconfirmed(error.to_string());
                return failed(
                    &disk.name,
                    &format!("freeing disk {disk}, which was allocated to machine {absent}"),
                    error,
                );
            }
        }
    }
    let doing = || format!("marking disk {disk}");
    match send(context, pool, basis, disk, P::Disks::annotations(annotations), doing).await {
        Ok(disk) => Outcome::done().with(Effect::Disk(disk)),
        Err(outcome) => outcome,
    }
}

/// Whether the machine that a disk is allocated to may use it: the pool owns the machine, or the machine refers to the
/// disk.
fn is_claimant<P: Platform>(machine: &Machine, pool: &PoolEntry<P>, disk: &ObjectId) -> bool {
    machine.belongs_to(&pool.facts.id) || machine.held_disks().any(|known| *known == disk.name)
}

/// Expands a disk.
pub(super) async fn expand<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    basis: &Basis,
    disk: &ObjectId,
    bytes: u64,
) -> Outcome {
    let size = Quantity::from_bytes(bytes);
    let doing = || format!("expanding disk {disk} to {size}");
    match send(context, pool, basis, disk, P::Disks::expand(bytes), doing).await {
        Ok(grown) => {
            context.metrics.disks.grown.inc();
            let note = format!("expanded disk {disk} to {size}, the size of its disk template");
            let event = PoolEvent { reason: Reason::DiskResized, name: disk.name.to_string(), note };
            Outcome::done().with(Effect::Disk(grown)).reporting([event])
        }
        Err(outcome) => outcome,
    }
}

/// Deletes an unused disk. If the live read finds a machine or an attachment that uses it, removes the mark for
/// deletion instead.
pub(super) async fn delete<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    basis: &Basis,
    disk: &ObjectId,
    reason: DiskDeleteReason,
) -> Outcome {
    let Some(planned) = basis.disk(disk) else { return Outcome::outdated() };
    let doing = format!("deleting disk {disk}");
    match basis.user_of(&disk.name) {
        Err(error) => return failed(&disk.name, &doing, WriteError::Unconfirmed(error)),
        Ok(Some(user)) => {
            tracing::warn!(disk = &*disk.name, user = &**user, "a disk that was to be deleted is in use");
            context.metrics.disks.spared.inc();
            let annotations = DiskAnnotations { collecting_since: None, ..planned.facts.annotations.clone() };
            let doing = || format!("keeping disk {disk}, which {user} uses");
            return match send(context, pool, basis, disk, P::Disks::annotations(&annotations), doing).await {
                Ok(disk) => Outcome::outdated().with(Effect::Disk(disk)),
                Err(outcome) => outcome,
            };
        }
        Ok(None) => {}
    }
    let path = collection::<DiskOf<P>>(&pool.facts.namespace);
    match context.writer.delete(WriteKind::DeleteDisk, path, disk, Some(planned.version)).await {
        Ok(_) => {
            context.metrics.disks.collected(reason);
            tracing::info!(disk = &*disk.name, disk_uid = disk.uid.as_str(), ?reason, "deleted a disk");
            let why = match reason {
                DiskDeleteReason::Expired => "it was free for longer than the ttl of its disk template",
                DiskDeleteReason::Broken => "it contains no data, and no machine uses it",
                DiskDeleteReason::TemplateRemoved => "its disk template was removed from the pool",
            };
            let note = format!("deleted disk {disk}: {why}");
            let event = PoolEvent { reason: Reason::DiskDeleted, name: disk.name.to_string(), note };
            Outcome::done().with(Effect::DiskDeleted(planned.facts.clone())).reporting([event])
        }
        Err(error) if error.is_gone() => Outcome::done().with(Effect::DiskDeleted(planned.facts.clone())),
        Err(error) if error.is_conflict() => changed(context, pool, disk).await,
        Err(error) => failed(&disk.name, &doing, error),
    }
}

/// Makes a released machine the owner of its disks that the pool owns, except `shared`. Otherwise they would be deleted
/// with the pool.
pub(super) async fn transfer<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &Machine,
    shared: &[Arc<str>],
) -> (Vec<Seen<Disk>>, Option<Outcome>) {
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
                return (handed, Some(failed(name, &doing(), WriteError::Unconfirmed(error.to_string()))));
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
                return (handed, Some(Outcome::outdated()));
            }
            Err(error) => return (handed, Some(failed(name, &doing(), error))),
        }
    }
    (handed, None)
}

/// Makes the machine or the pool the owner of a disk that the platform restored, if the disk still has none.
pub(super) async fn adopt_restored<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    disk: &ObjectId,
    template: &Arc<str>,
) -> Outcome {
    let doing = || format!("adopting disk {disk}, which the platform restored for machine {machine}");
    let live = match context.get_live::<DiskOf<P>>(&pool.facts.namespace, &disk.name).await {
        Ok(Some(live)) => live,
        Ok(None) => return Outcome::outdated(),
        Err(error) => return failed(&disk.name, &doing(), WriteError::Unconfirmed(error.to_string())),
    };
    let facts = P::Disks::read(&live);
    let is_same = facts.id == *disk && !facts.terminating;
    if !is_same || facts.owner.is_some() || facts.restore != DiskRestore::Created {
        return Outcome::outdated().with(Effect::Disk(seen(&live, P::Disks::read)));
    }
    let draft = DiskDraft::new(disk.name.clone(), template.clone());
    let Some(patch) = P::Disks::adopt(&pool.object, &live, machine, &draft) else {
        return Outcome::outdated();
    };
    let version = live.meta().resource_version.clone().unwrap_or_default();
    match patch_at(context, pool, disk, patch, &version).await {
        Ok(adopted) => {
            let note = format!("machine {machine} continues with disk {disk}, which the platform restored");
            let event = PoolEvent { reason: Reason::DiskRestored, name: disk.name.to_string(), note };
            Outcome::done().with(Effect::Disk(adopted)).reporting([event])
        }
        Err(error) if error.is_gone() || error.is_conflict() => changed(context, pool, disk).await,
        Err(error) => failed(&disk.name, &doing(), error),
    }
}

/// Sends a merge patch for a disk at the version that the plan used.
async fn send<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    basis: &Basis,
    disk: &ObjectId,
    patch: Value,
    doing: impl Fn() -> String,
) -> Result<Seen<Disk>, Outcome> {
    // The cache already shows a change.
    let Some(planned) = basis.disk(disk) else { return Err(Outcome::outdated()) };
    match patch_at(context, pool, disk, patch, &planned.version.to_string()).await {
        Ok(disk) => Ok(disk),
        Err(error) if error.is_gone() || error.is_conflict() => Err(changed(context, pool, disk).await),
        Err(error) => Err(failed(&disk.name, &doing(), error)),
    }
}

async fn patch_at<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    disk: &ObjectId,
    mut patch: Value,
    version: &str,
) -> Result<Seen<Disk>, WriteError> {
    patch["metadata"]["uid"] = json!(disk.uid.as_str());
    patch["metadata"]["resourceVersion"] = json!(version);
    let path = collection::<DiskOf<P>>(&pool.facts.namespace);
    let patch = Patch::Merge(patch);
    let written =
        context.writer.patch::<DiskOf<P>, _>(WriteKind::PatchDisk, path, &disk.name, None, patch).await?;
    Ok(seen(&written, P::Disks::read))
}

/// Reads a disk that differs from the one that the plan used, because the watch may be stalled.
async fn changed<P: Platform>(context: &Context<P>, pool: &PoolEntry<P>, disk: &ObjectId) -> Outcome {
    match context.get_live::<DiskOf<P>>(&pool.facts.namespace, &disk.name).await {
        Ok(Some(live)) => Outcome::outdated().with(Effect::Disk(seen(&live, P::Disks::read))),
        Ok(None) => Outcome::outdated(),
        Err(error) => {
            failed(&disk.name, &format!("reading disk {disk}"), WriteError::Unconfirmed(error.to_string()))
        }
    }
}

fn failed(disk: &str, doing: &str, error: WriteError) -> Outcome {
    let note = format!("{doing}: {error}");
    Outcome::failed(PoolEvent { reason: Reason::FailedDisk, name: disk.to_owned(), note }, error)
}
