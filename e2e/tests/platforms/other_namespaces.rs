//! A tenant who may read the namespace of a pool and write another namespace, and who forges owner references
//! to the pool.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use jiff::Timestamp;
use kube::Client;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_e2e::harness;
use vmpool_e2e::scenario::LIMIT;
use vmpool_e2e::world::condition::{
    has_machine, live_machine_count, negate_condition, ready_replicas, status_number,
};
use vmpool_e2e::world::{DEADLINE, PoolHandle, SETTLE, ScenarioWorld};
use vmpool_installation::installation::{ClusterInstallation, cluster_options, kubevirt_definitions};
use vmpool_installation::programs::{Accounts, Chart, ControllerOptions};
use vmpool_invariants::object::{JsonObject, TestedKind, object_uids};
use vmpool_invariants::other_namespaces::{self, ForgedObject};
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::control_plane::{AuditMark, ControlPlane, apply_manifests, read_yaml_documents};
use vmpool_test_cluster::deadline::Deadline;
use vmpool_test_cluster::error::error_with_causes;
use vmpool_test_cluster::poll;

/// The namespace in which the tenant may write.
const EVIL: &str = "evil";
/// A finalizer of the tenant: the garbage collector deletes the object, and the object stays.
const HOLD: &str = "mallory.example/hold";

/// Owner references with the UID of the pool. Only the second one names it correctly, and the pool is in
/// another namespace.
fn forgeries(pool: &JsonObject) -> [Value; 3] {
    let owner = |api_version: &str, name: &str| {
        json!({
            "apiVersion": api_version, "kind": "VirtualMachinePool", "name": name, "uid": pool.uid(), "controller": true,
        })
    };
    let api_version = pool.text("/apiVersion");
    [owner("no.such.group/v1", "web"), owner(api_version, "web"), owner(api_version, "other")]
}

/// A client of the tenant: it reads the namespace of the world, and writes [`EVIL`].
async fn mallory(world: &ScenarioWorld) -> Result<Client> {
    let read = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"] }]);
    let mallory = world.user_with("mallory", read).await?;
    let api_version = "rbac.authorization.k8s.io/v1";
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": EVIL } });
    apply_manifests(&world.client(), &[namespace], None).await?;
    let rules = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
    let role =
        json!({ "apiVersion": api_version, "kind": "Role", "metadata": { "name": "edit" }, "rules": rules });
    let subject = json!({ "kind": "User", "name": world.user_name("mallory"), "apiGroup": "rbac.authorization.k8s.io" });
    let reference = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "edit" });
    let binding = json!({
        "apiVersion": api_version, "kind": "RoleBinding", "metadata": { "name": "edit" }, "roleRef": reference,
        "subjects": [subject],
    });
    apply_manifests(&world.client(), &[role, binding], Some(EVIL)).await?;
    Ok(mallory)
}

/// Creates copies of an object in [`EVIL`], one for each forged owner, with the labels and annotations of the
/// original.
async fn forge(
    world: &ScenarioWorld,
    mallory: &Client,
    kind: TestedKind,
    original: &JsonObject,
    pool: &JsonObject,
) -> Result<Vec<String>> {
    let api = world.platform().api(kind, mallory.clone(), EVIL);
    let mut names = Vec::new();
    for (number, owner) in forgeries(pool).into_iter().enumerate() {
        let name = format!("{}-{number}", original.name());
        let mut copy = json!({
            "apiVersion": original.text("/apiVersion"), "kind": original.text("/kind"),
            "metadata": {
                "name": name, "labels": original.at("/metadata/labels"), "finalizers": [HOLD],
                "annotations": original.at("/metadata/annotations"), "ownerReferences": [owner],
            },
        });
        copy["spec"] = original.at("/spec").clone();
        let copy: DynamicObject = serde_json::from_value(copy)?;
        let create = async || {
            Ok::<_, vmpool_test_cluster::Error>(
                api.create(&PostParams::default(), &copy).await.map(drop).map_err(|error| error.to_string()),
            )
        };
        poll::poll_until(|| "the tenant may write".to_owned(), DEADLINE, create).await?;
        names.push(name);
    }
    Ok(names)
}

/// Removes the finalizers of the tenant, so that the namespace can be deleted.
async fn clean_up(
    world: &ScenarioWorld,
    mallory: &Client,
    forged: &BTreeMap<ForgedObject, Timestamp>,
) -> Result<()> {
    for kind in [TestedKind::Machine, TestedKind::Disk] {
        let api = world.platform().api(kind, mallory.clone(), EVIL);
        for object in
            forged.keys().filter(|object| object.plural == kind.plural() || kind == TestedKind::Disk)
        {
            let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
            _ = api.patch(&object.name, &PatchParams::default(), &patch).await;
            _ = api.delete(&object.name, &DeleteParams::default()).await;
        }
    }
    Ok(())
}

