//! A leader on a server in memory.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use vmpool_platforms::Dvp;
use vmpool_runtime::Env;
use vmpool_runtime::env::Task;
use vmpool_runtime::lease::Fence;
use vmpool_runtime::testing::{ManualClock, test_env, unlimited_fence};

use super::{Call, NAMESPACE, RecordingApiServer};
use crate::images::ImageSettings;
use crate::leadership::{Dependencies, LeaderHealth};
use crate::metrics::ControllerMetrics;
use crate::pools::lead::lead_platform;
use crate::process::options::PlatformName;
use crate::process::platforms::lead_all;
use crate::server_clock::SharedServerClock;
use crate::settings::{ControllerSettings, ImageRefreshSettings};

/// The manifest of a pool of machines with a root disk each.
pub(crate) fn pool_manifest(name: &str, replicas: usize) -> Value {
    json!({
        "apiVersion": "virtualization.deckhouse.io/v1alpha2",
        "kind": "VirtualMachinePool",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "replicas": replicas,
            "scaleDownPolicy": "NewestFirst",
            "virtualMachineTemplate": { "spec": {
                "virtualMachineClassName": "generic",
                "cpu": { "cores": 1, "coreFraction": "5%" },
                "memory": { "size": "512Mi" },
                "blockDeviceRefs": [{ "kind": "VirtualDisk", "name": "root" }],
            }},
            "virtualDiskTemplates": [{
                "name": "root",
                "spec": { "dataSource": {
                    "type": "ObjectRef",
                    "objectRef": { "kind": "ClusterVirtualImage", "name": "alpine" },
                }},
            }],
        },
    })
}

/// A server, a clock, and after [`LeaderWorld::lead_platform`] a leader.
pub(crate) struct LeaderWorld {
    pub(crate) clock: ManualClock,
    pub(crate) env: Env,
    pub(crate) server: RecordingApiServer,
    pub(crate) fence: Fence,
    pub(crate) settings: ControllerSettings,
    pub(crate) leader_health: LeaderHealth,
    pub(crate) metrics: Arc<ControllerMetrics>,
    pub(crate) stop: CancellationToken,
    /// Settings of disk images, if the leader reconciles them.
    pub(crate) images: Option<ImageSettings>,
    pub(crate) image_refresh: Option<ImageRefreshSettings>,
    /// What the process knows of the clock of the API server.
    pub(crate) server_clock: SharedServerClock,
    leader: Option<Task>,
}

impl LeaderWorld {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        let env = test_env(&clock, 7);
        Self {
            server: RecordingApiServer::new(&env),
            leader_health: LeaderHealth::default(),
            metrics: ControllerMetrics::new(&env),
            env,
            clock,
            fence: unlimited_fence(),
            settings: ControllerSettings::default(),
            stop: CancellationToken::new(),
            images: None,
            image_refresh: None,
            server_clock: SharedServerClock::default(),
            leader: None,
        }
    }

    /// A world with a leader and a pool `web` with running machines.
    pub(crate) async fn with_pool(replicas: usize) -> Self {
        let mut world = Self::new();
        world.server.create("virtualmachinepools", pool_manifest("web", replicas));
        world.lead();
        world.calm().await;
        world.run_machines();
        world.calm().await;
        world.server.take_log();
        world
    }

    /// Starts a leader, as in a process that has just acquired the lease.
    pub(crate) fn lead(&mut self) {
        let dependencies = self.dependencies();
        let leading = lead_platform::<Dvp>(
            dependencies,
            self.fence.clone(),
            self.leader_health.clone(),
            self.stop.clone(),
        );
        self.leader = Some(self.env.spawn("leader", leading));
    }

    /// Starts a leader of the platforms whose definitions the server has.
    pub(crate) fn lead_all(&mut self, platforms: &'static [PlatformName]) {
        let (dependencies, fence) = (self.dependencies(), self.fence.clone());
        let leading = lead_all(dependencies, fence, self.leader_health.clone(), platforms, self.stop.clone());
        self.leader = Some(self.env.spawn("leader", leading));
    }

    fn dependencies(&self) -> Dependencies {
        let layers = (self.metrics.api.layer(), self.server_clock.layer(&self.env));
        Dependencies {
            env: self.env.clone(),
            client: self.server.model().client_through("controller", NAMESPACE, &layers),
            namespace: None,
            instance: "test".to_owned(),
            settings: self.settings,
            metrics: self.metrics.clone(),
            images: self.images.clone(),
            image_refresh: self.image_refresh.clone(),
            server_clock: self.server_clock.clone(),
        }
    }

    /// Ends the leader like a killed process. Its memory is lost.
    pub(crate) async fn kill_leader(&mut self) {
        self.leader = None;
        self.clock.settle().await;
    }

    /// Whether the leader has ended.
    pub(crate) fn leader_ended(&self) -> bool {
        self.leader.as_ref().is_none_or(Task::is_finished)
    }

    /// Runs all tasks that can run without advancing the time.
    pub(crate) async fn settle(&self) {
        let mut seen = usize::MAX;
        while seen != self.server.requests() {
            seen = self.server.requests();
            self.clock.settle().await;
        }
    }

    /// Advances the time and runs all tasks that become ready.
    pub(crate) async fn advance(&self, time: Duration) {
        let mut left = time;
        let mut seen = None;
        while !left.is_zero() {
            // The steps are short while requests arrive, so that a long chain of requests does not seem slow.
            let quiet = seen == Some(self.server.requests());
            let step = Duration::from_millis(if quiet { 500 } else { 20 }).min(left);
            seen = Some(self.server.requests());
            self.settle().await;
            self.clock.advance(step).await;
            left -= step;
        }
        self.settle().await;
    }

    /// Advances the time so far that a pool reaches its desired state without faults.
    pub(crate) async fn calm(&self) {
        self.advance(Duration::from_secs(5)).await;
    }

    /// The platform evaluates the specs of all machines and starts them.
    pub(crate) fn run_machines(&self) {
        for machine in self.machines() {
            let name = machine["metadata"]["name"].as_str().unwrap();
            self.server.edit("virtualmachines", name, |machine| {
                machine["status"]["phase"] = json!("Running");
                machine["status"]["observedGeneration"] = machine["metadata"]["generation"].clone();
            });
        }
    }

    /// A user changes the desired number of machines of `web`.
    pub(crate) fn scale(&self, replicas: usize) {
        self.server.edit("virtualmachinepools", "web", |pool| pool["spec"]["replicas"] = json!(replicas));
    }

    pub(crate) fn machines(&self) -> Vec<Value> {
        self.server.all("virtualmachines")
    }

    pub(crate) fn disks(&self) -> Vec<Value> {
        self.server.all("virtualdisks")
    }

    /// The status of `web`.
    pub(crate) fn status(&self) -> Value {
        self.server.get("virtualmachinepools", "web").unwrap()["status"].clone()
    }

    /// A condition of `web`.
    pub(crate) fn condition(&self, kind: &str) -> Option<Value> {
        self.status()["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind).cloned()
    }

    /// The writes since the last call, without events.
    pub(crate) fn take_writes(&self) -> Vec<Call> {
        self.server
            .take_log()
            .into_iter()
            .filter(|call| call.is_write() && call.resource != "events")
            .collect()
    }
}

/// The names of machines, in the given order.
pub(crate) fn machine_names(machines: &[Value]) -> Vec<String> {
    machines.iter().map(|machine| machine["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}
