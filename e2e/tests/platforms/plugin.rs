//! The kubectl plugin with the rights of its users.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_api::v1alpha2::GROUP;
use vmpool_e2e::wait::let_time_pass;
use vmpool_e2e::world::condition::{
    PoolPredicate, has_machine, live_machine_count, negate_condition, pool_condition, ready_replicas,
    status_number,
};
use vmpool_e2e::world::{PoolDeletion, PoolHandle, PoolScaleDownPolicy, ScenarioPoolBuilder, ScenarioWorld};
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::binaries::find_program;
use vmpool_test_cluster::control_plane::apply_manifests;
use vmpool_test_cluster::process::ChildProcess;
use vmpool_test_cluster::{poll, process};

use crate::on;

/// The rights for the platform's objects, which the platform's own roles contain.
pub(crate) fn platform_rules(platform: TestedPlatform) -> Value {
    match platform {
        TestedPlatform::Dvp => json!([
            { "apiGroups": [GROUP], "resources": ["virtualmachines"], "verbs": ["get", "list", "patch"] },
            {
                "apiGroups": [GROUP],
                "resources": ["virtualdisks", "virtualmachineblockdeviceattachments"],
                "verbs": ["list"],
            },
            { "apiGroups": [GROUP], "resources": ["virtualmachineoperations"], "verbs": ["create", "get"] },
        ]),
        TestedPlatform::KubeVirt => json!([
            { "apiGroups": ["kubevirt.io"], "resources": ["virtualmachines"], "verbs": ["get", "list", "patch"] },
            {
                "apiGroups": ["kubevirt.io"],
                "resources": ["virtualmachineinstances"],
                "verbs": ["get", "list", "delete"],
            },
            { "apiGroups": ["cdi.kubevirt.io"], "resources": ["datavolumes"], "verbs": ["list"] },
        ]),
    }
}

/// A pool whose machines have a disk. The controller restarts none of them for an update.
pub(crate) fn builder(world: &ScenarioWorld) -> ScenarioPoolBuilder<'_> {
    let pool = world.pool("web").policy(PoolScaleDownPolicy::NewestFirst).disk("root");
    match world.platform() {
        TestedPlatform::Dvp => pool,
        TestedPlatform::KubeVirt => {
            pool.with(&json!({ "spec": { "updateStrategy": { "opportunistic": {} } } }))
        }
    }
}

/// The path of the memory in the spec of a machine, with `/` between the fields.
fn memory_path(platform: TestedPlatform) -> &'static str {
    match platform {
        TestedPlatform::Dvp => "memory/size",
        TestedPlatform::KubeVirt => "template/spec/domain/memory/guest",
    }
}

/// A patch of the template.
fn memory(platform: TestedPlatform, size: &str) -> Value {
    let spec = memory_path(platform).rsplit('/').fold(json!(size), |value, field| json!({ (field): value }));
    json!({ "spec": { "virtualMachineTemplate": { "spec": spec } } })
}

/// The memory in the template of the pool.
async fn template_memory(pool: &PoolHandle<'_>, platform: TestedPlatform) -> Result<String> {
    let pointer = format!("/spec/virtualMachineTemplate/spec/{}", memory_path(platform));
    Ok(pool.get().await?.text(&pointer).to_owned())
}

/// The current revision, as the status shows it.
async fn revision(pool: &PoolHandle<'_>, platform: TestedPlatform) -> Result<String> {
    let field = match platform {
        TestedPlatform::Dvp => "/status/desiredTemplateHash",
        TestedPlatform::KubeVirt => "/status/currentRevision",
    };
    Ok(pool.get().await?.text(field).to_owned())
}

/// The pool has the phase `Paused`.
fn shows_pause() -> PoolPredicate {
    PoolPredicate::new("phase Paused", |view| {
        let ready = view.pool().and_then(|pool| pool.condition("Ready"));
        ready.is_some_and(|ready| ready["reason"] == "Paused")
    })
}

