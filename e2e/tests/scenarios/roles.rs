//! Each account and role has exactly its intended permissions.

use anyhow::ensure;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use vmpool_api::v1alpha2::GROUP;
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::condition::ready_replicas;
use vmpool_e2e::world::{PoolScaleDownPolicy, ScenarioWorld};
use vmpool_installation::programs::{Accounts, Component};
use vmpool_invariants::object::TestedKind;

const OURS: &str = "subresources.vmpool.dev";

/// All permissions that a role could grant, as `verb group resource`.
fn everything() -> Vec<(&'static str, &'static str, &'static str)> {
    let verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "force"];
    let resources = [
        (GROUP, "virtualmachinepools"),
        (GROUP, "virtualmachinepools/status"),
        (GROUP, "virtualmachinepools/scale"),
        (GROUP, "virtualmachinepools/finalizers"),
        (GROUP, "virtualmachines"),
        (GROUP, "virtualdisks"),
        (GROUP, "virtualmachineblockdeviceattachments"),
        (GROUP, "virtualimages"),
        (OURS, "virtualmachinepools"),
        (OURS, "virtualmachinepools/claim"),
        (OURS, "virtualmachinepools/release"),
        (OURS, "virtualmachinepools/scaledownwith"),
        ("", "secrets"),
        ("", "configmaps"),
        ("", "events"),
        ("", "pods"),
        ("coordination.k8s.io", "leases"),
    ];
    let all = resources.into_iter().flat_map(|(group, resource)| verbs.map(|verb| (verb, group, resource)));
    all.collect()
}

/// The permissions of a user in the scenario's namespace, as `resource: verbs` with one line per resource.
async fn allowed(world: &ScenarioWorld, user: &str) -> anyhow::Result<Vec<String>> {
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    for (verb, group, resource) in everything() {
        if !world.may(user, verb, group, resource).await? {
            continue;
        }
        let resource = if group == OURS { format!("{OURS} {resource}") } else { resource.to_owned() };
        match lines.last_mut().filter(|(last, _)| *last == resource) {
            Some((_, verbs)) => verbs.push(verb),
            None => lines.push((resource, vec![verb])),
        }
    }
    Ok(lines.into_iter().map(|(resource, verbs)| format!("{resource}: {}", verbs.join(" "))).collect())
}

#[test]
fn roles_and_accounts_allow_what_they_should_and_nothing_else() {
    const POOLS_READ: &str = "virtualmachinepools: get list watch";
    const POOLS_WRITE: &str =
        "virtualmachinepools: get list watch create update patch delete deletecollection";
    define_scenario("roles and accounts have exactly their permissions").guarded().controllers(0).run(
        async |world| {
            for (name, role) in [("vera", "vmpool-viewer"), ("ed", "vmpool-editor"), ("ada", "vmpool-admin")]
            {
                world.user(name, &[role]).await?;
            }
            world.user("outsider", &[]).await?;
            let editors = vec![
                POOLS_WRITE,
                "virtualmachinepools/scale: get update patch",
                "subresources.vmpool.dev virtualmachinepools: get",
                "subresources.vmpool.dev virtualmachinepools/claim: create",
                "subresources.vmpool.dev virtualmachinepools/release: create",
                "subresources.vmpool.dev virtualmachinepools/scaledownwith: create",
            ];
            let admins = vec![
                POOLS_WRITE,
                "virtualmachinepools/scale: get update patch",
                "virtualmachinepools/finalizers: update",
                "subresources.vmpool.dev virtualmachinepools: get",
                "subresources.vmpool.dev virtualmachinepools/claim: create",
                "subresources.vmpool.dev virtualmachinepools/release: create",
                "subresources.vmpool.dev virtualmachinepools/scaledownwith: create force",
            ];
            let expected: [(String, Vec<&str>); 6] = [
                (world.user_name("outsider"), vec![]),
                (
                    world.user_name("vera"),
                    vec![
                        POOLS_READ,
                        "virtualmachinepools/scale: get",
                        "subresources.vmpool.dev virtualmachinepools: get",
                    ],
                ),
                (world.user_name("ed"), editors),
                (world.user_name("ada"), admins),
                (Component::Webhook.user(), vec!["virtualmachinepools: get", "virtualimages: get"]),
                (
                    Component::Apiserver.user(),
                    vec![
                        "virtualmachinepools: get patch",
                        "virtualmachines: get list patch delete",
                        "events: create",
                    ],
                ),
            ];
            for (user, expected) in expected {
                let allowed = allowed(world, &user).await?;
                ensure!(allowed == expected, "{user}:\n{allowed:#?}\ninstead of\n{expected:#?}");
            }
            // The scenario's namespace also contains the lease of its controller.
            let controller = allowed(world, &Accounts::controller_user()).await?;
            for never in ["virtualmachinepools/scale", "secrets", "configmaps", "pods", OURS] {
                let found = controller.iter().find(|line| line.starts_with(never));
                ensure!(found.is_none(), "the controller: {found:?}");
            }
            for right in [
                "virtualmachinepools: get list watch patch",
                "virtualdisks: get list watch create patch delete",
                "virtualmachineblockdeviceattachments: list watch",
                "events: create patch",
            ] {
                ensure!(controller.contains(&right.to_owned()), "{right} is not in {controller:#?}");
            }
            Ok::<_, anyhow::Error>(())
        },
    );
}

#[test]
fn users_with_the_default_roles_of_kubernetes_use_pools() {
    define_scenario("users with the default roles use pools").guarded().run(async |world| {
        let pool = world.pool("web").policy(PoolScaleDownPolicy::Explicit).replicas(2).ready().await?;
        let machine = pool.machine(0).await?;
        let viewer = world.user("vera", &["view"]).await?;
        let editor = world.user("ed", &["edit"]).await?;
        let pools = |client: &kube::Client| TestedKind::Pool.api(client.clone(), world.namespace());
        let grow = Patch::Merge(json!({ "spec": { "replicas": 3 } }));
        let params = PatchParams::default();
        // A viewer can only read;
        ensure!(pools(&viewer).get("web").await.is_ok());
        let refused = pools(&viewer).patch_scale("web", &params, &grow).await;
        ensure!(matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403), "{refused:?}");
        let removal = pool.removal().target(&machine).by(&viewer).send().await?;
        ensure!(removal.code == 403, "{removal}");
        // an editor scales up, and requests the removal of a machine that this role cannot delete.
        pools(&editor).patch_scale("web", &params, &grow).await?;
        pool.until(ready_replicas(3)).await?;
        let machines = TestedKind::Machine.api(editor.clone(), world.namespace());
        let deleted = machines.delete(machine.name(), &kube::api::DeleteParams::default()).await;
        ensure!(deleted.is_err(), "an editor of pools deleted a machine");
        let removal = pool.removal().target(&machine).by(&editor).send().await?;
        ensure!(removal.is_success(), "{removal}");
        pool.until(ready_replicas(2)).await?;
        Ok::<_, anyhow::Error>(())
    });
}
