//! What a leader does from the moment it leads until it stops: watch, and one pass after the other.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, select, select_all};
use kube::Client;
use parking_lot::Mutex;
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;
use vmpool_engine::Uid;
use vmpool_runtime::Env;
use vmpool_runtime::env::Task;
use vmpool_runtime::health::Heartbeat;
use vmpool_runtime::lease::Fence;

use crate::context::{Context, Settings};
use crate::events::Events;
use crate::metrics::{Live, Metrics, PassResult, PoolCounts, WatchResource};
use crate::platform::Platform;
use crate::queue::{Queue, Requeue};
use crate::reconcile::reconcile;
use crate::watches::{self, is_synced};
use crate::write::Writer;

/// When a pool is looked at again whose pass panicked.
const AFTER_PANIC: Duration = Duration::from_secs(10);
/// How often an idle worker shows that it lives.
const PULSE: Duration = Duration::from_secs(10);

/// What the controller is given from outside, one per instance.
#[derive(Clone)]
pub struct Surroundings {
    /// Time, randomness and tasks.
    pub env: Env,
    /// The way to the API server. It must not retry by itself.
    pub client: Client,
    /// Watch and serve this namespace only; all of them if `None`.
    pub namespace: Option<String>,
    /// The name of this instance, in events.
    pub instance: String,
    /// Bounds of the work.
    pub settings: Settings,
    /// Where to count. It belongs to this instance.
    pub metrics: Arc<Metrics>,
}

/// Shows to the outside how the leader is doing.
#[derive(Clone)]
pub struct LeaderHealth {
    env: Env,
    state: Arc<Mutex<LeaderState>>,
}

#[derive(Default)]
struct LeaderState {
    synced: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    workers: Vec<Heartbeat>,
}

impl LeaderHealth {
    /// Vitals of somebody who does not lead yet.
    pub fn new(env: &Env) -> Self {
        Self { env: env.clone(), state: Arc::default() }
    }

    /// Whether the caches are complete, so that passes run. True for somebody who does not lead: there is nothing to
    /// wait for.
    ///
    /// # Errors
    /// A sentence for the probe's answer.
    pub fn synced(&self) -> Result<(), String> {
        match &self.state.lock().synced {
            Some(synced) if !synced() => {
                Err("the first list of pools, machines, disks and attachments is not complete".into())
            }
            _ => Ok(()),
        }
    }

    /// Whether every worker has shown a sign of life within `limit`.
    ///
    /// # Errors
    /// A sentence for the probe's answer.
    pub fn working(&self, limit: Duration) -> Result<(), String> {
        let stuck = self.state.lock().workers.iter().filter(|worker| worker.age() > limit).count();
        if stuck == 0 { Ok(()) } else { Err(format!("{stuck} workers are stuck in a pass for {limit:?}")) }
    }

    fn begin(&self, vital: LeaderState) -> Leading {
        *self.state.lock() = vital;
        Leading(self.clone())
    }
}

/// Resets the vitals when leading ends, however it does: whoever loses the lease is dropped half-way, and its workers
/// must not look stuck on the standby that it becomes.
struct Leading(LeaderHealth);

impl Drop for Leading {
    fn drop(&mut self) {
        *self.0.state.lock() = LeaderState::default();
    }
}

