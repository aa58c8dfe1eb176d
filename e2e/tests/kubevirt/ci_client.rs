//! A CI system with the rights of the documented role: it creates pools, scales them in short intervals, and
//! deletes machines whose job has finished. `e2e/explorer/src/ci_client` plays an hour in simulated time.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_api::kubevirt::{API_VERSION, POOL_API_VERSION};
use vmpool_e2e::wait::let_time_pass;
use vmpool_test_cluster::control_plane::{apply_manifests, parse_yaml_documents};

use crate::workspace_root;
use crate::world::{KubeVirtWorld, all_of, text, with_world};

/// The time between two rounds of the client.
const ROUND: Duration = Duration::from_millis(500);
/// How long a job takes, from the start of its machine until its guest powers off.
const JOB: &str = "2s";
/// The jobs that are submitted before each of the first rounds.
const JOBS: [usize; 9] = [3, 0, 1, 0, 0, 2, 0, 0, 1];
/// The rounds in which all jobs must finish: 20 s, and more on a busy machine.
const ROUNDS: usize = 120;

/// An example of the docs, with the namespace of the test.
fn example(name: &str, namespace: &str) -> Result<Vec<Value>> {
    let path = workspace_root().join("docs/examples").join(name);
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    Ok(parse_yaml_documents(name, &text.replace("namespace: ci\n", &format!("namespace: {namespace}\n")))?)
}

/// The user name of the account of the CI system.
fn account(world: &KubeVirtWorld<'_>) -> String {
    format!("system:serviceaccount:{}:ci-scaler", world.place.namespace)
}

/// The client of one pool.
struct CiClient<'w> {
    world: &'w KubeVirtWorld<'w>,
    pool: &'static str,
    /// The UIDs of the machines whose job has finished.
    finished: BTreeSet<String>,
}

impl<'w> CiClient<'w> {
    /// Creates the pool of the docs with this name and strategy.
    async fn create_pool(world: &'w KubeVirtWorld<'w>, pool: &'static str, strategy: &str) -> Result<Self> {
        let mut object =
            example("kubevirt/runners.yaml", world.place.namespace)?.pop().context("the example is empty")?;
        object["metadata"]["name"] = json!(pool);
        let spec = &mut object["spec"];
        spec["scaleInStrategy"] = json!({ strategy: {} });
        spec["selector"]["matchLabels"] = json!({ "app": pool });
        let template = &mut spec["virtualMachineTemplate"];
        template["metadata"] =
            json!({ "labels": { "app": pool }, "annotations": { "simulator.vmpool.dev/shutdown": JOB } });
        template["spec"]["template"]["metadata"]["labels"] = json!({ "app": pool });
        let client = Self { world, pool, finished: BTreeSet::new() };
        client.ask(Method::POST, &world.place.path(POOL_API_VERSION, "VirtualMachinePool")?, &object).await?;
        Ok(client)
    }

    /// A request with the account of the CI system, which must be accepted.
    async fn ask(&self, method: Method, path: &str, body: &Value) -> Result<Value> {
        let user = account(self.world);
        let answer = self.world.place.send_as(&user, method, path, body).await?;
        answer.map_err(|status| anyhow::anyhow!("{}", status.message)).with_context(|| path.to_owned())
    }

    /// The machines of the pool whose guests have powered off since the last round. A CI system knows the
    /// results of its jobs without the API server.
    async fn collect_results(&mut self) -> Result<()> {
        for (name, instance) in self.world.instances().await? {
            let is_own = name.starts_with(&format!("{}-", self.pool));
            if is_own && instance["status"]["phase"] == "Succeeded" {
                self.finished.insert(text(&instance, "/metadata/ownerReferences/0/uid").to_owned());
            }
        }
        Ok(())
    }

