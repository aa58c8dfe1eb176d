//! The scripts of the recipes with kubectl and the rights of the documented roles. Only ssh is a stand-in.

use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_e2e::world::condition::{has_machine, live_machine_count, negate_condition, ready_replicas};
use vmpool_e2e::world::{DEADLINE, PoolHandle, ScenarioWorld};
use vmpool_installation::workspace_root;
use vmpool_invariants::object::JsonObject;
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::control_plane::read_yaml_documents;
use vmpool_test_cluster::process;

use crate::claims::{ADDRESS, publish_address};
use crate::on;
use crate::protected::{claim_of, subresources};

/// The environment of the scripts.
struct Recipes<'w> {
    world: &'w ScenarioWorld,
    pool: &'static str,
    kubeconfig: PathBuf,
    folder: tempfile::TempDir,
}

/// The rules of the Role in an example.
fn documented_rules(file: &str) -> Result<Value> {
    let path = workspace_root().join("docs/examples/roles").join(file);
    let documents = read_yaml_documents(&path)?;
    let role = documents.iter().find(|document| document["kind"] == "Role");
    Ok(role.with_context(|| format!("{file} has no Role"))?["rules"].clone())
}

impl<'w> Recipes<'w> {
    /// Scripts for a pool, which a new user with these rules runs.
    async fn new(world: &'w ScenarioWorld, pool: &'static str, user: &str, rules: Value) -> Result<Self> {
        world.user_with(user, rules).await?;
        let kubeconfig = world.cluster().service_account_kubeconfig(world.namespace(), user).await?;
        let folder = tempfile::tempdir()?;
        std::fs::create_dir(folder.path().join("bin"))?;
        let ssh = workspace_root().join("e2e/tests/docs/stubs/ssh");
        std::os::unix::fs::symlink(ssh, folder.path().join("bin/ssh"))?;
        Ok(Self { world, pool, kubeconfig, folder })
    }

