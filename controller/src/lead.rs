//! The work of a leader: it watches the API server and runs passes until it stops or loses the lease.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, select, select_all};
use kube::Client;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use vmpool_platforms::{Configuration, Platform, TemplateCopies};
use vmpool_runtime::Env;
use vmpool_runtime::env::Task;
use vmpool_runtime::health::{Heartbeat, Unhealthy};
use vmpool_runtime::lease::Fence;

use crate::context::PoolContext;
use crate::events::Events;
use crate::images::{ImageGate, ImageSettings};
use crate::leader_handles::LeaderHandles;
use crate::metrics::{ControllerMetrics, LeaderSnapshot, PassResult, WatchResource};
use crate::passes::{self, run_passes};
use crate::platform_state::{PlatformStates, ShownState};
use crate::pool_key::PoolKey;
use crate::preserved::PreservedStorage;
use crate::queue::Requeue;
use crate::reconcile::{reconcile_pool, release_former_machines};
use crate::settings::ControllerSettings;
use crate::sources::Sources;
use crate::watches::{self, is_synced};
use crate::write::Writer;

/// Time until the next pass of a pool whose pass panicked.
const AFTER_PANIC: Duration = Duration::from_secs(10);

/// What a controller instance needs from outside.
#[derive(Clone)]
pub struct Dependencies {
    /// Time, randomness and tasks.
    pub env: Env,
    /// The client of the API server. It must not retry requests.
    pub client: Client,
    /// The namespace to reconcile; `None` means all namespaces.
    pub namespace: Option<String>,
    /// The name of this instance in events.
    pub instance: String,
    /// Settings of the controller.
    pub settings: ControllerSettings,
    /// The metrics of this instance.
    pub metrics: Arc<ControllerMetrics>,
    /// Settings of disk images; `None` if this instance does not reconcile them.
    pub images: Option<ImageSettings>,
}

/// The health of a leader, for probes.
#[derive(Clone)]
pub struct LeaderHealth {
    env: Env,
    /// The state of each platform that is reconciled.
    states: Arc<Mutex<Vec<Arc<LeaderState>>>>,
    platforms: PlatformStates,
}

struct LeaderState {
    synced: Arc<dyn Fn() -> bool + Send + Sync>,
    workers: Vec<Heartbeat>,
}

impl LeaderHealth {
    /// Creates the health of a standby.
    pub fn new(env: &Env) -> Self {
        Self { env: env.clone(), states: Arc::default(), platforms: PlatformStates::default() }
    }

    /// Whether the first lists of the caches are complete, so that passes run. A standby reports success,
    /// because it has no caches.
    ///
    /// # Errors
    /// The reason, for the response of the probe.
    pub fn synced(&self) -> Result<(), Unhealthy> {
        if self.states.lock().iter().all(|state| (state.synced)()) {
            Ok(())
        } else {
            Err(Unhealthy::new(
                "the first list of definitions, pools, machines, disks, attachments and instances is not complete",
            ))
        }
    }

    /// Whether every worker has sent a heartbeat within `limit`.
    ///
    /// # Errors
    /// The reason, for the response of the probe.
    pub fn working(&self, limit: Duration) -> Result<(), Unhealthy> {
        let states = self.states.lock();
        let workers = states.iter().flat_map(|state| &state.workers);
        let stuck = workers.filter(|worker| worker.age() > limit).count();
        if stuck == 0 {
            Ok(())
        } else {
            Err(Unhealthy::new(format!("{stuck} workers are stuck in a pass for {limit:?}")))
        }
    }

    /// What this leader does with the pools of each platform, for people.
    pub fn platforms(&self) -> String {
        self.platforms.text()
    }

    /// A leader without workers is synced if `synced` returns so, until the guard is dropped.
    pub(crate) fn listing(&self, synced: impl Fn() -> bool + Send + Sync + 'static) -> LeaderHealthGuard {
        self.begin(LeaderState { synced: Arc::new(synced), workers: Vec::new() })
    }

    fn begin(&self, state: LeaderState) -> LeaderHealthGuard {
        let state = Arc::new(state);
        self.states.lock().push(state.clone());
        LeaderHealthGuard { health: self.clone(), state }
    }
}

/// Resets the health when the leadership ends. If the lease is lost, the workers are dropped in the middle of
/// a pass, and they must not count as stuck while this instance is a standby.
pub(crate) struct LeaderHealthGuard {
    health: LeaderHealth,
    state: Arc<LeaderState>,
}

impl Drop for LeaderHealthGuard {
    fn drop(&mut self) {
        self.health.states.lock().retain(|state| !Arc::ptr_eq(state, &self.state));
    }
}