    /// Reads the scale and replaces it.
    async fn scale(&self, replicas: usize) -> Result<()> {
        let path = format!("{}/scale", self.world.place.pool(self.pool)?);
        let mut scale = self.ask(Method::GET, &path, &Value::Null).await?;
        // The pool may change meanwhile.
        if let Some(metadata) = scale["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        scale["spec"]["replicas"] = json!(replicas);
        self.ask(Method::PUT, &path, &scale).await.map(drop)
    }

    /// Deletes the machines whose job has finished. The controller may delete one of them first.
    async fn delete_finished(&self) -> Result<()> {
        let machines = self.world.place.path(API_VERSION, "VirtualMachine")?;
        let listed = self.ask(Method::GET, &machines, &Value::Null).await?;
        for machine in listed["items"].as_array().into_iter().flatten() {
            let uid = text(machine, "/metadata/uid");
            if self.finished.contains(uid) && machine["metadata"]["deletionTimestamp"].is_null() {
                let path = format!("{machines}/{}", text(machine, "/metadata/name"));
                let deleted = self
                    .ask(Method::DELETE, &path, &json!({ "preconditions": { "uid": uid } }))
                    .await
                    .map_err(|error| format!("{error:#}"));
                let is_gone = |error: &String| error.contains("not found") || error.contains("Precondition");
                ensure!(deleted.as_ref().err().is_none_or(is_gone), "{deleted:?}");
            }
        }
        Ok(())
    }

    /// Runs all jobs. Returns when each has finished and no machine is left.
    async fn run(&mut self) -> Result<()> {
        let mut submitted = 0;
        for round in 0..ROUNDS {
            submitted += JOBS.get(round).copied().unwrap_or_default();
            self.collect_results().await?;
            self.scale(submitted.saturating_sub(self.finished.len())).await?;
            self.delete_finished().await?;
            let is_done = round >= JOBS.len() && self.finished.len() >= submitted;
            if is_done && self.world.machines_of(self.pool).await?.is_empty() {
                return Ok(());
            }
            let_time_pass(ROUND).await;
        }
        anyhow::bail!("{} of {submitted} jobs have finished", self.finished.len())
    }
}

/// The controller deletes nothing, so each job costs exactly one machine.
async fn unmanaged(world: &KubeVirtWorld<'_>) -> Result<()> {
    let mut client = CiClient::create_pool(world, "runners", "unmanaged").await?;
    client.run().await?;
    let jobs: usize = JOBS.iter().sum();
    let created = world.requested("runners", "create", "virtualmachines")?;
    ensure!(created.len() == jobs, "{jobs} jobs cost the machines {created:?}");
    let deleted = world.requested("runners", "delete", "virtualmachines")?;
    ensure!(deleted.is_empty(), "the controller deleted {deleted:?}");
    Ok(())
}

/// The controller deletes machines that are off, and so does the client. None whose guest runs is deleted.
async fn opportunistic(world: &KubeVirtWorld<'_>) -> Result<()> {
    let mut client = CiClient::create_pool(world, "spot", "opportunistic").await?;
    client.run().await?;
    let (jobs, created): (usize, _) =
        (JOBS.iter().sum(), world.requested("spot", "create", "virtualmachines")?.len());
    let deleted = world.requested("spot", "delete", "virtualmachines")?.len();
    ensure!((jobs..=jobs + deleted).contains(&created), "{jobs} jobs cost {created} machines");
    ensure!(client.finished.len() >= jobs, "only {} of {jobs} jobs have finished", client.finished.len());
    Ok(())
}

/// Waits until the API server applies the new role.
async fn until_in_effect(world: &KubeVirtWorld<'_>) -> Result<()> {
    let pools = world.place.path(POOL_API_VERSION, "VirtualMachinePool")?;
    world
        .until("the role is in effect", async || {
            let answer = world.place.send_as(&account(world), Method::GET, &pools, &Value::Null).await?;
            Ok(answer.is_ok().then_some(()))
        })
        .await
}

/// What the account may not do.
async fn has_no_other_rights(world: &KubeVirtWorld<'_>) -> Result<()> {
    let (place, user) = (&world.place, account(world));
    let (pools, machines) =
        (place.path(POOL_API_VERSION, "VirtualMachinePool")?, place.path(API_VERSION, "VirtualMachine")?);
    let instances = place.path(API_VERSION, "VirtualMachineInstance")?;
    for (method, path) in [
        (Method::DELETE, format!("{pools}/runners")),
        (Method::PATCH, format!("{pools}/runners/status")),
        (Method::POST, machines),
        (Method::GET, instances),
        (Method::GET, format!("/api/v1/namespaces/{}/secrets", place.namespace)),
    ] {
        let body = if method == Method::GET { Value::Null } else { json!({}) };
        let answer = place.send_as(&user, method.clone(), &path, &body).await?;
        ensure!(answer.as_ref().is_err_and(|status| status.code == 403), "{method} {path}: {answer:?}");
    }
    Ok(())
}

#[test]
fn a_ci_system_with_the_documented_role_runs_each_job_on_a_machine_of_its_own() {
    with_world("kubevirt-ci-client", async |world| {
        let role = example("roles/kubevirt-runners.yaml", world.place.namespace)?;
        apply_manifests(&world.place.cluster.admin(), &role, Some(world.place.namespace)).await?;
        until_in_effect(&world).await?;
        let results = tokio::join!(unmanaged(&world), opportunistic(&world));
        all_of(<[_; 2]>::from(results))?;
        has_no_other_rights(&world).await
    });
}