/// Serves all pools of one platform until `stop`; passes that have begun are finished. Ends likewise, with an error in
/// the log, if one of its own watches ends: whoever leads next starts with caches that are alive.
///
/// Whoever calls it holds the lease behind `fence`, and drops the future when the lease is lost. The caches are filled
/// anew: what a standby has watched may lack the last writes of its predecessor.
pub async fn lead<P: Platform>(
    surroundings: Surroundings,
    fence: Fence,
    leader_health: LeaderHealth,
    stop: CancellationToken,
) {
    let Surroundings { env, client, namespace, instance, settings, metrics } = surroundings;
    let writer = Writer::new(
        client.clone(),
        env.clone(),
        fence,
        settings.writes_in_flight,
        settings.request_deadline,
        metrics.writes.clone(),
    );
    let (events, send_events) = Events::new(writer.clone(), env.clone(), instance);
    let context = Arc::new(Context::<P> {
        queue: Queue::new(env.clone(), settings.debounce, metrics.queue.clone()),
        env: env.clone(),
        client,
        writer,
        events,
        pools: Arc::default(),
        machines: Arc::default(),
        disks: Arc::default(),
        attachments: Arc::default(),
        states: Mutex::new(HashMap::new()),
        settings,
        metrics: metrics.clone(),
        pool_counts: PoolCounts::default(),
    });
    let _counted = metrics.leading({
        let context = Arc::downgrade(&context);
        move || context.upgrade().map(|context| live(&context))
    });
    // Its own end is nobody else's.
    let stop = stop.child_token();
    let mut tasks = vec![env.spawn("events", send_events)];
    tasks.extend(watches::begin(&context, namespace.as_deref()));
    let synced = {
        let context = Arc::downgrade(&context);
        move || context.upgrade().is_none_or(|context| is_synced(&context))
    };
    let workers: Vec<Heartbeat> = (0..settings.workers).map(|_| Heartbeat::new(&leader_health.env)).collect();
    let _leading =
        leader_health.begin(LeaderState { synced: Some(Arc::new(synced)), workers: workers.clone() });

    let workers: Vec<_> = workers
        .into_iter()
        .map(|heartbeat| env.spawn("worker", work(context.clone(), heartbeat, stop.clone())))
        .collect();
    oversee(workers, tasks, &stop).await;
}

/// Waits for the workers. What they rest on, `tasks`, runs for ever; when one of them ends before the workers do, the
/// caches stand still from then on, so the workers are told to `stop` after the passes that have begun.
pub(crate) async fn oversee(workers: Vec<Task>, tasks: Vec<Task>, stop: &CancellationToken) {
    let workers = async {
        for worker in workers {
            if let Err(error) = worker.join().await {
                tracing::error!(%error, "a worker ended");
            }
        }
    };
    let tasks = select_all(tasks.into_iter().map(|task| Box::pin(task.join())));
    futures::pin_mut!(workers);
    if let Either::Right(((ended, ..), workers)) = select(workers, tasks).await {
        let error = ended.err().map(|error| error.to_string());
        tracing::error!(error, "a watch or the sender of events ended: this leadership ends too");
        stop.cancel();
        workers.await;
    }
}

fn live<P: Platform>(context: &Context<P>) -> Live {
    let cached = WatchResource::ALL.iter().map(|resource| match resource {
        WatchResource::Pools => context.pools.len(),
        WatchResource::Machines => context.machines.len(),
        WatchResource::Disks => context.disks.len(),
        WatchResource::Attachments => context.attachments.len(),
    });
    Live::new(context.queue.state(), context.pool_counts.totals(), cached)
}

async fn work<P: Platform>(context: Arc<Context<P>>, heartbeat: Heartbeat, stop: CancellationToken) {
    while !is_synced(&context) {
        heartbeat.beat();
        let pause = context.env.sleep(Duration::from_millis(20));
        select(pause, std::pin::pin!(stop.cancelled())).await;
        if stop.is_cancelled() {
            return;
        }
    }
    loop {
        heartbeat.beat();
        let next = context.env.timeout(PULSE, context.queue.next());
        let next = std::pin::pin!(next);
        let uid: Uid = match select(next, std::pin::pin!(stop.cancelled())).await {
            Either::Left((Ok(uid), _)) => uid,
            Either::Left((Err(_), _)) => continue,
            Either::Right(_) => return,
        };
        let (again, effort) =
            AssertUnwindSafe(reconcile(&context, &uid)).catch_unwind().await.unwrap_or_else(|_| {
                context.metrics.passes.ended(PassResult::Panicked);
                tracing::error!(uid = uid.as_str(), "a pass panicked; the pool is tried again later");
                (Requeue::After(AFTER_PANIC), Duration::ZERO)
            });
        context.queue.done(&uid, again, effort);
        if again == Requeue::Never {
            context.queue.forget(&uid);
        }
        // A pass that waited for nothing, and another one that is due at once, would keep the one thread from everything
        // else: from the answers of the API server, from the lease, from the end of this worker.
        yield_now().await;
    }
}