/// What all platforms of one leadership share: one lease, one limit of writes in flight, and one sender of
/// events.
#[derive(Clone)]
pub(crate) struct LeadershipResources {
    dependencies: Dependencies,
    writer: Writer,
    events: Events,
    leader_health: LeaderHealth,
    /// The configuration of the platform.
    configuration: Arc<Mutex<Configuration>>,
    sources: Arc<Sources>,
    /// The preserved storage of the platform.
    preserved: Arc<PreservedStorage>,
    /// Whether the disk images that templates name are ready.
    image_gate: ImageGate,
}

impl LeadershipResources {
    /// What the platforms share, and the task that sends their events.
    pub(crate) fn new(
        dependencies: Dependencies,
        fence: Fence,
        leader_health: LeaderHealth,
        stop: CancellationToken,
    ) -> (Self, Task) {
        let Dependencies { env, client, instance, settings, metrics, .. } = &dependencies;
        let writer =
            Writer::new(client.clone(), env.clone(), fence, settings.into(), stop, metrics.writes.clone());
        let (events, send_events) = Events::new(writer.clone(), env.clone(), instance.clone());
        let sender = env.spawn("events", send_events);
        let image_gate =
            if dependencies.images.is_some() { ImageGate::unknown() } else { ImageGate::default() };
        let shared = Self {
            dependencies,
            writer,
            events,
            leader_health,
            configuration: Arc::default(),
            sources: Arc::default(),
            preserved: Arc::default(),
            image_gate,
        };
        (shared, sender)
    }

    /// Time, randomness and tasks.
    pub(crate) fn env(&self) -> &Env {
        &self.dependencies.env
    }

    /// The client of the API server.
    pub(crate) fn client(&self) -> &Client {
        &self.dependencies.client
    }

    /// The settings of the controller.
    pub(crate) fn settings(&self) -> ControllerSettings {
        self.dependencies.settings
    }

    /// The metrics of this instance.
    pub(crate) fn metrics(&self) -> &Arc<ControllerMetrics> {
        &self.dependencies.metrics
    }

    /// Settings of disk images; `None` if this instance does not reconcile them.
    pub(crate) fn images(&self) -> Option<&ImageSettings> {
        self.dependencies.images.as_ref()
    }

    /// Whether the disk images that templates name are ready.
    pub(crate) fn image_gate(&self) -> &ImageGate {
        &self.image_gate
    }

    /// The writer of this leader.
    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    /// What the contexts of this leader act with.
    pub(crate) fn handles(&self) -> LeaderHandles {
        LeaderHandles {
            env: self.env().clone(),
            client: self.client().clone(),
            writer: self.writer.clone(),
            events: self.events.clone(),
        }
    }

    /// The health of this leader.
    pub(crate) fn leader_health(&self) -> &LeaderHealth {
        &self.leader_health
    }

    /// The events of this leader.
    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    /// The namespace to reconcile; `None` means all namespaces.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.dependencies.namespace.as_deref()
    }

    /// Begins to show the state of a platform, until the result is dropped.
    pub(crate) fn show_state<P: Platform>(&self) -> ShownState {
        self.leader_health.platforms.begin(P::NAME, self.dependencies.metrics.clone())
    }

    /// Records the configuration of the platform.
    pub(crate) fn set_configuration(&self, configuration: Configuration) {
        *self.configuration.lock() = configuration;
    }

    /// The objects that templates of this platform refer to.
    pub(crate) fn sources(&self) -> &Arc<Sources> {
        &self.sources
    }

    /// The preserved storage of this platform.
    pub(crate) fn preserved(&self) -> &Arc<PreservedStorage> {
        &self.preserved
    }

    /// The same for another platform, which has settings of its own.
    pub(crate) fn for_platform(&self) -> Self {
        Self {
            configuration: Arc::default(),
            sources: Arc::default(),
            preserved: Arc::default(),
            ..self.clone()
        }
    }
}

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
    reconcile_platform::<P>(shared, vec![events], stop).await;
}