/// The plugin with the kubeconfig of a user.
pub(crate) struct Plugin<'w> {
    world: &'w ScenarioWorld,
    program: PathBuf,
    kubeconfig: PathBuf,
}

impl<'w> Plugin<'w> {
    /// The plugin of a user with these cluster roles, and with `rules` for the platform's objects.
    pub(crate) async fn of(
        world: &'w ScenarioWorld,
        user: &str,
        roles: &[&str],
        rules: Option<Value>,
    ) -> Result<Self> {
        world.user(user, roles).await?;
        if let Some(rules) = rules {
            let name = format!("{user}-platform");
            let role = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                "metadata": { "name": name }, "rules": rules,
            });
            let binding = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": { "name": name },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
                "subjects": [{ "kind": "ServiceAccount", "name": user, "namespace": world.namespace() }],
            });
            apply_manifests(&world.client(), &[role, binding], Some(world.namespace())).await?;
            let name = world.user_name(user);
            poll::poll_until(
                || format!("{name} may list machines"),
                vmpool_e2e::world::DEADLINE,
                async || {
                    let group = world.platform().resource(TestedKind::Machine).group;
                    let may = world.may(&name, "list", &group, "virtualmachines").await?;
                    Ok::<_, vmpool_test_cluster::Error>(if may { Ok(()) } else { Err("no".to_owned()) })
                },
            )
            .await?;
        }
        let kubeconfig = world.cluster().service_account_kubeconfig(world.namespace(), user).await?;
        Ok(Self { world, program: find_program("kubectl-vmpool", "VMPOOL_PLUGIN")?, kubeconfig })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).arg("--kubeconfig").arg(&self.kubeconfig);
        command.args(["-n", self.world.namespace()]).env_remove("KUBECONFIG");
        command
    }

    /// Starts a command that runs until it is dropped. Its log contains the output.
    pub(crate) fn start(&self, arguments: &[&str]) -> Result<ChildProcess> {
        let log = format!("{}-{}.log", self.world.namespace(), arguments.concat());
        let log = self.world.cluster().directory().join(log);
        Ok(ChildProcess::spawn("kubectl-vmpool", self.command(arguments), log)?)
    }

    /// Runs the plugin. Returns its exit code, its output and its errors.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Result<(Option<i32>, String, String)> {
        let command = self.command(arguments);
        let output = process::command_output("kubectl-vmpool", command, vmpool_e2e::world::DEADLINE).await?;
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).context("the output is no text");
        Ok((output.status.code(), text(output.stdout)?, text(output.stderr)?))
    }

    /// The output of a command that must succeed.
    pub(crate) async fn output(&self, arguments: &[&str]) -> Result<String> {
        let (code, output, errors) = self.run(arguments).await?;
        ensure!(code == Some(0), "{arguments:?}\n{output}\n{errors}");
        Ok(output)
    }

    /// The error of a command that must fail.
    pub(crate) async fn error(&self, arguments: &[&str]) -> Result<String> {
        self.error_with(1, arguments).await
    }

    /// The error of a command that must fail with this exit code.
    async fn error_with(&self, expected: i32, arguments: &[&str]) -> Result<String> {
        let (code, output, errors) = self.run(arguments).await?;
        ensure!(code == Some(expected), "{arguments:?} exited with {code:?}\n{output}\n{errors}");
        Ok(errors)
    }
}

