//! A real control plane with the second platform's kinds, a leader in this process, and a task that starts machines.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use vmpool_controller::metrics::Metrics;
use vmpool_controller::{Dependencies, LeaderHealth, Settings, lead};
use vmpool_installation::workspace_root;
use vmpool_runtime::Env;
use vmpool_runtime::env::Task;
use vmpool_runtime::lease::{Candidate, LeaseConfig};
use vmpool_test_cluster::control_plane::{AuditEntry, AuditMark, ControlPlane, Options};
use vmpool_test_cluster::deadline::Deadline;

use crate::platform::Toy;

const NAMESPACE: &str = "default";

/// Longer than the garbage collector takes to discover new kinds.
const DEADLINE: Duration = Duration::from_secs(90);

/// Poll interval.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) struct World {
    cluster: ControlPlane,
    pools: Api<DynamicObject>,
    machines: Api<DynamicObject>,
    stop: CancellationToken,
    leader: Option<Task>,
    platform: Option<Task>,
}

impl World {
    /// Starts everything. The leader uses a real Lease.
    pub(crate) async fn start() -> Result<Self> {
        let manifests = vec![workspace_root().join("e2e/tests/second_platform/crds")];
        let cluster = ControlPlane::start(Options {
            name: "second-platform".to_owned(),
            manifests,
            ..Options::default()
        })
        .await?;
        let client = cluster.admin();
        let api = |kind: &str, plural: &str| {
            let gvk = GroupVersionKind::gvk("toy.vmpool.dev", "v1", kind);
            Api::namespaced_with(client.clone(), NAMESPACE, &ApiResource::from_gvk_with_plural(&gvk, plural))
        };
        let (pools, machines) = (api("ToyPool", "toypools"), api("ToyMachine", "toymachines"));
        let env = Env::system();
        let stop = CancellationToken::new();
        let platform = env.spawn("machines", start_machines(machines.clone()));
        let leader = env.spawn("leader", lead_toys(cluster.admin(), env.clone(), stop.clone()));
        Ok(Self { cluster, pools, machines, stop, leader: Some(leader), platform: Some(platform) })
    }

    /// Releases the lease, stops the task that starts machines, and stops the cluster.
    pub(crate) async fn end(mut self) -> Result<()> {
        self.stop.cancel();
        if let Some(leader) = self.leader.take() {
            leader.join().await?;
        }
        self.platform = None;
        Ok(self.cluster.stop().await?)
    }

    pub(crate) async fn create_pool(&self, pool: &Value) -> Result<()> {
        self.pools.create(&PostParams::default(), &serde_json::from_value(pool.clone())?).await?;
        Ok(())
    }

    pub(crate) async fn delete_pool(&self, name: &str) -> Result<()> {
        self.pools.delete(name, &DeleteParams::background()).await?;
        Ok(())
    }

