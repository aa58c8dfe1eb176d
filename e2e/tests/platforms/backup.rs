//! A pool, its machines and their disks are dumped, deleted and applied again, as backup tools do it: with
//! new UIDs and without status, owners and finalizers.

use anyhow::{Context, Result, ensure};
use rstest::rstest;
use serde_json::Value;
use vmpool_e2e::world::condition::{
    live_machine_count, negate_condition, no_condition, pool_condition, pool_event, ready_replicas,
};
use vmpool_e2e::world::{PoolDeletion, PoolHandle, PoolScaleDownPolicy, SETTLE, ScenarioWorld};
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::control_plane::apply_manifests;

use crate::on;
use crate::plugin::Plugin;

/// What a backup of the namespace contains, in the order in which tools restore it.
fn resources(platform: TestedPlatform) -> &'static [&'static str] {
    match platform {
        TestedPlatform::Dvp => &[
            "controllerrevisions.apps",
            "virtualdisks.virtualization.deckhouse.io",
            "virtualmachinepools.virtualization.deckhouse.io",
            "virtualmachines.virtualization.deckhouse.io",
        ],
        TestedPlatform::KubeVirt => &[
            "persistentvolumeclaims",
            "controllerrevisions.apps",
            "datavolumes.cdi.kubevirt.io",
            "virtualmachinepools.pool.kubevirt.io",
            "virtualmachines.kubevirt.io",
        ],
    }
}

/// The objects of the namespace without what a backup tool drops.
async fn dump(world: &ScenarioWorld) -> Result<Vec<Value>> {
    let mut dumped = Vec::new();
    for resource in resources(world.platform()) {
        let listed: Value = serde_json::from_str(&world.kubectl(&["get", resource, "-o", "json"]).await?)?;
        let items = listed["items"].as_array().context("no list")?;
        for item in items {
            let mut object = item.clone();
            let fields = object.as_object_mut().context("no object")?;
            fields.remove("status");
            let metadata = fields["metadata"].as_object_mut().context("no metadata")?;
            metadata
                .retain(|field, _| ["name", "namespace", "labels", "annotations"].contains(&field.as_str()));
            dumped.push(object);
        }
    }
    Ok(dumped)
}

/// The names of all machines of the namespace.
async fn machine_names(world: &ScenarioWorld) -> Result<Vec<String>> {
    let resource = resources(world.platform()).last().context("no resources")?;
    let machines = world.kubectl(&["get", resource, "-o", "name"]).await?;
    Ok(machines.lines().map(str::to_owned).collect())
}

/// Dumps the namespace, deletes the pool with all its objects, and applies the objects of the dump that are
/// wanted.
async fn restore<'w>(
    world: &'w ScenarioWorld,
    pool: &PoolHandle<'w>,
    is_wanted: impl Fn(&Value) -> bool,
) -> Result<PoolHandle<'w>> {
    let mut dumped = dump(world).await?;
    dumped.retain(is_wanted);
    pool.delete(PoolDeletion::Background).await?;
    pool.leaves_nothing().await?;
    apply_manifests(&world.client(), &dumped, Some(world.namespace())).await?;
    Ok(world.existing("web").await?)
}

fn builder(world: &ScenarioWorld) -> vmpool_e2e::world::ScenarioPoolBuilder<'_> {
    world.pool("web").policy(PoolScaleDownPolicy::NewestFirst).disk("root").replicas(3)
}

/// The event of a machine that gets another template.
fn restart_event(platform: TestedPlatform) -> &'static str {
    match platform {
        TestedPlatform::Dvp => "TemplateApplied",
        TestedPlatform::KubeVirt => "SuccessfulUpdate",
    }
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_restored_pool_waits_and_then_adopts_its_restored_machines(#[case] platform: TestedPlatform) {
    on(platform, "a restored pool adopts its machines", async |world| {
        let pool = builder(world).ready().await?;
        let before = machine_names(world).await?;
        ensure!(before.len() == 3, "{before:?}");
        let pool = restore(world, &pool, |_| true).await?;

        // The controller creates no machine beside the restored ones, and says what to do.
        pool.until(pool_condition("Stalled", "True", "Blocked")).await?;
        let stalled = pool.get().await?.condition("Stalled").context("no condition")?.clone();
        ensure!(
            stalled["message"].as_str().is_some_and(|text| text.contains("kubectl vmpool adopt web")),
            "{stalled}"
        );
        pool.holds(live_machine_count(0), SETTLE).await?;
        ensure!(machine_names(world).await? == before);

        // A dry run changes nothing;
        let plugin = Plugin::of(world, "ada", &["cluster-admin"], None).await?;
        let dry = plugin.output(&["adopt", "web", "--dry-run"]).await?;
        ensure!(before.iter().all(|name| dry.contains(name.split('/').nth(1).unwrap_or_default())), "{dry}");
        pool.holds(live_machine_count(0), SETTLE).await?;
        // a pool that wants fewer machines would lose the others;
        pool.scale(2).await?;
        let refused = plugin.error(&["adopt", "web"]).await?;
        ensure!(refused.contains("Scale it to 3"), "{refused}");
        pool.scale(3).await?;
        // and then the machines continue under their names, with their disks.
        plugin.output(&["adopt", "web"]).await?;
        pool.until(ready_replicas(3).and(no_condition("ReplicaFailure"))).await?;
        pool.holds(ready_replicas(3), SETTLE).await?;
        ensure!(machine_names(world).await? == before);
        // No guest restarts: the machines have the template of the pool, as their restored revision says.
        pool.holds(negate_condition(pool_event(restart_event(platform))), SETTLE).await?;
        if platform == TestedPlatform::Dvp {
            let disks = pool.disks().await?;
            ensure!(disks.len() == 3, "{disks:?}");
        }

        // It is a pool like any other.
        pool.scale(4).await?;
        pool.until(ready_replicas(4)).await?;
        pool.scale(1).await?;
        pool.until(ready_replicas(1)).await?;
        Ok(())
    });
}

/// The machines were not part of the backup.
#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_restored_pool_can_begin_without_its_former_machines(#[case] platform: TestedPlatform) {
    on(platform, "a restored pool begins without machines", async |world| {
        let pool = builder(world).ready().await?;
        let pool = restore(world, &pool, |object| object["kind"] == "VirtualMachinePool").await?;
        pool.until(pool_condition("Stalled", "True", "Blocked")).await?;
        let plugin = Plugin::of(world, "ada", &["cluster-admin"], None).await?;
        let refused = plugin.error(&["adopt", "web"]).await?;
        ensure!(refused.contains("--without-machines"), "{refused}");
        pool.holds(live_machine_count(0), SETTLE).await?;
        plugin.output(&["adopt", "web", "--without-machines"]).await?;
        pool.until(ready_replicas(3)).await?;
        Ok(())
    });
}