/// Reconciles all pools of one platform until `stop`, and finishes the passes in progress. If one of its
/// watches or of `tasks` ends, it logs an error and stops as well, so that the next leader starts with new
/// caches.
///
/// The caller must hold the lease, and must drop the future when the lease is lost. The caches are filled
/// from new lists, because a watch of a standby may lack the last writes of the former leader.
pub(crate) async fn reconcile_platform<P: Platform>(
    shared: LeadershipResources,
    mut tasks: Vec<Task>,
    stop: CancellationToken,
) {
    let LeadershipResources {
        dependencies,
        writer,
        events,
        leader_health,
        configuration,
        sources,
        preserved,
        image_gate,
    } = shared;
    let Dependencies { env, client, namespace, settings, metrics, .. } = dependencies;
    let context = Arc::new(PoolContext::<P>::new(
        LeaderHandles { env: env.clone(), client, writer, events },
        configuration,
        sources,
        image_gate,
        settings,
        metrics.clone(),
    ));
    context.images.on_change({
        let context = Arc::downgrade(&context);
        move |pool| {
            context.upgrade().is_some_and(|context| {
                watches::wake_pool(&context, pool);
                true
            })
        }
    });
    let _counted = metrics.leading({
        let context = Arc::downgrade(&context);
        move || context.upgrade().map(|context| live_leader_state(&context, &preserved))
    });
    // A child token, because the end of this leadership must not stop the process.
    let stop = stop.child_token();
    tasks.extend(watches::start_pool_watches(&context, namespace.as_deref()));
    tasks.push(
        env.spawn("changes of objects that templates refer to", watches::wake_for_sources(context.clone())),
    );
    let synced = {
        let context = Arc::downgrade(&context);
        move || context.upgrade().is_none_or(|context| is_synced(&context))
    };
    let workers: Vec<Heartbeat> = (0..settings.workers).map(|_| Heartbeat::new(&leader_health.env)).collect();
    let _leading = leader_health.begin(LeaderState { synced: Arc::new(synced), workers: workers.clone() });

    let mut workers: Vec<_> = workers
        .into_iter()
        .map(|heartbeat| env.spawn("worker", run_pool_worker(context.clone(), heartbeat, stop.clone())))
        .collect();
    workers.push(env.spawn("worker of former pools", work_on_former_pools(context.clone(), stop.clone())));
    oversee_workers(workers, tasks, &stop).await;
}

/// Waits for the workers. The watches and the event sender in `tasks` run forever. If one of them ends first,
/// the caches are no longer updated, so the workers `stop` after the passes in progress.
pub(crate) async fn oversee_workers(workers: Vec<Task>, tasks: Vec<Task>, stop: &CancellationToken) {
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

fn live_leader_state<P: Platform>(context: &PoolContext<P>, preserved: &PreservedStorage) -> LeaderSnapshot {
    let cached = WatchResource::ALL.iter().map(|resource| match resource {
        WatchResource::Pools => context.pools.len(),
        WatchResource::Machines => context.machines.len(),
        WatchResource::Disks => context.disks.len(),
        WatchResource::Attachments => context.attachments.len(),
        WatchResource::Revisions => context.revisions.len(),
        WatchResource::Instances => context.instances.len(),
    });
    let series = context.pool_counts.series(P::NAME, P::TemplateCopies::LABELS.is_some(), preserved.counts());
    let totals = context.pool_counts.totals();
    let ControllerSettings { max_pool_series, kubevirt_metrics, .. } = context.settings;
    LeaderSnapshot::new(context.queue.state(), totals, series, max_pool_series, cached)
        .with_kubevirt_names(kubevirt_metrics)
}

async fn work_on_former_pools<P: Platform>(context: Arc<PoolContext<P>>, stop: CancellationToken) {
    // Without all pools, each of them would seem not to exist.
    let context = &*context;
    passes::until_synced(&context.env, &stop, || is_synced(context)).await;
    passes::reconcile_queue(context, &context.former_pools, &stop, |context, (namespace, name)| {
        release_former_machines(context, namespace, name).boxed()
    })
    .await;
}

async fn run_pool_worker<P: Platform>(
    context: Arc<PoolContext<P>>,
    heartbeat: Heartbeat,
    stop: CancellationToken,
) {
    while !is_synced(&context) {
        heartbeat.beat();
        let pause = context.env.sleep(Duration::from_millis(20));
        select(pause, std::pin::pin!(stop.cancelled())).await;
        if stop.is_cancelled() {
            return;
        }
    }
    let pass = |pool: PoolKey| {
        let context = context.clone();
        async move {
            let (again, effort) =
                AssertUnwindSafe(reconcile_pool(&context, &pool)).catch_unwind().await.unwrap_or_else(|_| {
                    context.metrics.passes.ended(PassResult::Panicked);
                    tracing::error!(%pool, "a pass panicked; the controller retries the pool later");
                    (Requeue::After(AFTER_PANIC), Duration::ZERO)
                });
            (pool, again, effort)
        }
        .boxed()
    };
    run_passes(&context.queue, &stop, Some(&heartbeat), pass).await;
}
