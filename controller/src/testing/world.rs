//! A leader on a server in memory.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use vmpool_runtime::Env;
use vmpool_runtime::env::Task;
use vmpool_runtime::lease::Fence;
use vmpool_runtime::testing::{ManualClock, env, unfenced};

use super::{Call, Server};
use crate::context::Settings;
use crate::lead::{LeaderHealth, Surroundings, lead};
use crate::metrics::Metrics;
use crate::platform::Dvp;

/// Where everything happens.
pub(crate) const NAMESPACE: &str = "team-a";

/// A pool of machines with a root disk each, as its owner writes it down.
pub(crate) fn pool(name: &str, replicas: usize) -> Value {
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

/// A server, a clock, and a leader once [`World::lead`] was called.
pub(crate) struct World {
    pub(crate) clock: ManualClock,
    pub(crate) env: Env,
    pub(crate) server: Server,
    pub(crate) fence: Fence,
    pub(crate) settings: Settings,
    pub(crate) leader_health: LeaderHealth,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stop: CancellationToken,
    leader: Option<Task>,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        let env = env(&clock, 7);
        Self {
            server: Server::new(&env),
            leader_health: LeaderHealth::new(&env),
            metrics: Metrics::new(&env),
            env,
            clock,
            fence: unfenced(),
            settings: Settings::default(),
            stop: CancellationToken::new(),
            leader: None,
        }
    }

    /// A world with a leader and a pool `web` that has its machines, all of them running.
    pub(crate) async fn with_pool(replicas: usize) -> Self {
        let mut world = Self::new();
        world.server.create("virtualmachinepools", pool("web", replicas));
        world.lead();
        world.calm().await;
        world.run_machines();
        world.calm().await;
        world.server.take_log();
        world
    }

    /// Begins to lead, as a process would that has just taken the lease.
    pub(crate) fn lead(&mut self) {
        let surroundings = Surroundings {
            env: self.env.clone(),
            client: self.server.client_through(&self.metrics.api.layer::<Dvp>()),
            namespace: None,
            instance: "test".to_owned(),
            settings: self.settings,
            metrics: self.metrics.clone(),
        };
        let leading =
            lead::<Dvp>(surroundings, self.fence.clone(), self.leader_health.clone(), self.stop.clone());
        self.leader = Some(self.env.spawn("leader", leading));
    }

    /// The leader vanishes, as a process that is killed; its memory goes with it.
    pub(crate) async fn kill_leader(&mut self) {
        self.leader = None;
        self.clock.settle().await;
    }

    /// Whether the leader has ended.
    pub(crate) fn leader_ended(&self) -> bool {
        self.leader.as_ref().is_none_or(Task::is_finished)
    }

    /// Lets everything happen that can happen without time passing.
    pub(crate) async fn settle(&self) {
        let mut seen = usize::MAX;
        while seen != self.server.requests() {
            seen = self.server.requests();
            self.clock.settle().await;
        }
    }

    /// Lets time pass, and all that it causes happen.
    pub(crate) async fn advance(&self, time: Duration) {
        let mut left = time;
        let mut seen = None;
        while !left.is_zero() {
            // Short steps while something happens: a long chain of requests must not look slow.
            let quiet = seen == Some(self.server.requests());
            let step = Duration::from_millis(if quiet { 500 } else { 20 }).min(left);
            seen = Some(self.server.requests());
            self.settle().await;
            self.clock.advance(step).await;
            left -= step;
        }
        self.settle().await;
    }

    /// Lets enough time pass for a pool to become what its owner wants, if nothing fails.
    pub(crate) async fn calm(&self) {
        self.advance(Duration::from_secs(5)).await;
    }

    /// The platform looks at the spec of every machine that there is, and starts it.
    pub(crate) fn run_machines(&self) {
        for machine in self.machines() {
            let name = machine["metadata"]["name"].as_str().unwrap();
            self.server.edit("virtualmachines", name, |machine| {
                machine["status"]["phase"] = json!("Running");
                machine["status"]["observedGeneration"] = machine["metadata"]["generation"].clone();
            });
        }
    }

    /// The owner of `web` wants another number of machines.
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

    /// The writes since the last look, events apart.
    pub(crate) fn take_writes(&self) -> Vec<Call> {
        self.server
            .take_log()
            .into_iter()
            .filter(|call| call.is_write() && call.resource != "events")
            .collect()
    }
}

/// Names of machines, in their order.
pub(crate) fn machine_names(machines: &[Value]) -> Vec<String> {
    machines.iter().map(|machine| machine["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}