    pub(crate) async fn patch_pool(&self, name: &str, patch: Value) -> Result<()> {
        self.pools.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    pub(crate) async fn scale(&self, name: &str, replicas: usize) -> Result<()> {
        self.patch_pool(name, json!({ "spec": { "replicas": replicas } })).await
    }

    /// Creates a machine that no pool owns.
    pub(crate) async fn create_machine(&self, name: &str) -> Result<()> {
        let machine = json!({ "apiVersion": "toy.vmpool.dev/v1", "kind": "ToyMachine", "metadata": { "name": name },
            "spec": { "runStrategy": "Halted" } });
        self.machines.create(&PostParams::default(), &serde_json::from_value(machine)?).await?;
        Ok(())
    }

    pub(crate) async fn delete_machine(&self, name: &str) -> Result<()> {
        self.machines.delete(name, &DeleteParams::background()).await?;
        Ok(())
    }

    pub(crate) async fn machine(&self, name: &str) -> Result<DynamicObject> {
        self.machines.get(name).await.with_context(|| format!("reading machine {name}"))
    }

    pub(crate) async fn machine_names(&self) -> Result<Vec<String>> {
        let machines = self.machines.list(&ListParams::default()).await?;
        let mut names: Vec<String> =
            machines.items.into_iter().filter_map(|machine| machine.metadata.name).collect();
        names.sort();
        Ok(names)
    }

    pub(crate) async fn status(&self, pool: &str) -> Result<Value> {
        Ok(self.pools.get(pool).await?.data["status"].clone())
    }

    /// Waits until exactly these machines exist.
    pub(crate) async fn until_machines(&self, expected: &[&str]) -> Result<()> {
        let deadline = Deadline::after(DEADLINE);
        loop {
            let names = self.machine_names().await?;
            if names == expected {
                return Ok(());
            }
            if deadline.is_over() {
                bail!("there are {names:?} instead of {expected:?} after {}", deadline.elapsed());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until the status of a pool satisfies `done`.
    pub(crate) async fn until_status(
        &self,
        pool: &str,
        what: &str,
        done: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        let deadline = Deadline::after(DEADLINE);
        loop {
            let status = self.status(pool).await?;
            if done(&status) {
                return Ok(());
            }
            if deadline.is_over() {
                bail!("{what} does not hold after {}: {status}", deadline.elapsed());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until this many machines exist and all of them are ready.
    pub(crate) async fn until_settled(&self, pool: &str, replicas: usize) -> Result<()> {
        let counts =
            move |status: &Value| status["replicas"] == replicas && status["readyReplicas"] == replicas;
        self.until_status(pool, &format!("{replicas} ready replicas"), counts).await
    }

    /// The number of requests with this verb for machines so far, including refused ones.
    pub(crate) fn asked(&self, verb: &str) -> Result<usize> {
        let (entries, _) = self.cluster.audit(AuditMark::default())?;
        let such = |entry: &&AuditEntry| entry.resource == "toymachines" && entry.verb == verb;
        Ok(entries.iter().filter(such).count())
    }

    /// All requests for the second platform's kinds during `time`, without watches, which appear in the audit log when
    /// they end.
    pub(crate) async fn requests_during(&self, time: Duration) -> Result<Vec<String>> {
        let mark = self.cluster.audit_mark();
        tokio::time::sleep(time).await;
        let (entries, _) = self.cluster.audit(mark)?;
        let toys = |entry: &&AuditEntry| entry.group == "toy.vmpool.dev" && entry.verb != "watch";
        Ok(entries.iter().filter(toys).map(ToString::to_string).collect())
    }
}

/// Runs the leader as the controller's own process does, with the second platform.
async fn lead_toys(client: kube::Client, env: Env, stop: CancellationToken) {
    let config = LeaseConfig::new(NAMESPACE, "toy-controller", "second-platform");
    let mut candidate = Candidate::new(client.clone(), config, env.clone());
    let Some(leadership) = candidate.acquire(&stop).await else { return };
    let dependencies = Dependencies {
        env: env.clone(),
        client,
        namespace: None,
        instance: "second-platform".to_owned(),
        settings: Settings::default(),
        metrics: Metrics::new(&env),
    };
    lead::<Toy>(dependencies, leadership.fence.clone(), LeaderHealth::new(&env), stop).await;
    leadership.release().await.expect("the lease can be released");
}

/// Simulates the machine controller: a running machine becomes ready soon after its creation.
async fn start_machines(machines: Api<DynamicObject>) {
    use futures::TryStreamExt as _;
    use kube::runtime::{WatchStreamExt as _, watcher};
    let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    let events = watcher(machines.clone(), watcher::Config::default()).default_backoff().touched_objects();
    let started = events.try_for_each(|machine| {
        let (machines, ready) = (machines.clone(), ready.clone());
        async move {
            let runs = machine.data["spec"]["runStrategy"] == "Always" && machine.data["status"].is_null();
            if let (true, Some(name)) = (runs, machine.metadata.name) {
                // The machine may be deleted already.
                let _ = machines.patch_status(&name, &PatchParams::default(), &Patch::Merge(&ready)).await;
            }
            Ok(())
        }
    });
    if let Err(error) = started.await {
        eprintln!("the task that starts machines has failed: {error}");
    }
}
