//! The limit on provisioning of each storage class, which all pools of all platforms share. The engine
//! decides which pool gets a free slot; this file counts machines, and wakes the pools that get one.

use vmpool_engine::model::Owner;
use vmpool_engine::plan::PoolSnapshot;
use vmpool_engine::scale_up::class_slots::ClassSlots;
use vmpool_engine::scale_up::provisioning::{count_fresh_creates, find_slot_end, list_slot_ends};
use vmpool_engine::{ObservedPool, Plan};
use vmpool_platforms::Platform;

use crate::pools::cache::CacheKey;
use crate::pools::context::{CachedNames, PoolContext, PoolMemory};
use crate::pools::pool_entry::PoolEntry;
use crate::pools::pool_key::PoolKey;
use crate::pools::shared_slots::SlotRequest;

/// Counts the machines of all pools of this platform once, before the first request of a leader: otherwise
/// the pools whose passes come first would get the slots of machines that pools without a pass have.
fn count_slots_once<P: Platform>(context: &PoolContext<P>) {
    context.class_slots.count_once(P::NAME, || {
        let pools = context.caches.pools.identities().into_iter();
        pools
            .map(|(namespace, uid)| PoolKey { namespace, uid })
            .filter_map(|key| count_slots(context, key))
            .collect()
    });
}

/// The machines of a pool that use slots, as the cache shows them.
fn count_slots<P: Platform>(context: &PoolContext<P>, key: PoolKey) -> Option<SlotRequest> {
    let (now, uptime) = (context.leader.env.now(), context.leader.env.uptime());
    let classes = context.pool(&key)?.facts.storage_classes.clone();
    let machines = context.caches.machines.by_key(&CacheKey::Pool(key.clone())).into_iter();
    let owned = machines.filter(|machine| {
        let owner = machine.owner.as_deref().and_then(Owner::as_pool);
        owner.is_some_and(|pool| pool.uid == key.uid)
    });
    let used_until = owned.filter_map(|machine| find_slot_end(&machine, now, uptime)).collect();
    Some(SlotRequest { pool: key, classes, used_until, wanted: 0 })
}

/// Reserves slots for the machines that `plan` creates. Returns the slots if these are fewer.
pub(crate) fn request_slots<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    snapshot: &PoolSnapshot,
    state: &PoolMemory,
    plan: &Plan,
) -> Option<ClassSlots> {
    if !context.class_slots.is_limited() {
        return None;
    }
    count_slots_once(context);
    let (facts, names) = (&pool.facts, CachedNames { context, namespace: &pool.facts.namespace });
    let settings = context.settings.of_plans();
    let observed = ObservedPool::new(snapshot, facts, &[], settings, &state.memory, &names);
    let request = SlotRequest {
        pool: PoolKey::of(facts),
        classes: facts.storage_classes.clone(),
        used_until: list_slot_ends(&observed),
        wanted: count_fresh_creates(&observed, plan),
    };
    context.class_slots.request(request, context.leader.env.uptime())
}
