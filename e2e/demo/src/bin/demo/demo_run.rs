//! The steps of the demo. Each prints the command that a user would type, runs it, and shows what follows.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use vmpool_demo::rollout::RolloutTrace;
use vmpool_demo::screen::SharedScreen;
use vmpool_installation::programs::ControllerProgram;
use vmpool_installation::workspace_root;
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::platform::TestedPlatform;
use vmpool_invariants::recorder::Recorder;
use vmpool_test_cluster::binaries::find_program;
use vmpool_test_cluster::control_plane::ControlPlane;

use crate::table::MachineTable;

/// The namespace of the pool.
pub(crate) const NAMESPACE: &str = "demo";

const POOL: &str = "quickstart";
/// Timeout of a step on a slow host.
const PATIENCE: Duration = Duration::from_mins(2);
/// Interval at which the table is refreshed.
const REFRESH: Duration = Duration::from_millis(100);

/// A pool, and the programs that act on it.
pub(crate) struct DemoRun<'a> {
    cluster: &'a ControlPlane,
    platform: TestedPlatform,
    recorder: &'a Recorder,
    controller: &'a ControllerProgram,
    screen: SharedScreen,
    table: MachineTable,
    plugin: PathBuf,
}

impl<'a> DemoRun<'a> {
    pub(crate) fn new(
        cluster: &'a ControlPlane,
        platform: TestedPlatform,
        recorder: &'a Recorder,
        controller: &'a ControllerProgram,
        screen: SharedScreen,
    ) -> Result<Self> {
        let plugin = find_program("kubectl-vmpool", "VMPOOL_PLUGIN")?;
        let table = MachineTable::new(POOL, screen.clone());
        Ok(Self { cluster, platform, recorder, controller, screen, table, plugin })
    }

    /// The pool in one line.
    pub(crate) fn summary(&self) -> String {
        self.table.summary(self.recorder)
    }

    /// Runs all steps.
    pub(crate) async fn run(&mut self) -> Result<()> {
        self.create().await?;
        self.scale().await?;
        self.protect().await?;
        self.remove().await?;
        self.roll_out().await?;
        if self.platform == TestedPlatform::Dvp {
            self.refuse().await?;
        }
        self.crash().await
    }

    async fn create(&mut self) -> Result<()> {
        let manifest = match self.platform {
            TestedPlatform::Dvp => "docs/examples/quickstart.yaml",
            TestedPlatform::KubeVirt => "docs/examples/kubevirt/quickstart.yaml",
        };
        self.say(&format!("\n$ kubectl apply -f {manifest}"));
        self.cluster.apply_path(&workspace_root().join(manifest), Some(NAMESPACE)).await?;
        self.until_ready(2).await
    }

    async fn scale(&mut self) -> Result<()> {
        self.kubectl(&["scale", &self.pools(), POOL, "--replicas=4"]).await?;
        self.until_ready(4).await
    }

    /// A scale-down passes over a protected machine.
    async fn protect(&mut self) -> Result<()> {
        let machines = self.machines();
        // The policy of the pool would remove this one first.
        let newest = machines.iter().max_by_key(|machine| {
            let created = machine.text("/metadata/creationTimestamp").to_owned();
            (created, machine.name().to_owned())
        });
        let newest = newest.context("the pool has machines")?.name().to_owned();
        let until = Timestamp::now() + SignedDuration::from_hours(1);
        let until = format!("vmpool.dev/protected-until={}", until.strftime("%Y-%m-%dT%H:%M:%SZ"));
        self.say(&format!("\n# A job runs on machine {newest}, which a scale-down would remove first."));
        self.kubectl(&["annotate", &self.kind(TestedKind::Machine), &newest, &until]).await?;
        self.kubectl(&["scale", &self.pools(), POOL, "--replicas=3"]).await?;
        self.until_ready(3).await?;
        let stays = self.machines().iter().any(|machine| machine.name() == newest);
        ensure!(stays, "the scale-down removed the protected machine {newest}");
        self.say(&format!("Machine {newest} stays: it is protected."));
        self.kubectl(&["annotate", &self.kind(TestedKind::Machine), &newest, "vmpool.dev/protected-until-"])
            .await
    }