#[test]
fn a_plan_says_for_each_machine_whether_its_change_is_hot_or_cold() {
    on(TestedPlatform::Dvp, "a plan says hot or cold", async |world| {
        let pool = builder(world).replicas(1).ready().await?;
        let plugin = Plugin::of(world, "ed", &["edit"], Some(platform_rules(TestedPlatform::Dvp))).await?;
        let file = world.cluster().directory().join(format!("{}-hot-or-cold.yaml", world.namespace()));
        for (change, expected) in [
            (
                json!({ "liveMigrationPolicy": "AlwaysSafe" }),
                "hot: the platform applies liveMigrationPolicy without a restart",
            ),
            (json!({ "memory": { "size": "2Gi" } }), "hot or cold: the platform applies memory"),
            (
                json!({ "memory": { "size": "2Gi" }, "bootloader": "EFI" }),
                "cold: a restart brings bootloader into effect",
            ),
        ] {
            let mut manifest = pool.get().await?.value().clone();
            manifest["metadata"] = json!({ "name": "web" });
            manifest.as_object_mut().context("no manifest")?.remove("status");
            let change = json!({ "spec": { "virtualMachineTemplate": { "spec": change } } });
            json_patch::merge(&mut manifest, &change);
            std::fs::write(&file, serde_json::to_string(&manifest)?)?;
            let path = file.to_str().context("the path is no text")?;
            let plan = plugin.output(&["plan", "web", "-f", path]).await?;
            ensure!(plan.contains(expected), "{expected}: {plan}");
        }
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn the_plugin_shows_plans_and_removes_with_the_rights_of_its_user(#[case] platform: TestedPlatform) {
    on(platform, "the plugin shows, plans and removes", async |world| {
        let pool = builder(world).replicas(3).ready().await?;
        let names: Vec<String> =
            pool.machines().await?.iter().map(|machine| machine.name().to_owned()).collect();
        let plugin = Plugin::of(world, "ed", &["edit"], Some(platform_rules(platform))).await?;

        // The status lists all machines and their disks, plain without a terminal;
        let status = plugin.output(&["status", "web"]).await?;
        ensure!(names.iter().all(|name| status.contains(name.as_str())), "{status}");
        ensure!(status.contains("3 desired, 3 exist, 3 ready, 3 up to date"), "{status}");
        ensure!(status.contains("Ready=True") && status.contains("SuccessfulCreate"), "{status}");
        ensure!(status.contains("Scaled 3"), "the activity is missing: {status}");
        ensure!(!status.contains('\u{1b}') && !status.contains("Not shown"), "{status}");
        // and the same as JSON.
        let status: Value = serde_json::from_str(&plugin.output(&["status", "web", "-o", "json"]).await?)?;
        ensure!(status["machines"].as_array().is_some_and(|machines| machines.len() == 3), "{status}");
        ensure!(status["activity"][0]["reason"] == "Scaled", "{status}");
        let disk = &status["machines"][0]["disks"][0];
        match platform {
            TestedPlatform::Dvp => ensure!(disk["template"] == "root", "{status}"),
            // DataVolumes are the disks of machines of KubeVirt.
            TestedPlatform::KubeVirt => {
                ensure!(disk["name"].as_str().is_some_and(|name| name.starts_with("root-")), "{status}");
                ensure!(disk["state"].as_str().is_some_and(|state| !state.is_empty()), "{status}");
            }
        }

        // The list shows the pool in one line, and its names are accepted by other commands.
        let list: Value = serde_json::from_str(&plugin.output(&["list", "-o", "json"]).await?)?;
        let [listed] = list["pools"].as_array().map_or(&[][..], Vec::as_slice) else {
            anyhow::bail!("one pool: {list}")
        };
        ensure!(
            listed["name"] == "web" && listed["phase"] == "Ready" && listed["observed"] == true,
            "{list}"
        );
        for counter in ["desired", "current", "ready"] {
            ensure!(listed[counter] == 3, "{counter}: {list}");
        }
        ensure!(listed["protected"] == 0, "{list}");
        let name = plugin.output(&["list", "-o", "name"]).await?;
        let shown = plugin.output(&["status", name.trim()]).await?;
        ensure!(shown.contains("Pool web in namespace"), "{shown}");
        // Fields are printed as by kubectl, and an object by its name.
        ensure!(plugin.output(&["status", "web", "-o", "name"]).await? == name, "{name}");
        let fields = "jsonpath={range .pools[*]}{.name}{'='}{.desired}{\"\\n\"}{end}";
        let fields = plugin.output(&["list", "-o", fields]).await?;
        ensure!(fields == "web=3\n", "{fields:?}");
        let error = plugin.error(&["status", "pod/web"]).await?;
        ensure!(error.contains("is not a type of pools"), "{error}");
        // The rights in one namespace are not enough for all, and the version of the plugin needs none.
        let error = plugin.error(&["list", "-A", "--request-timeout=30s"]).await?;
        ensure!(error.contains("you may not list virtualmachinepools"), "{error}");
        let version: Value = serde_json::from_str(&plugin.output(&["version", "-o", "json"]).await?)?;
        ensure!(version["client"]["version"] == env!("CARGO_PKG_VERSION"), "{version}");
        ensure!(version["unknown"][0].as_str().is_some_and(|why| why.contains("deployments")), "{version}");

        // A dry run of a scale-down changes nothing, and a number that is a mistake is refused.
        let dry = plugin.output(&["scale", "web", "--replicas=1", "--dry-run=server"]).await?;
        ensure!(dry.contains("3 -> 1 replicas (server dry run)"), "{dry}");
        plugin.output(&["pause", "web", "--dry-run=server"]).await?;
        let error = plugin.error(&["scale", "web", "--replicas=9999999"]).await?;
        ensure!(error.contains("--allow-large-pool") && error.contains("nothing was changed"), "{error}");
        let unchanged = pool.get().await?;
        ensure!(unchanged.number("/spec/replicas") == Some(3), "{unchanged:?}");
        ensure!(unchanged.value()["spec"]["paused"] != true, "{unchanged:?}");

        // A report contains the pool and its machines, and names what the user may not read.
        let report = plugin.output(&["report", "web", "--file=-"]).await?;
        ensure!(names.iter().all(|name| report.contains(name.as_str())), "{report}");
        ensure!(report.contains("section: stored revisions"), "{report}");
        ensure!(report.contains("you may not list deployments.apps in namespace"), "{report}");
        ensure!(!report.contains("ipAddress: 10."), "{report}");
        let error = plugin.error(&["report", "wen", "--file=-", &format!("--platform={platform}")]).await?;
        ensure!(error.contains("pool wen not found in namespace"), "{error}");

        // A plan names the machine that the controller then deletes, and changes nothing.
        let plan = plugin.output(&["plan", "web", "--replicas=2"]).await?;
        let machines = pool.machines().await?;
        ensure!(machines.len() == 3);
        let is_surplus =
            |machine: &&JsonObject| plan.contains(&format!("delete machine {}: surplus", machine.name()));
        let victim = machines.iter().find(is_surplus).with_context(|| plan.clone())?;
        pool.scale(2).await?;
        pool.until(negate_condition(has_machine(victim)).and(live_machine_count(2)).and(ready_replicas(2)))
            .await?;
        let plan = plugin.output(&["plan", "web"]).await?;
        ensure!(plan.contains("The controller would change nothing."), "{plan}");

        // A dry run of a removal changes nothing, and the removal is complete when the command ends.
        let machine = pool.machine(0).await?;
        world.user_actions().request_removal(&[machine.uid().to_owned()]);
        let dry = plugin.output(&["remove", "web", machine.name(), "--dry-run"]).await?;
        ensure!(dry.contains("nothing was removed"), "{dry}");
        ensure!(pool.get().await?.number("/spec/replicas") == Some(2));
        let removed = plugin.output(&["remove", "web", machine.name(), "--wait"]).await?;
        ensure!(removed.contains("removal accepted") && removed.contains("gone"), "{removed}");
        ensure!(pool.get().await?.number("/spec/replicas") == Some(1));
        pool.until(live_machine_count(1)).await?;
        let again = plugin.error(&["remove", "web", machine.name()]).await?;
        ensure!(again.contains("not found") && again.contains("nothing was removed"), "{again}");
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn the_plugin_pauses_rolls_back_restarts_and_protects(#[case] platform: TestedPlatform) {
    on(platform, "the plugin pauses, rolls back, restarts and protects", async |world| {
        let pool = builder(world).replicas(2).ready().await?;
        let plugin = Plugin::of(world, "ed", &["edit"], Some(platform_rules(platform))).await?;
        let settled = || {
            ready_replicas(2)
                .and(status_number("updatedReplicas", 2))
                .and(pool_condition("Ready", "True", "Ready"))
        };

        // While the rollout is paused, a changed template reaches no machine, and the plan says so.
        plugin.output(&["pause", "web"]).await?;
        pool.edit(&memory(platform, "1Gi")).await?;
        pool.until(shows_pause()).await?;
        let plan = plugin.output(&["plan", "web"]).await?;
        ensure!(
            plan.contains("The controller would change nothing.") && plan.contains("is paused"),
            "{plan}"
        );
        let paused = plugin.output(&["status", "web"]).await?;
        ensure!(paused.contains(": Paused\n") && paused.contains("Paused by"), "{paused}");
        plugin.output(&["resume", "web"]).await?;

        // The changed template needs restarts, which the plugin requests one after the other.
        pool.until(status_number("restartPendingReplicas", 2)).await?;
        let restarted = plugin.output(&["restart", "web"]).await?;
        ensure!(restarted.matches(": restarted").count() == 2, "{restarted}");
        let order: Vec<&str> =
            restarted.lines().map(|line| line.rsplit(' ').next().unwrap_or_default()).collect();
        ensure!(
            order == ["requested", "restarted", "requested", "restarted"],
            "the budget is one machine: {restarted}"
        );
        pool.until(settled()).await?;

        // A rollback writes the earlier template.
        let before = revision(&pool, platform).await?;
        pool.edit(&memory(platform, "2Gi")).await?;
        pool.until(status_number("restartPendingReplicas", 2)).await?;
        let history = plugin.output(&["history", "web"]).await?;
        ensure!(history.contains(&before) && history.contains("current template"), "{history}");
        let diff = plugin.output(&["diff", "web", &before]).await?;
        let field = memory_path(platform).rsplit('/').next().unwrap_or_default();
        let removed = |line: &str| line.starts_with('-') && line.contains(&format!(" {field}: "));
        ensure!(diff.lines().any(removed), "{diff}");
        let dry = plugin.output(&["rollback", "web", "--dry-run"]).await?;
        ensure!(dry.contains("(server dry run)"), "{dry}");
        ensure!(template_memory(&pool, platform).await? == "2Gi");
        plugin.output(&["rollback", "web"]).await?;
        ensure!(template_memory(&pool, platform).await? == "1Gi");
        pool.until(settled().and(status_number("restartPendingReplicas", 0))).await?;
        let current = revision(&pool, platform).await?;
        let refused = plugin.error(&["rollback", "web", "--to-revision", &current]).await?;
        ensure!(refused.contains("already has the template"), "{refused}");

        // A protected machine is neither restarted nor removed by a scale-down.
        let plan = plugin.output(&["plan", "web", "--replicas=1"]).await?;
        let machines = pool.machines().await?;
        let is_first =
            |machine: &&JsonObject| plan.contains(&format!("delete machine {}: surplus", machine.name()));
        let machine = machines.iter().find(is_first).with_context(|| plan.clone())?;
        let until = plugin.output(&["protect", "web", machine.name(), "--for=1h", "--reason=a job"]).await?;
        ensure!(until.contains("protected until"), "{until}");
        // The plan names the machine that would leave first, and deletes the other one.
        let skipped = plugin.output(&["plan", "web", "--replicas=1"]).await?;
        ensure!(skipped.contains(&format!(", {}, is protected until", machine.name())), "{skipped}");
        let refused = plugin.error(&["restart", "web", machine.name()]).await?;
        ensure!(refused.contains("is protected: nothing was restarted"), "{refused}");
        let shown = plugin.output(&["status", "web"]).await?;
        ensure!(shown.contains("protected until") && shown.contains("a job"), "{shown}");
        plugin.output(&["scale", "web", "--replicas=1"]).await?;
        pool.until(live_machine_count(1)).await?;
        let left = pool.machines().await?;
        ensure!(left.iter().any(|left| left.name() == machine.name() && !left.is_terminating()), "{left:?}");
        plugin.output(&["unprotect", "web", machine.name()]).await?;
        plugin.output(&["restart", "web"]).await?;
        pool.until(ready_replicas(1).and(status_number("updatedReplicas", 1))).await?;

        // Another machine replaces one on request.
        let mut machines = pool.machines().await?.into_iter();
        let old = machines.find(|machine| !machine.is_terminating()).context("the pool has no machine")?;
        let requested = plugin.output(&["drain", "web", old.name(), "-o", "json"]).await?;
        let requested: Value = serde_json::from_str(&requested)?;
        ensure!(requested["machines"][0]["uid"] == *old.uid(), "{requested}");
        pool.until(negate_condition(has_machine(&old)).and(ready_replicas(1))).await?;
        let withdrawn = plugin.output(&["drain", "web", "--all", "--cancel"]).await?;
        ensure!(withdrawn == "no machine was changed\n", "{withdrawn}");

        // The doctor finds the installation, and what the user may not check.
        let (_, doctor, _) = plugin.run(&["doctor"]).await?;
        let title = if platform == TestedPlatform::Dvp { "DVP" } else { "KubeVirt" };
        ensure!(doctor.contains("ok       API server"), "{doctor}");
        for part in ["pools:", "API service", "webhook: refuses an invalid pool", "rights"] {
            let line = format!("ok       {title} {part}");
            ensure!(doctor.contains(&line), "{line} is missing:\n{doctor}");
        }
        ensure!(doctor.contains("unknown  webhook"), "{doctor}");
        // Names are completed from the cluster, without flags.
        let mut command = Command::new(&plugin.program);
        command.args(["__complete", "--kubeconfig"]).arg(&plugin.kubeconfig);
        command.args(["-n", world.namespace(), "status", ""]).env_remove("KUBECONFIG");
        let completed =
            process::command_output("kubectl-vmpool", command, vmpool_e2e::world::DEADLINE).await?;
        ensure!(completed.stdout == b"web\n:4\n", "{completed:?}");
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn the_plugin_claims_and_releases_without_rights_on_machines(#[case] platform: TestedPlatform) {
    on(platform, "the plugin claims and releases", async |world| {
        let pool = world.pool("web").policy(PoolScaleDownPolicy::NewestFirst).replicas(2).ready().await?;
        let job = Plugin::of(world, "jo", &["vmpool-editor"], None).await?;
        let claim = async |id: &str, more: &[&str]| {
            let arguments = ["claim", "web", "--id", id, "--for=1h", "-o", "json"];
            let output = job.output(&[&arguments, more].concat()).await?;
            Ok::<Value, anyhow::Error>(serde_json::from_str(&output)?)
        };

        // A dry run claims nothing. Two ids get two machines, and the same id finds its machine again.
        let dry = job.output(&["claim", "web", "--id=a", "--for=1h", "--dry-run"]).await?;
        ensure!(dry.contains("nothing was claimed"), "{dry}");
        let (first, second) = (claim("a", &[]).await?, claim("b", &[]).await?);
        ensure!(first["machine"]["uid"] != second["machine"]["uid"], "{first}\n{second}");
        ensure!(claim("a", &["--renew"]).await?["machine"] == first["machine"]);
        // Without a free machine, the command waits, and then says so.
        let error = job.error_with(3, &["claim", "web", "--id=c", "--for=1h", "--wait=2s"]).await?;
        ensure!(error.contains("cannot create virtualmachinepools/claim"), "{error}");
        // It says so once, in words.
        for word in ["ApiError", "Status {", "Operation cannot be fulfilled"] {
            ensure!(!error.contains(word), "{error}");
        }
        // A released machine can be claimed at once, also by a command that waits for it.
        let uid = first["machine"]["uid"].as_str().context("no UID")?;
        let release = ["release", "web", "--id=a", "--then=keep", "--uid", uid];
        let more = ["--wait=30s"];
        let (third, released) = tokio::join!(claim("c", &more), job.output(&release));
        let released = released?;
        ensure!(released.contains("released, it stays in the pool"), "{released}");
        ensure!(third?["machine"]["uid"] == first["machine"]["uid"], "{first}");
        // Without the UID, the command needs the right to list machines.
        let error = job.error(&["release", "web", "--id=b", "--then=replace"]).await?;
        ensure!(error.contains("with --uid, the command needs no right on machines"), "{error}");
        let uid = second["machine"]["uid"].as_str().context("no UID")?;
        world.user_actions().request_removal(&[uid.to_owned()]);
        job.output(&["release", "web", "--id=b", "--then=remove", "--uid", uid]).await?;
        pool.until(live_machine_count(1)).await?;
        ensure!(pool.get().await?.number("/spec/replicas") == Some(1));
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn the_plugin_names_missing_rights_and_objects(#[case] platform: TestedPlatform) {
    on(platform, "the plugin names missing rights and objects", async |world| {
        world.pool("web").policy(PoolScaleDownPolicy::NewestFirst).replicas(1).ready().await?;
        let viewer = Plugin::of(world, "vera", &["vmpool-viewer"], None).await?;
        // A user who may read pools only sees the pool, and what is missing.
        let status = viewer.output(&["status", "web"]).await?;
        ensure!(status.contains("1 desired, 1 exist, 1 ready"), "{status}");
        ensure!(status.contains("machines and disks: you may not list"), "{status}");
        // Other commands fail, and name the right.
        let error = viewer.error(&["plan", "web"]).await?;
        ensure!(error.contains("you may not list objects of kind VirtualMachine"), "{error}");
        let error = viewer.error(&["remove", "web", "web-abcde"]).await?;
        let group = platform.resource(TestedKind::Machine).group;
        ensure!(error.contains(&format!("the verb \"get\" on virtualmachines.{group}")), "{error}");
        let error = viewer.error(&["status", "wen"]).await?;
        ensure!(error.contains("pool wen not found in namespace"), "{error}");
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn the_plugin_follows_a_pool_until_it_is_deleted(#[case] platform: TestedPlatform) {
    on(platform, "the plugin follows a pool", async |world| {
        let pool = builder(world).replicas(1).ready().await?;
        // One user may watch everything. The other one may only list machines, so the plugin asks repeatedly.
        let watcher = Plugin::of(world, "ada", &["cluster-admin"], None).await?;
        let lister = Plugin::of(world, "ed", &["edit"], Some(platform_rules(platform))).await?;
        let change = async {
            pool.scale(2).await?;
            pool.until(ready_replicas(2)).await?;
            // The commands read the pool at least once more before it is gone.
            let_time_pass(Duration::from_secs(5)).await;
            pool.delete(PoolDeletion::Background).await?;
            Ok::<(), anyhow::Error>(())
        };
        let follow = ["status", "web", "-w"];
        let (changed, watched, listed) =
            tokio::join!(change, watcher.output(&follow), lister.output(&follow));
        changed?;
        for shown in [watched?, listed?] {
            ensure!(shown.contains("2 desired, 2 exist, 2 ready"), "{shown}");
            ensure!(shown.ends_with("pool web was deleted\n"), "{shown}");
            ensure!(!shown.contains('\u{1b}'), "{shown}");
        }
        Ok(())
    });
}
