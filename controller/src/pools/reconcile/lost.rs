//! Created objects that other clients took away from the pool.

use std::sync::Arc;

use vmpool_engine::ledger::LedgerCache;
use vmpool_engine::membership::losses::{CreatedObjectState, Loss, LossKind};
use vmpool_engine::model::Owner;
use vmpool_engine::{Disk, PassMemory, Pool, Uid};
use vmpool_platforms::Platform;

use crate::pools::context::PoolContext;
use crate::pools::events::{EventReason, PoolEvent};
use crate::pools::losses;
use crate::pools::pool_entry::PoolEntry;

/// Records which of the lately created objects do not belong to the pool any more. Returns the events about
/// them.
///
/// The managed fields of one lost object are read live, because the caches do not contain them.
pub(super) async fn observe_losses<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    memory: &mut PassMemory,
) -> Vec<PoolEvent> {
    let facts = &pool.facts;
    let uptime = context.leader.env.uptime();
    let machines = memory.machine_losses.observe(|name, uid| machine_fate(context, facts, name, uid), uptime);
    let disks = memory.disk_losses.observe(|name, uid| disk_fate(context, facts, name, uid), uptime);
    let mut events = Vec::new();
    let cached = |name: &Arc<str>| Some(context.caches.machines.get(&facts.namespace, name)?.facts);
    let excluded = machines.iter().find_map(|id| {
        let machine = cached(&id.name)?;
        Some((id, facts.exclusion_of(&machine)?))
    });
    if let Some((machine, exclusion)) = excluded {
        let message = losses::machine_lost(context, pool, machine, &exclusion, LossKind::Later).await;
        events.push(losses::loss_event(EventReason::MachineLost, &machine.name, &message));
        for _ in &machines {
            memory.machine_losses.lost(Loss { kind: LossKind::Later, message: message.clone() }, uptime);
        }
    }
    let cached = |name: &Arc<str>| Some(context.caches.disks.get(&facts.namespace, name)?.facts);
    if let Some(disk) = disks.iter().find_map(|id| cached(&id.name)) {
        let message = losses::disk_lost(context, pool, &disk, LossKind::Later).await;
        events.push(losses::loss_event(EventReason::DiskLost, &disk.id.name, &message));
        for _ in &disks {
            memory.disk_losses.lost(Loss { kind: LossKind::Later, message: message.clone() }, uptime);
        }
    }
    events
}

fn machine_fate<P: Platform>(
    context: &PoolContext<P>,
    pool: &Pool,
    name: &str,
    uid: &Uid,
) -> CreatedObjectState {
    match context.caches.machines.get(&pool.namespace, name) {
        None => absent_object_fate(context.caches.machines.of(&pool.namespace).saw_deleted(uid)),
        Some(seen) => match &*seen.facts {
            machine if machine.id.uid != *uid || machine.terminating => CreatedObjectState::Gone,
            machine if pool.includes(machine) => CreatedObjectState::Kept,
            _ => CreatedObjectState::Lost,
        },
    }
}

/// A disk is lost if it has no owner, or one that neither is the pool nor a machine. The controller itself
/// makes a released machine the owner of its disks.
fn disk_fate<P: Platform>(
    context: &PoolContext<P>,
    pool: &Pool,
    name: &str,
    uid: &Uid,
) -> CreatedObjectState {
    let is_machine = |disk: &Disk| {
        disk.owner.as_ref().and_then(Owner::as_machine).is_some_and(|owner| {
            let machine = context.caches.machines.get(&pool.namespace, &owner.name);
            machine.is_none_or(|machine| machine.facts.id == *owner)
        })
    };
    match context.caches.disks.get(&pool.namespace, name) {
        None => absent_object_fate(context.caches.disks.of(&pool.namespace).saw_deleted(uid)),
        Some(seen) => match &*seen.facts {
            disk if disk.id.uid != *uid || disk.terminating => CreatedObjectState::Gone,
            disk if disk.belongs_to(&pool.id) => CreatedObjectState::Kept,
            disk if is_machine(disk) => CreatedObjectState::Kept,
            _ => CreatedObjectState::Lost,
        },
    }
}

fn absent_object_fate(saw_deleted: bool) -> CreatedObjectState {
    if saw_deleted { CreatedObjectState::Gone } else { CreatedObjectState::Unknown }
}