    /// A removal by name, together with the decrement of the replicas.
    async fn remove(&mut self) -> Result<()> {
        let machines = self.machines();
        let oldest = machines.first().context("the pool has machines")?.name().to_owned();
        self.say(&format!("\n# Machine {oldest} is the one to remove, whatever the policy of the pool."));
        self.say(&format!("$ kubectl vmpool remove {POOL} {oldest}"));
        let namespace = format!("--namespace={NAMESPACE}");
        let arguments = ["remove", POOL, &oldest, &namespace];
        let access = self.cluster.access();
        let answer = access.run("kubectl-vmpool", &self.plugin, &arguments, PATIENCE).await?;
        self.say(answer.trim_end());
        self.until_ready(2).await?;
        let left = self.machines();
        ensure!(left.iter().all(|machine| machine.name() != oldest), "machine {oldest} was not removed");
        Ok(())
    }

    /// A rollout that restarts one machine at a time.
    async fn roll_out(&mut self) -> Result<()> {
        let spec = match self.platform {
            TestedPlatform::Dvp => json!({
                "rollout": { "maxUnavailable": 1 },
                "virtualMachineTemplate": { "spec": {
                    "cpu": { "cores": 2 }, "disruptions": { "restartApprovalMode": "Automatic" },
                } },
            }),
            TestedPlatform::KubeVirt => json!({
                "maxUnavailable": 1,
                "virtualMachineTemplate": { "spec": { "template": { "spec": {
                    "domain": { "cpu": { "cores": 2 } },
                } } } },
            }),
        };
        self.say("\n# Machines get two cores. They restart one at a time.");
        let patch = json!({ "spec": spec }).to_string();
        let before = self.recorder.history().changes().len();
        self.kubectl(&["patch", &self.pools(), POOL, "--type=merge", &format!("--patch={patch}")]).await?;
        self.until_rolled_out(before, 2).await
    }

    /// Refreshes the table until all `count` machines are updated, and checks that they were updated one at a
    /// time. `before` is the number of changes that had been recorded before the rollout.
    async fn until_rolled_out(&self, before: usize, count: i64) -> Result<()> {
        let begin = Instant::now();
        // Read the pool that was just written, so that its generation is the one of the rollout.
        self.recorder.catch_up().await?;
        let generation = self.pool()?.number("/metadata/generation").context("the pool has a generation")?;
        let mut trace = RolloutTrace::new(generation, count);
        let mut next = before;
        while !trace.is_complete() {
            self.table.show(self.recorder);
            next = self.observe_pool(&mut trace, next);
            if begin.elapsed() > PATIENCE {
                bail!("the rollout did not complete in {PATIENCE:?}:\n{}", self.pool()?.to_yaml());
            }
            tokio::time::sleep(REFRESH).await;
        }
        self.table.show(self.recorder);
        trace.check_never_all_at_once()?;
        self.say(&format!("All machines are updated after {:.1} s.", begin.elapsed().as_secs_f32()));
        Ok(())
    }

    /// Adds the recorded changes from `next` on to a trace, and returns their end.
    fn observe_pool(&self, trace: &mut RolloutTrace, next: usize) -> usize {
        let history = self.recorder.history();
        let changes = history.changes();
        for change in changes.iter().skip(next) {
            if change.kind == TestedKind::Pool && change.object.name() == POOL {
                trace.observe(&change.object);
            }
        }
        changes.len()
    }

    /// An Explicit pool is only made smaller by naming machines.
    async fn refuse(&mut self) -> Result<()> {
        self.say("\n# With the policy Explicit, the pool loses only machines that a request names.");
        let patch = r#"--patch={"spec":{"scaleDownPolicy":"Explicit"}}"#;
        self.kubectl(&["patch", &self.pools(), POOL, "--type=merge", patch]).await?;
        match self.kubectl(&["scale", &self.pools(), POOL, "--replicas=1"]).await {
            Ok(()) => bail!("the webhook did not refuse to shrink an Explicit pool"),
            Err(refused) => {
                let refused = format!("{refused:#}");
                let answer = refused.find("Error from server").map_or(&*refused, |start| &refused[start..]);
                ensure!(answer.contains("Explicit"), "the scale-down failed for another reason: {refused}");
                self.say(answer.trim());
            }
        }
        Ok(())
    }

    /// A killed controller loses nothing.
    async fn crash(&mut self) -> Result<()> {
        self.say("\n# The controller is killed while the pool grows, and started again.");
        self.kubectl(&["scale", &self.pools(), POOL, "--replicas=3"]).await?;
        self.say(&format!("$ kill -KILL {}", self.controller.pid().unwrap_or_default()));
        self.controller.kill();
        self.controller.restart().await?;
        self.until_ready(3).await
    }

