//! The leadership of the pools of one platform: the watches and the workers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::FutureExt;
use tokio_util::sync::CancellationToken;
use vmpool_kit::controller::{Controller, WorkerGroup, run_controller};
use vmpool_kit::passes::PassEnd;
use vmpool_platforms::{Platform, TemplateCopies};
use vmpool_runtime::Env;
use vmpool_runtime::env::Task;
use vmpool_runtime::lease::Fence;

use crate::autoscalers::serve_pools;
use crate::leadership::{Dependencies, LeaderHealth, LeadershipResources};
use crate::metrics::{LeaderSnapshot, PassResult, WatchResource};
use crate::pools::context::PoolContext;
use crate::pools::pool_exporter::{follow_pool_exporter, follows_pool_exporter};
use crate::pools::preserved::PreservedStorage;
use crate::pools::reconcile::{reconcile_pool, release_former_machines};
use crate::pools::watches::{self, start_pool_watches};

/// Reconciles all pools of one platform until `stop`, and finishes the passes in progress.
///
/// The caller must hold the lease of `fence`, and must drop the future when the lease is lost.
pub async fn lead_platform<P: Platform>(
    dependencies: Dependencies,
    fence: Fence,
    leader_health: LeaderHealth,
    stop: CancellationToken,
) {
    let (shared, events) = LeadershipResources::new(dependencies, fence, leader_health, stop.clone());
    reconcile_platform::<P>(&shared, vec![events], stop).await;
}

/// Reconciles all pools of one platform until `stop`, and finishes the passes in progress. If one of its
/// watches or of `tasks` ends, it stops as well.
///
/// The caller must hold the lease, and must drop the future when the lease is lost.
pub(crate) async fn reconcile_platform<P: Platform>(
    shared: &LeadershipResources,
    tasks: Vec<Task>,
    stop: CancellationToken,
) {
    let context = Arc::new(shared.pool_context::<P>());
    context.images.on_change({
        let context = Arc::downgrade(&context);
        move |pool| {
            context.upgrade().is_some_and(|context| {
                watches::wake_pool(&context, pool);
                true
            })
        }
    });
    context.disk_sources.on_change({
        let context = Arc::downgrade(&context);
        move |pool| {
            context.upgrade().is_some_and(|context| {
                watches::wake_pool(&context, pool);
                true
            })
        }
    });
    context.class_slots.on_free_slot({
        let context = Arc::downgrade(&context);
        move |pool| {
            context.upgrade().is_some_and(|context| {
                watches::wake_pool(&context, pool);
                true
            })
        }
    });
    serve_pools(shared.pool_hub(), &context);
    let _counted = shared.metrics().leading({
        let (context, preserved) = (Arc::downgrade(&context), shared.preserved().clone());
        move || context.upgrade().map(|context| live_leader_state(&context, &preserved))
    });
    run_controller(context, shared.leader_health().workers(), tasks, stop).await;
}

impl<P: Platform> Controller for PoolContext<P> {
    fn env(&self) -> &Env {
        &self.leader.env
    }

    fn is_synced(&self) -> bool {
        watches::is_synced(self)
    }

    fn start_watches(self: &Arc<Self>) -> Vec<Task> {
        let mut tasks = start_pool_watches(self);
        let woken = watches::wake_for_sources(self.clone());
        tasks.push(self.leader.env.spawn("changes of objects that templates refer to", woken));
        if follows_pool_exporter::<P>(self.settings.kubevirt_metrics) {
            let followed = follow_pool_exporter(self.clone());
            tasks.push(self.leader.env.spawn("other metrics of KubeVirt pools", followed));
        }
        tasks
    }

    fn worker_groups(&self) -> Vec<WorkerGroup<Self>> {
        let pools = WorkerGroup::new(
            "worker",
            self.settings.workers,
            |context: &Self| &context.queue,
            |context, pool| reconcile_pool(context, pool).boxed(),
        );
        let former_pools = WorkerGroup::new(
            "worker of former pools",
            1,
            |context: &Self| &context.former_pools,
            |context, pool| release_former_machines(context, pool).map(PassEnd::from).boxed(),
        );
        vec![pools.supervised(), former_pools]
    }

    fn pass_panicked(&self, pool: &dyn std::fmt::Debug) {
        self.metrics.passes.ended(PassResult::Panicked);
        tracing::error!(?pool, "a pass panicked; the controller retries the pool later");
    }
}

fn live_leader_state<P: Platform>(context: &PoolContext<P>, preserved: &PreservedStorage) -> LeaderSnapshot {
    let cached = WatchResource::ALL.iter().map(|resource| match resource {
        WatchResource::Pools => context.caches.pools.len(),
        WatchResource::Machines => context.caches.machines.len(),
        WatchResource::Disks => context.caches.disks.len(),
        WatchResource::Attachments => context.caches.attachments.len(),
        WatchResource::Revisions => context.caches.revisions.len(),
        WatchResource::Instances => context.caches.instances.len(),
    });
    let series = context.pool_counts.series(P::NAME, P::TemplateCopies::LABELS.is_some(), preserved.counts());
    let totals = context.pool_counts.totals();
    let max_pool_series = context.settings.max_pool_series;
    LeaderSnapshot::new(context.queue.state(), totals, series, max_pool_series, cached)
        .with_kubevirt_names(context.has_kubevirt_names.load(Ordering::Relaxed))
}
