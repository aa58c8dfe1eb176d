//! A preview: what the controller would do next with a pool, for clients such as the kubectl plugin.
//!
//! It reads the same objects as a pass, through the same observe step, revisions and planner, with the memory
//! of a leader that has just started. Its writer admits no write.

use std::sync::Arc;

use kube::Client;
use tokio_util::sync::CancellationToken;
use vmpool_engine::model::DisruptionBudget;
use vmpool_engine::{
    ComputedStatus, Disk, Machine, ObservedPool, PassMemory, Plan, Pool, compute_status, plan_pass,
};
use vmpool_kit::events::EventSender;
use vmpool_kit::handles::LeaderHandles;
use vmpool_kit::write::Writer;
use vmpool_platforms::{ApiObject, AttachmentOf, DiskOf, Disks, InstanceOf, Instances, Platform};
use vmpool_runtime::Env;
use vmpool_runtime::lease::Fence;

use crate::leadership::FIELD_MANAGER;
use crate::metrics::ControllerMetrics;
use crate::pools::cache::{Cached, Located, ObjectCache};
use crate::pools::context::{CachedNames, PoolContext, SharedByPlatforms};
use crate::pools::live::ReadError;
use crate::pools::observe::observe_pool_snapshot;
use crate::pools::pool_entry::CachedPool;
use crate::pools::revisions;
use crate::pools::seen_facts::seen_facts;
use crate::settings::ControllerSettings;

/// What the controller would do next with a pool.
#[derive(Debug)]
pub struct Preview {
    /// The pool with its current revision.
    pub pool: Pool,
    /// The machines of the pool, and released ones that still have its UID as a label.
    pub machines: Vec<Arc<Machine>>,
    /// The disks of the pool and of its machines, each once, by name.
    pub disks: Vec<Arc<Disk>>,
    /// The writes of the next pass.
    pub next: Plan,
    /// The writes if the disruption budget and provisioning had no limit: also those that the controller
    /// makes later, in the same order.
    pub later: Plan,
    /// The status that the controller would publish after a pass without writes.
    pub status: ComputedStatus,
}

/// Reads what the controller plans with for `pool`, and plans. `pool` may differ from the stored object, for
/// example in `replicas`.
///
/// The names of new machines can differ from those that the controller chooses, because the leader knows
/// which names it has used.
///
/// # Errors
/// A read failed, for example because the client may not list machines.
pub async fn preview_pool<P: Platform>(
    env: &Env,
    client: Client,
    pool: P::Pool,
) -> Result<Preview, ReadError> {
    let context = read_only::<P>(env, client);
    let pool = CachedPool::<P>::read(pool);
    fill_caches(&context, &pool.facts.namespace).await?;
    let mut memory = PassMemory::default();
    let mut stored = Vec::new();
    let pool = if pool.facts.deleting {
        pool.at(revisions::unstored_revision(&pool))
    } else {
        let mut revisions = revisions::list_revisions(&context, &pool).await?;
        stored = revisions.ids();
        revisions::resolve_pool_revision(&context, &pool, &mut revisions).await?
    };
    let facts = &pool.facts;
    memory.observe(facts, env.uptime());
    let snapshot = observe_pool_snapshot(&context, facts, &mut memory);
    let own = snapshot.machines.iter().filter(|machine| machine.belongs_to(&facts.id));
    memory.observe_machines(own, env.uptime());
    let mut disks: Vec<Arc<Disk>> = snapshot.disks.values().chain(&snapshot.pool_disks).cloned().collect();
    disks.sort_by(|a, b| a.id.cmp(&b.id));
    disks.dedup_by(|a, b| a.id == b.id);

    let names = CachedNames { context: &context, namespace: &facts.namespace };
    let settings = context.settings.of_plans();
    let unlimited = without_delaying_limits(facts);
    let mut observed = ObservedPool::new(&snapshot, facts, &stored, settings, &memory, &names);
    let (next, status) = (plan_pass(&observed), compute_status(&observed, memory.failure().as_ref()));
    observed.pool = &unlimited;
    let later = plan_pass(&observed);
    Ok(Preview { pool: facts.clone(), machines: snapshot.machines.clone(), disks, next, later, status })
}

/// The pool without limits of disruptions and on provisioning.
fn without_delaying_limits(pool: &Pool) -> Pool {
    let mut pool = pool.clone();
    pool.rollout.budget = DisruptionBudget::Machines(usize::MAX);
    pool.max_provisioning = None;
    pool
}

/// A context whose writer admits no write.
fn read_only<P: Platform>(env: &Env, client: Client) -> PoolContext<P> {
    // Clients cannot see whether the feature gate of the controller is on. A pool has a limit on purpose.
    let settings = ControllerSettings {
        limits_provisioning: true,
        keeps_standby: true,
        ..ControllerSettings::default()
    };
    let metrics = ControllerMetrics::new(env);
    let writer = Writer::new(
        FIELD_MANAGER,
        client.clone(),
        env.clone(),
        Fence::ended(env.clone()),
        (&settings).into(),
        CancellationToken::new(),
        Arc::new(metrics.writes.clone()),
    );
    // Without its task, the sender of events drops them.
    let (events, _) = EventSender::new(writer.clone(), env.clone(), String::new());
    let handles = LeaderHandles { env: env.clone(), client, writer, events, namespace: None };
    PoolContext::new(handles, SharedByPlatforms::default(), settings, metrics)
}

/// Lists the objects of the namespace that a pass reads from the caches.
async fn fill_caches<P: Platform>(context: &PoolContext<P>, namespace: &str) -> Result<(), ReadError> {
    list_into_cache::<P, P::Machine, _>(context, namespace, &context.caches.machines, P::read_machine)
        .await?;
    if P::Disks::EXIST {
        list_into_cache::<P, DiskOf<P>, _>(context, namespace, &context.caches.disks, P::Disks::read).await?;
    }
    if P::Disks::HAS_ATTACHMENTS {
        list_into_cache::<P, AttachmentOf<P>, _>(
            context,
            namespace,
            &context.caches.attachments,
            P::Disks::read_attachment,
        )
        .await?;
    }
    if P::Instances::EXIST {
        list_into_cache::<P, InstanceOf<P>, _>(
            context,
            namespace,
            &context.caches.instances,
            P::Instances::read,
        )
        .await?;
    }
    Ok(())
}

async fn list_into_cache<P: Platform, K: ApiObject, T: Cached>(
    context: &PoolContext<P>,
    namespace: &str,
    cache: &ObjectCache<T>,
    read: fn(&K) -> T,
) -> Result<(), ReadError> {
    cache.begin_list(context.leader.env.uptime());
    let visit =
        |object: K| cache.listed(Located { namespace: namespace.into(), seen: seen_facts(&object, read) });
    context.list_live(namespace, visit).await?;
    cache.end_list();
    Ok(())
}

#[cfg(test)]
mod tests;