    /// Shows the table until the demo is interrupted, and says how to use the cluster.
    pub(crate) async fn invite(&mut self) {
        let (pools, machines) = (self.pools(), self.kind(TestedKind::Machine));
        self.say("\nNow use the cluster from another terminal:\n");
        self.say(&format!("  export KUBECONFIG={}", self.cluster.kubeconfig().display()));
        self.say(&format!("  kubectl -n {NAMESPACE} get {pools},{machines},{}", self.kind(TestedKind::Disk)));
        self.say(&format!("  kubectl -n {NAMESPACE} scale {pools} {POOL} --replicas=10"));
        self.say(&format!(
            "  kubectl -n {NAMESPACE} delete {machines} --all      # the controller creates new machines"
        ));
        self.say("\nPress Ctrl-C to stop.\n");
        loop {
            self.table.show(self.recorder);
            tokio::time::sleep(REFRESH).await;
        }
    }

    fn say(&self, line: &str) {
        self.screen.lock().print_line(line);
    }

    /// Prints a command and runs it.
    async fn kubectl(&self, arguments: &[&str]) -> Result<()> {
        let shown: Vec<String> = arguments.iter().map(|argument| quoted(argument)).collect();
        self.say(&format!("$ kubectl {}", shown.join(" ")));
        let namespace = format!("--namespace={NAMESPACE}");
        let all: Vec<&str> = std::iter::once(&*namespace).chain(arguments.iter().copied()).collect();
        self.cluster.kubectl(&all).await?;
        Ok(())
    }

    /// The name of the pools' resource for kubectl.
    fn pools(&self) -> String {
        self.kind(TestedKind::Pool)
    }

    /// The name of a resource for kubectl: short with DVP. KubeVirt's has its group, because this cluster
    /// serves the kinds of both platforms.
    fn kind(&self, kind: TestedKind) -> String {
        let resource = self.platform.resource(kind);
        match (self.platform, kind) {
            (TestedPlatform::Dvp, TestedKind::Pool) => "vmpool".to_owned(),
            (TestedPlatform::Dvp, TestedKind::Machine) => "vm".to_owned(),
            (TestedPlatform::Dvp, TestedKind::Disk) => "vd".to_owned(),
            _ => format!("{}.{}", resource.plural, resource.group),
        }
    }

    fn pool(&self) -> Result<JsonObject> {
        self.recorder.state().named(TestedKind::Pool, POOL).cloned().context("the pool does not exist")
    }

    /// The machines of the pool that are not being deleted.
    fn machines(&self) -> Vec<JsonObject> {
        let state = self.recorder.state();
        let pool = state.named(TestedKind::Pool, POOL).map(|pool| pool.uid().to_owned()).unwrap_or_default();
        state
            .machines_of_pool(&pool)
            .into_iter()
            .filter(|machine| !machine.is_terminating())
            .cloned()
            .collect()
    }

    /// Refreshes the table until the pool has `count` ready replicas and no others.
    async fn until_ready(&mut self, count: i64) -> Result<()> {
        let begin = Instant::now();
        // Read the objects that were just written, so that the first table contains them.
        self.recorder.catch_up().await?;
        loop {
            self.table.show(self.recorder);
            let pool = self.pool()?;
            if is_ready(&pool, count) && self.machines().len() == usize::try_from(count)? {
                self.say(&format!("{count} of {count} ready after {:.1} s", begin.elapsed().as_secs_f32()));
                return Ok(());
            }
            if begin.elapsed() > PATIENCE {
                bail!("the pool did not reach {count} ready replicas in {PATIENCE:?}:\n{}", pool.to_yaml());
            }
            tokio::time::sleep(REFRESH).await;
        }
    }
}

/// Whether the pool has `count` ready replicas and no others.
fn is_ready(pool: &JsonObject, count: i64) -> bool {
    let of = |path| pool.number(path);
    let current = of("/status/observedGeneration") == of("/metadata/generation");
    current && of("/status/readyReplicas") == Some(count) && of("/status/replicas") == Some(count)
}

/// An argument as a shell needs it.
fn quoted(argument: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,".contains(&byte);
    if argument.bytes().all(plain) { argument.to_owned() } else { format!("'{argument}'") }
}
