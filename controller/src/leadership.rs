//! What the controllers of one leadership share.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use vmpool_kit::events::EventSender;
use vmpool_kit::handles::LeaderHandles;
use vmpool_kit::health::WorkerHealth;
use vmpool_kit::write::Writer;
use vmpool_platforms::{Configuration, Platform};
use vmpool_runtime::Env;
use vmpool_runtime::env::Task;
use vmpool_runtime::health::Unhealthy;
use vmpool_runtime::lease::Fence;

use crate::autoscalers::PoolHub;
use crate::images::{ImageGate, ImageSettings};
use crate::metrics::{ControllerMetrics, WriteKind};
use crate::platform_state::{PlatformStates, ShownState};
use crate::pools::context::{PoolContext, SharedByPlatforms};
use crate::pools::disk_sources::DiskSourceStore;
use crate::pools::preserved::PreservedStorage;
use crate::pools::shared_slots::SharedClassSlots;
use crate::pools::sources::Sources;
use crate::server_clock::SharedServerClock;
use crate::settings::{ControllerSettings, ImageRefreshSettings};

/// The field manager of all writes.
pub(crate) const FIELD_MANAGER: &str = "vmpool-controller";

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
    /// Settings of image refresh; `None` if this instance does not follow the sources of disks.
    pub image_refresh: Option<ImageRefreshSettings>,
    /// The clock of the API server, as this process knows it.
    pub server_clock: SharedServerClock,
}

/// The health of a leader, for probes.
#[derive(Clone, Default)]
pub struct LeaderHealth {
    workers: WorkerHealth,
    platforms: PlatformStates,
}

impl LeaderHealth {
    /// Whether the first lists of the caches are complete, so that passes run. A standby reports success,
    /// because it has no caches.
    ///
    /// # Errors
    /// The reason, for the response of the probe.
    pub fn synced(&self) -> Result<(), Unhealthy> {
        if self.workers.is_synced() {
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
        match self.workers.count_stuck_workers(limit) {
            0 => Ok(()),
            stuck => Err(Unhealthy::new(format!("{stuck} workers are stuck in a pass for {limit:?}"))),
        }
    }

    /// What this leader does with the pools of each platform, for people.
    pub fn platforms(&self) -> String {
        self.platforms.text()
    }

    /// The health of the controllers.
    pub(crate) fn workers(&self) -> &WorkerHealth {
        &self.workers
    }
}

/// What all platforms of one leadership share: one lease, one limit of writes in flight, and one sender of
/// events.
#[derive(Clone)]
pub(crate) struct LeadershipResources {
    dependencies: Dependencies,
    writer: Writer<WriteKind>,
    events: EventSender,
    leader_health: LeaderHealth,
    /// The configuration of the platform.
    configuration: Arc<Mutex<Configuration>>,
    sources: Arc<Sources>,
    disk_sources: Arc<DiskSourceStore>,
    /// The preserved storage of the platform.
    preserved: Arc<PreservedStorage>,
    /// Whether the disk images that templates name are ready.
    image_gate: ImageGate,
    /// The limit on provisioning of each storage class.
    class_slots: Arc<SharedClassSlots>,
    /// The pools that autoscalers can scale.
    pool_hub: PoolHub,
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
        let observer = Arc::new(metrics.writes.clone());
        let (client, limits) = (client.clone(), settings.into());
        let writer = Writer::new(FIELD_MANAGER, client, env.clone(), fence, limits, stop, observer);
        let (events, send_events) = EventSender::new(writer.clone(), env.clone(), instance.clone());
        let sender = env.spawn("events", send_events);
        let image_gate =
            if dependencies.images.is_some() { ImageGate::unknown() } else { ImageGate::default() };
        let class_slots = Arc::new(SharedClassSlots::new(settings.max_provisioning_per_class));
        let disk_sources = Arc::new(DiskSourceStore::new(dependencies.image_refresh.clone()));
        let shared = Self {
            dependencies,
            writer,
            events,
            leader_health,
            configuration: Arc::default(),
            sources: Arc::default(),
            disk_sources,
            preserved: Arc::default(),
            image_gate,
            class_slots,
            pool_hub: PoolHub::default(),
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

    /// The pools that autoscalers can scale.
    pub(crate) fn pool_hub(&self) -> &PoolHub {
        &self.pool_hub
    }

    /// The writer of this leader.
    pub(crate) fn writer(&self) -> &Writer<WriteKind> {
        &self.writer
    }

    /// What the contexts of this leader act with.
    pub(crate) fn handles(&self) -> LeaderHandles<WriteKind> {
        LeaderHandles {
            env: self.env().clone(),
            client: self.client().clone(),
            writer: self.writer.clone(),
            events: self.events.clone(),
            namespace: self.dependencies.namespace.clone(),
        }
    }

    /// What the passes over the pools of a platform share.
    pub(crate) fn pool_context<P: Platform>(&self) -> PoolContext<P> {
        let shared = SharedByPlatforms {
            configuration: self.configuration.clone(),
            sources: self.sources.clone(),
            disk_sources: self.disk_sources.clone(),
            images: self.image_gate.clone(),
            autoscaled: self.pool_hub.clone(),
            class_slots: self.class_slots.clone(),
            server_clock: self.dependencies.server_clock.clone(),
        };
        PoolContext::new(self.handles(), shared, self.settings(), self.metrics().clone())
    }

    /// The health of this leader.
    pub(crate) fn leader_health(&self) -> &LeaderHealth {
        &self.leader_health
    }

    /// The events of this leader.
    pub(crate) fn events(&self) -> &EventSender {
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

    /// What the sources of disks of this platform lead to.
    pub(crate) fn disk_sources(&self) -> &Arc<DiskSourceStore> {
        &self.disk_sources
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
            disk_sources: Arc::new(self.disk_sources.emptied()),
            preserved: Arc::default(),
            ..self.clone()
        }
    }
}
