//! helm waits for a pool in a release, as a user runs it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::ScenarioWorld;
use vmpool_e2e::world::condition::has_machine;
use vmpool_installation::release::helm_program;

/// Longer than the timeout that helm gets.
const DEADLINE: Duration = Duration::from_mins(3);

/// The timeout for helm.
const TIMEOUT: &str = "--timeout=150s";

/// How often the first install is tried: a tool that returns early does not do so every time.
const TRIES: usize = 3;

/// A chart with one pool, which has the name of its release.
struct PoolChart<'w> {
    world: &'w ScenarioWorld,
    helm: PathBuf,
    folder: TempDir,
}

impl<'w> PoolChart<'w> {
    /// Writes a chart of two machines that start slowly. Its values are `replicas` and `cores`.
    fn write(world: &'w ScenarioWorld) -> Result<Self> {
        let restarts = json!({ "restartApprovalMode": "Automatic" });
        let template = json!({ "spec": { "disruptions": restarts } });
        let builder = world.pool("RELEASE").knob("start-delay", "2s");
        let mut pool = builder.with(&json!({ "spec": { "virtualMachineTemplate": template } })).object();
        pool["spec"]["replicas"] = json!("REPLICAS");
        pool["spec"]["virtualMachineTemplate"]["spec"]["cpu"]["cores"] = json!("CORES");
        let manifest = serde_json::to_string_pretty(&pool)?
            .replace("RELEASE", "{{ .Release.Name }}")
            .replace("\"REPLICAS\"", "{{ .Values.replicas }}")
            .replace("\"CORES\"", "{{ .Values.cores }}");

        let folder = tempfile::tempdir()?;
        std::fs::create_dir(folder.path().join("templates"))?;
        for (file, text) in [
            ("Chart.yaml", "apiVersion: v2\nname: pool\nversion: 0.1.0\n"),
            ("values.yaml", "replicas: 2\ncores: 1\n"),
            ("templates/pool.yaml", manifest.as_str()),
        ] {
            std::fs::write(folder.path().join(file), text)?;
        }
        Ok(Self { world, helm: helm_program()?, folder })
    }

    /// Runs `helm COMMAND RELEASE CHART --wait` with changed values.
    async fn apply(&self, command: &str, release: &str, changes: &[&str]) -> Result<()> {
        let chart = self.folder.path().to_string_lossy();
        let mut arguments = vec![command, release, &*chart, "--wait", TIMEOUT];
        for change in changes {
            arguments.extend(["--set", change]);
        }
        self.run(&arguments).await
    }

    async fn uninstall(&self, release: &str) -> Result<()> {
        self.run(&["uninstall", release, "--wait", TIMEOUT]).await
    }

    async fn run(&self, arguments: &[&str]) -> Result<()> {
        let mut all = vec!["--namespace", self.world.namespace()];
        all.extend(arguments);
        self.world.access().run("helm", &self.helm, &all, DEADLINE).await?;
        Ok(())
    }
}

/// Fails if the pool is not current at this moment: it does not wait.
fn check_current(pool: &Value, replicas: i64) -> Result<()> {
    let conditions = pool["status"]["conditions"].as_array().context("the pool has no conditions")?;
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
    ensure!(ready.is_some_and(|ready| ready["status"] == "True"), "helm returned before Ready: {pool}");
    ensure!(
        pool["status"]["observedGeneration"] == pool["metadata"]["generation"],
        "helm returned before the controller observed the pool: {pool}"
    );
    for field in ["replicas", "readyReplicas", "updatedReplicas"] {
        ensure!(pool["status"][field] == replicas, "helm returned before {field} was {replicas}: {pool}");
    }
    Ok(())
}

#[test]
fn a_first_install_returns_when_the_pool_is_ready() {
    define_scenario("a first install with helm returns when the pool is ready").run(async |world| {
        let chart = PoolChart::write(world)?;
        for attempt in 0..TRIES {
            let release = format!("web-{attempt}");
            chart.apply("install", &release, &[]).await?;
            check_current(world.existing(&release).await?.get().await?.value(), 2)?;
            chart.uninstall(&release).await?;
        }
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn an_upgrade_returns_when_the_rollout_is_complete() {
    define_scenario("an upgrade with helm returns when the rollout is complete").run(async |world| {
        let chart = PoolChart::write(world)?;
        chart.apply("install", "web", &[]).await?;
        let pool = world.existing("web").await?;
        let machine = pool.machine(0).await?;
        // More machines, and another template for those that exist.
        chart.apply("upgrade", "web", &["replicas=3", "cores=2"]).await?;
        check_current(pool.get().await?.value(), 3)?;
        pool.until(has_machine(&machine)).await?;
        for machine in pool.machines().await? {
            ensure!(machine.number("/spec/cpu/cores") == Some(2), "{} is not updated", machine.name());
        }
        Ok::<_, anyhow::Error>(())
    });
}

/// While no controller observes the pool, its status has only the default of the definition.
#[test]
fn without_a_controller_an_install_does_not_return_successfully() {
    define_scenario("without a controller an install with helm does not succeed")
        .controllers(0)
        .ends_unsettled()
        .run(async |world| {
            let chart = PoolChart::write(world)?;
            let folder = chart.folder.path().to_string_lossy().into_owned();
            let early = chart.run(&["install", "web", &folder, "--wait", "--timeout=5s"]).await;
            let error = early.err().context("helm returned although no controller observed the pool")?;
            ensure!(world.existing("web").await.is_ok(), "helm created no pool: {error:#}");
            Ok::<_, anyhow::Error>(())
        });
}