/// Waits until the pool has this number of machines, all ready, and its status says so.
async fn until_complete(pool: &PoolHandle<'_>, count: usize) -> Result<()> {
    let number = i64::try_from(count)?;
    pool.until(live_machine_count(count).and(ready_replicas(number)).and(status_number("replicas", number)))
        .await?;
    Ok(())
}

async fn forged_owners(platform: TestedPlatform) -> Result<()> {
    // Given a pool of three machines, two controllers that watch all namespaces, and a tenant of another
    // namespace,
    let cluster = Arc::new(ControlPlane::start(cluster_options("other-namespaces")).await?);
    let mut definitions = Vec::new();
    for folder in kubevirt_definitions() {
        definitions.extend(read_yaml_documents(&folder)?);
    }
    apply_manifests(&cluster.admin(), &definitions, None).await?;
    let chart = Chart::render(&["platforms.kubevirt.enabled=true".to_owned()]).await?;
    let installation =
        Arc::new(ClusterInstallation::simulating(&platform.to_string(), &chart, cluster.clone()).await?);
    let world = ScenarioWorld::start_on(platform, "forged owners", installation.clone(), 0).await?;
    let everywhere = |identity: &str| {
        let mut options = ControllerOptions::everywhere(identity);
        options.lease_duration = Duration::from_secs(4);
        options.renew_interval = Duration::from_secs(1);
        options.extra.push("--request-deadline=1500ms".to_owned());
        options
    };
    let leader = world.add_controller_with(everywhere("a")).await?;
    let pool = world.pool("web").replicas(3).ready().await?;
    let mallory = mallory(&world).await?;
    let stored = pool.get().await?;
    // when the tenant creates machines that name the pool as their owner,
    let machines = pool.machines().await?;
    let mut forged = BTreeMap::new();
    let since = Timestamp::now();
    let mut remember = |plural: &str, names: Vec<String>| {
        let namespace = || EVIL.to_owned();
        let object = |name| ForgedObject { namespace: namespace(), plural: plural.to_owned(), name };
        forged.extend(names.into_iter().map(|name| (object(name), since)));
    };
    remember("virtualmachines", forge(&world, &mallory, TestedKind::Machine, &machines[0], &stored).await?);
    // then the status of the pool does not count them, and no machine is deleted,
    pool.holds(live_machine_count(3).and(status_number("replicas", 3)), SETTLE).await?;
    // a deleted machine of the pool is replaced,
    world.user_actions().deleted.insert(machines[1].uid().to_owned());
    world.delete(&machines[1]).await?;
    pool.until(negate_condition(has_machine(&machines[1]))).await?;
    until_complete(&pool, 3).await?;
    // and a new leader, which knows only lists, deletes nothing.
    let before = object_uids(&pool.machines().await?);
    pool.allow_in_flight(1);
    let standby = world.add_controller_with(everywhere("b")).await?;
    leader.kill();
    let leads = async || {
        let leads = standby.leads().await == Some(true);
        Ok::<_, vmpool_test_cluster::Error>(if leads { Ok(()) } else { Err("it does not lead".to_owned()) })
    };
    poll::poll_until(|| "the standby leads".to_owned(), DEADLINE, leads).await?;
    pool.holds(live_machine_count(3).and(status_number("replicas", 3)), SETTLE).await?;
    ensure!(
        object_uids(&pool.machines().await?) == before,
        "machines were deleted after the change of leaders"
    );
    // Disks of the other namespace do not stop a scale-up,
    if platform == TestedPlatform::Dvp {
        let disk = pool.disks().await?.first().cloned();
        if let Some(disk) = disk {
            remember("virtualdisks", forge(&world, &mallory, TestedKind::Disk, &disk, &stored).await?);
        }
    }
    pool.scale(5).await?;
    until_complete(&pool, 5).await?;
    // nor does a scale-down delete more than the surplus.
    pool.scale(2).await?;
    until_complete(&pool, 2).await?;
    world.settles().await?;
    let (audit, _) = world.access().audit_of(EVIL, AuditMark::default())?;
    ensure!(audit.iter().any(|entry| entry.verb == "create"), "the requests of the tenant were recorded");
    let touched = other_namespaces::check_other_namespaces(&forged, &audit, &Accounts::controller_user());
    ensure!(touched.is_empty(), "{touched:?}");
    clean_up(&world, &mallory, &forged).await?;
    world.stop_controllers().await?;
    drop(installation);
    Ok(())
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn objects_of_another_namespace_that_name_the_pool_have_no_effect(#[case] platform: TestedPlatform) {
    let scenario = async { Deadline::after(LIMIT).within(forged_owners(platform)).await };
    let late = |elapsed| Err(anyhow::anyhow!("it has not completed after {elapsed}"));
    if let Err(error) = harness::block_on(scenario).unwrap_or_else(late) {
        panic!("{}", error_with_causes(error.as_ref()));
    }
}