    async fn run(&self, script: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Result<Output> {
        let root = workspace_root();
        let kubectl = self.world.cluster().kubectl_program();
        let tools = kubectl.parent().context("kubectl has a folder")?;
        let stubs = self.folder.path().join("bin");
        let path = format!("{}:{}:{}", stubs.display(), tools.display(), std::env::var("PATH")?);
        let mut command = Command::new("sh");
        command.arg(root.join("docs/examples/recipes").join(script)).args(arguments);
        command.env("PATH", path).env("KUBECONFIG", &self.kubeconfig);
        command.env("STUB", self.folder.path()).env("TMPDIR", self.folder.path());
        command.env("POOL_GROUP", subresources(self.world.platform()));
        command.env("POOL_NAMESPACE", self.world.namespace()).env("POOL", self.pool);
        command.env("RETRY_SECONDS", "1").env("CLAIM_ATTEMPTS", "1");
        command.envs(variables.iter().copied()).stdin(std::process::Stdio::null());
        Ok(process::command_output(script, command, DEADLINE).await?)
    }

    /// The output of a script that must succeed.
    async fn output(&self, script: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Result<String> {
        let output = self.run(script, arguments, variables).await?;
        ensure!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// What ssh was called with.
    fn ssh(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

/// The machine with this claim, whose deletion by a script is recorded for the invariants.
async fn claimed(world: &ScenarioWorld, pool: &PoolHandle<'_>, id: &str) -> Result<JsonObject> {
    let machines = pool.machines().await?;
    let machine = machines.into_iter().find(|machine| claim_of(machine).as_deref() == Some(id));
    let machine = machine.with_context(|| format!("no machine has claim {id}"))?;
    world.user_actions().deleted.insert(machine.uid().to_owned());
    Ok(machine)
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn the_recipes_for_ci_claim_and_replace_machines(#[case] platform: TestedPlatform) {
    on(platform, "the recipes for CI claim and replace machines", async |world| {
        let pool = world.pool("runners").replicas(2).ready().await?;
        for machine in pool.machines().await? {
            publish_address(world, machine.name()).await?;
        }
        let recipes = Recipes::new(world, "runners", "ci", documented_rules("runners.yaml")?).await?;

        // GitLab: prepare, run and cleanup find the machine of the job, and a repeated cleanup finds nothing
        // to do.
        let job = [("CUSTOM_ENV_CI_JOB_ID", "7"), ("SYSTEM_FAILURE_EXIT_CODE", "77")];
        let prepared = recipes.output("gitlab/prepare.sh", &[], &job).await?;
        let machine = claimed(world, &pool, "gitlab-7").await?;
        ensure!(prepared == format!("job 7 runs on {} ({ADDRESS})\n", machine.name()), "{prepared}");
        let script = recipes.folder.path().join("job.sh");
        std::fs::write(&script, "echo hello from the job\n")?;
        let script = script.to_str().context("a path")?;
        recipes.output("gitlab/run.sh", &[script, "build_script"], &job).await?;
        let ssh = recipes.ssh();
        ensure!(
            ssh.contains(&format!("runner@{ADDRESS}")) && ssh.contains("echo hello from the job"),
            "{ssh}"
        );
        for _ in 0..2 {
            recipes.output("gitlab/cleanup.sh", &[], &job).await?;
        }
        pool.until(negate_condition(has_machine(&machine)).and(live_machine_count(2)).and(ready_replicas(2)))
            .await?;
        // Without a claim, no stage runs.
        let late = recipes.run("gitlab/run.sh", &[script, "build_script"], &job).await?;
        ensure!(late.status.code() == Some(77), "{late:?}");

        // A second job keeps its machine meanwhile.
        for machine in pool.machines().await? {
            publish_address(world, machine.name()).await?;
        }
        recipes.output("gitlab/prepare.sh", &[], &[("CUSTOM_ENV_CI_JOB_ID", "8")]).await?;
        let in_use = claimed(world, &pool, "gitlab-8").await?;

        // GitHub: a runner for one job, whose machine is replaced, also if the job fails.
        let machines = pool.machines().await?;
        let of_job = machines.into_iter().find(|machine| machine.uid() != in_use.uid());
        let of_job = of_job.context("no machine is free")?;
        world.user_actions().deleted.insert(of_job.uid().to_owned());
        let failing = [("JOB", "9"), ("JIT_COMMAND", "exit 3")];
        let failed = recipes.run("github/run-job.sh", &[], &failing).await?;
        ensure!(failed.status.code() == Some(3), "{failed:?}");
        pool.until(negate_condition(has_machine(&of_job)).and(live_machine_count(2)).and(ready_replicas(2)))
            .await?;
        let machines = pool.machines().await?;
        ensure!(
            machines.iter().any(|machine| machine.uid() == in_use.uid()),
            "a claimed machine was replaced"
        );
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_job_without_the_right_to_claim_ends_at_once_with_the_message_of_the_api_server(
    #[case] platform: TestedPlatform,
) {
    on(platform, "a job without the right to claim ends at once", async |world| {
        world.pool("runners").replicas(1).ready().await?;
        let rules = json!([{
            "apiGroups": [subresources(platform)],
            "resources": ["virtualmachinepools/release"],
            "verbs": ["create"],
        }]);
        let recipes = Recipes::new(world, "runners", "eve", rules).await?;
        let job =
            [("CUSTOM_ENV_CI_JOB_ID", "7"), ("SYSTEM_FAILURE_EXIT_CODE", "77"), ("CLAIM_ATTEMPTS", "1000")];
        let refused = recipes.run("gitlab/prepare.sh", &[], &job).await?;
        let said = String::from_utf8_lossy(&refused.stderr);
        ensure!(refused.status.code() == Some(77), "{refused:?}");
        ensure!(said.contains("is refused: ") && said.contains("virtualmachinepools/claim"), "{said}");
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn the_recipe_for_desktops_works_with_the_documented_role(#[case] platform: TestedPlatform) {
    on(platform, "the recipe for desktops works with the documented role", async |world| {
        // Given a pool with two desktops,
        let pool = world.pool("desktops").replicas(2).ready().await?;
        for machine in pool.machines().await? {
            publish_address(world, machine.name()).await?;
        }
        let recipes = Recipes::new(world, "desktops", "broker", documented_rules("desktops.yaml")?).await?;
        // then a user keeps one until logout. With AFTER_LOGOUT=Keep, the next user gets the same one.
        let keep = [("AFTER_LOGOUT", "Keep")];
        for _ in 0..2 {
            let address = recipes.output("vdi/broker.sh", &["connect", "ann"], &keep).await?;
            ensure!(address == format!("{ADDRESS}\n"), "{address}");
        }
        recipes.output("vdi/broker.sh", &["keep", "ann"], &keep).await?;
        ensure!(!recipes.run("vdi/broker.sh", &["keep", "bob"], &keep).await?.status.success());
        let of_ann = claimed(world, &pool, "desktop-ann").await?;
        for _ in 0..2 {
            recipes.output("vdi/broker.sh", &["logout", "ann"], &keep).await?;
        }
        recipes.output("vdi/broker.sh", &["connect", "bob"], &keep).await?;
        let of_bob = claimed(world, &pool, "desktop-bob").await?;
        ensure!(of_bob.uid() == of_ann.uid());
        // By default, the next user gets a fresh one.
        recipes.output("vdi/broker.sh", &["logout", "bob"], &[]).await?;
        pool.until(negate_condition(has_machine(&of_bob)).and(live_machine_count(2)).and(ready_replicas(2)))
            .await?;
        Ok(())
    });
}
