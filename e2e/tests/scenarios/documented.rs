//! Runs the commands in the docs as they are written; only namespaces and names of machines are replaced.

use std::path::Path;

use anyhow::ensure;
use serde_json::{Value, json};
use vmpool_api::v1alpha2::GROUP;
use vmpool_e2e::documentation::{self, find_code_block};
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::condition::{has_machine, machine_count};
use vmpool_e2e::world::condition::{negate_condition, ready_replicas};
use vmpool_e2e::world::{DEADLINE, PoolHandle, SETTLE, ScenarioWorld};
use vmpool_installation::workspace_root;
use vmpool_invariants::object::TestedKind;
use vmpool_test_cluster::control_plane::{apply_manifests, read_yaml_documents};
use vmpool_test_cluster::poll;

/// The namespace in the docs.
const NAMESPACE: &str = "ci";

/// A machine name in the docs.
const RUNNER: &str = "runners-7xk2d";

fn page() -> anyhow::Result<String> {
    documentation::read_docs_page("autoscaling.md")
}

/// The guide for CI runners.
fn guide() -> anyhow::Result<String> {
    documentation::read_docs_page("ci-runners.md")
}

fn example(name: &str) -> String {
    workspace_root().join("docs/examples").join(name).display().to_string()
}

/// Replaces the namespace by the scenario's.
fn here(text: &str, world: &ScenarioWorld) -> String {
    let namespace = world.namespace();
    text.replace(&format!("/namespaces/{NAMESPACE}/"), &format!("/namespaces/{namespace}/"))
        .replace(&format!("-n {NAMESPACE} "), &format!("-n {namespace} "))
        .replace(&format!("namespace: {NAMESPACE}\n"), &format!("namespace: {namespace}\n"))
        .replace("docs/examples", &workspace_root().join("docs/examples").display().to_string())
}

/// Runs a script in a shell whose kubectl uses this kubeconfig. Returns whether it succeeded, and its output.
async fn shell(world: &ScenarioWorld, kubeconfig: &Path, text: &str) -> anyhow::Result<(bool, String)> {
    documentation::run_shell_script(world.cluster(), kubeconfig, "", world.cluster().directory(), text).await
}

/// The pool in the page about runners.
async fn runners(world: &ScenarioWorld) -> anyhow::Result<PoolHandle<'_>> {
    world.kubectl(&["apply", "-f", &example("runners.yaml")]).await?;
    Ok(world.existing("runners").await?)
}

