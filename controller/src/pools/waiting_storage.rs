//! Why the storage of a machine is not ready, as its volumes report it.
//!
//! On a platform whose machines create their own storage, a machine only reports that it waits for storage.
//! The cause, for example the answer of the server of an image, or a quota, is in the object that provisions
//! the volume. The controller caches none of these objects, so it reads those of one machine that has waited
//! for some time.

use std::sync::Arc;

use vmpool_engine::ObservedPool;
use vmpool_engine::plan::PoolSnapshot;
use vmpool_engine::status::machine_waiting_for_storage;
use vmpool_platforms::{MachineStorage, Platform, VolumeOf, intern_text};

use crate::pools::context::{CachedNames, PoolContext, PoolMemory};
use crate::pools::pool_entry::PoolEntry;
use crate::pools::storage_problem::StorageProblem;

/// Adds to a machine that waits for its storage what its volumes report. A failed read changes nothing,
/// because the status only lacks a detail without it.
pub(crate) async fn add_storage_problem<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    snapshot: &mut PoolSnapshot,
    state: &mut PoolMemory,
) {
    if !P::Storage::EXIST {
        return;
    }
    let waiting = {
        let names = CachedNames { context, namespace: &pool.facts.namespace };
        let settings = context.settings.of_plans();
        let observed = ObservedPool::new(snapshot, &pool.facts, &[], settings, &state.memory, &names);
        machine_waiting_for_storage(&observed).cloned()
    };
    let Some(waiting) = waiting else {
        state.storage_problem = None;
        return;
    };
    let uptime = context.leader.env.uptime();
    let is_current = |known: &StorageProblem| known.is_current(&waiting.uid, uptime);
    if !state.storage_problem.as_ref().is_some_and(is_current) {
        let message = read_problem(context, pool, &waiting.name).await;
        state.storage_problem =
            Some(StorageProblem { machine: waiting.uid.clone(), read_at: uptime, message });
    }
    let message = state.storage_problem.as_ref().and_then(|known| known.message.clone());
    let machine = snapshot.machines.iter_mut().find(|machine| machine.id.uid == waiting.uid);
    if let Some((machine, message)) = machine.zip(message) {
        Arc::make_mut(machine).problem = Some(message);
    }
}

async fn read_problem<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &str,
) -> Option<Arc<str>> {
    let namespace = &*pool.facts.namespace;
    let live = context.get_live::<P::Machine>(namespace, machine).await.ok().flatten()?;
    for name in P::Storage::volumes(&live) {
        let volume = context.get_live::<VolumeOf<P>>(namespace, &name).await.ok().flatten();
        if let Some(problem) = volume.as_ref().and_then(P::Storage::problem) {
            return Some(intern_text(&problem));
        }
    }
    None
}