#[test]
fn the_documented_request_removes_two_runners() {
    define_scenario("the documented request removes two runners").guarded().controllers(0).ends_unsettled().run(
        async |world| {
            // Given the documented pool with the machines in the docs. The scenario creates them, because the
            // controller would choose other names.
            let pool = runners(world).await?;
            let owner = json!([{
                "apiVersion": "virtualization.deckhouse.io/v1alpha2", "kind": TestedKind::Pool.name(), "name": pool.name(),
                "uid": pool.uid(), "controller": true,
            }]);
            let spec = pool.get().await?.at("/spec/virtualMachineTemplate/spec").clone();
            for name in [RUNNER, "runners-b9q4m", "runners-k5v8z"] {
                let machine = json!({
                    "apiVersion": "virtualization.deckhouse.io/v1alpha2", "kind": TestedKind::Machine.name(),
                    "metadata": { "name": name, "ownerReferences": owner }, "spec": spec,
                });
                apply_manifests(&world.client(), &[machine], Some(world.namespace())).await?;
            }
            pool.until(machine_count(3)).await?;
            let machines = pool.machines().await?;
            let named: Vec<String> = machines
                .iter()
                .filter(|machine| machine.name() != "runners-k5v8z")
                .map(|machine| machine.uid().to_owned())
                .collect();
            world.user_actions().request_removal(&named);
            // when a user runs the documented command,
            let command = find_code_block(&page()?, "Removing machines by name", "console")?;
            let command = here(&command, world);
            let (well, said) = shell(world, &world.access().kubeconfig, &command).await?;
            ensure!(well && said.contains(r#""status":"Success""#), "{command}\n{said}");
            // then these two machines are removed, and `replicas` is lowered.
            ensure!(pool.get().await?.number("/spec/replicas") == Some(1), "{said}");
            pool.until(machine_count(1)).await?;
            ensure!(pool.machine(0).await?.name() == "runners-k5v8z");
            Ok::<_, anyhow::Error>(())
        },
    );
}

#[test]
fn the_recipe_for_runners_works_with_the_documented_role() {
    define_scenario("the recipe for runners works with the documented role").guarded().run(async |world| {
        let pool = runners(world).await?;
        pool.until(ready_replicas(3)).await?;
        let idle = pool.machine(1).await?;
        // Given the documented account,
        let roles = std::fs::read_to_string(example("roles/runners.yaml"))?;
        let roles = vmpool_test_cluster::control_plane::parse_yaml_documents("roles/runners.yaml", &here(&roles, world))?;
        apply_manifests(&world.client(), &roles, Some(world.namespace())).await?;
        let account = world.cluster().service_account_kubeconfig(world.namespace(), NAMESPACE).await?;
        let user = world.user_name(NAMESPACE);
        until_in_effect(world, &user).await?;
        // when it runs the recipe for an idle runner,
        let recipe = find_code_block(&guide()?, "Explicit: runners that stay", "sh")?;
        let recipe = here(&recipe, world).replace(RUNNER, idle.name());
        ensure!(recipe.contains(idle.name()), "the recipe contains no runner:\n{recipe}");
        world.user_actions().request_removal(&[idle.uid().to_owned()]);
        let (well, said) = shell(world, &account, &recipe).await?;
        ensure!(well && said.contains(r#""status":"Success""#), "{recipe}\n{said}");
        // then that machine is removed and not replaced.
        pool.until(ready_replicas(2).and(negate_condition(has_machine(&idle)))).await?;
        pool.holds(machine_count(2), SETTLE).await?;
        // If the recipe runs again, the machine is gone, and the output says so.
        let again = recipe.replace("uid=$(", "uid=$(printf gone || ");
        let (well, said) = shell(world, &account, &again).await?;
        ensure!(!well && said.contains("not found"), "{said}");
        // The account may scale up, but neither delete machines nor edit the pool.
        let namespace = world.namespace();
        let (well, said) = shell(world, &account, &format!("kubectl scale -n {namespace} vmpool runners --replicas=3")).await?;
        ensure!(well, "{said}");
        pool.until(ready_replicas(3)).await?;
        let left = pool.machine(0).await?;
        for refused in [
            format!("kubectl delete -n {namespace} virtualmachines.{GROUP} {}", left.name()),
            format!("kubectl patch -n {namespace} vmpool runners --type=merge -p '{{\"spec\":{{\"replicas\":5}}}}'"),
        ] {
            let (well, said) = shell(world, &account, &refused).await?;
            ensure!(!well && said.contains("forbidden"), "{refused}: {said}");
        }
        Ok::<_, anyhow::Error>(())
    });
}

/// Waits until the API server's watch has observed the roles.
async fn until_in_effect(world: &ScenarioWorld, user: &str) -> anyhow::Result<()> {
    let what = || format!("{user} has a permission for machines");
    let asked = poll::poll_until(what, DEADLINE, async || {
        let may = world.may(user, "get", GROUP, "virtualmachines").await?;
        Ok(if may { Ok(()) } else { Err("no".to_owned()) })
    });
    Ok(asked.await?)
}

#[test]
fn the_documented_scaled_object_matches_a_strict_schema_and_keda_has_its_permissions() {
    define_scenario("the documented ScaledObject matches a strict schema").guarded().controllers(0).run(
        async |world| {
            let definition = workspace_root().join("e2e/tests/manifests/scaledobjects.keda.sh.yaml");
            world.kubectl(&["apply", "-f", &definition.display().to_string()]).await?;
            world
                .kubectl(&[
                    "wait",
                    "--for=condition=Established",
                    "crd/scaledobjects.keda.sh",
                    "--timeout=60s",
                ])
                .await?;
            let documents = read_yaml_documents(Path::new(&example("keda/scaledobject.yaml")))?;
            let [shown] = documents.as_slice() else { anyhow::bail!("{documents:?}") };
            let file = world.cluster().directory().join(format!("{}.json", world.namespace()));
            let try_out = async |object: &Value| {
                std::fs::write(&file, object.to_string())?;
                let file = file.display().to_string();
                let arguments = ["create", "--dry-run=server", "--validate=strict", "-f", &file];
                Ok::<_, anyhow::Error>(world.kubectl(&arguments).await)
            };
            // A CRD may be established before it is served.
            let what = || "ScaledObjects are served".to_owned();
            poll::poll_until(what, DEADLINE, async || {
                Ok(world.kubectl(&["get", "scaledobjects.keda.sh"]).await.map_err(|error| error.to_string()))
            })
            .await?;
            try_out(shown).await??;
            // The change for Explicit pools that the docs describe in a sentence:
            let mut explicit = shown.clone();
            explicit["spec"]["advanced"] = json!({ "horizontalPodAutoscalerConfig": { "behavior": {
            "scaleDown": { "selectPolicy": "Disabled" } } } });
            explicit["spec"]["minReplicaCount"] = json!(1);
            try_out(&explicit).await??;
            // A misspelled field is refused.
            for (field, value) in [("minReplicas", json!(0)), ("maxReplicaCount", json!("12"))] {
                let mut wrong = shown.clone();
                wrong["spec"][field] = value;
                let accepted = try_out(&wrong).await?;
                ensure!(
                    accepted.is_err_and(|error| error.to_string().contains(field)),
                    "{wrong} was accepted"
                );
            }
            // KEDA's account has the necessary permissions, and no more.
            let rights = read_yaml_documents(Path::new(&example("roles/keda.yaml")))?;
            apply_manifests(&world.client(), &rights, None).await?;
            let keda = "system:serviceaccount:keda:keda-operator";
            let scale = "virtualmachinepools/scale";
            let what = || "KEDA has a permission for the scale".to_owned();
            poll::poll_until(what, DEADLINE, async || {
                Ok(if world.may(keda, "get", GROUP, scale).await? { Ok(()) } else { Err("no".to_owned()) })
            })
            .await?;
            for (verb, resource, expected) in [
                ("update", scale, true),
                ("patch", scale, true),
                ("list", "virtualmachinepools", true),
                ("patch", "virtualmachinepools", false),
                ("delete", "virtualmachinepools", false),
                ("delete", "virtualmachines", false),
            ] {
                let may = world.may(keda, verb, GROUP, resource).await?;
                ensure!(may == expected, "KEDA {} {verb} {resource}", if may { "may" } else { "may not" });
            }
            Ok::<_, anyhow::Error>(())
        },
    );
}
