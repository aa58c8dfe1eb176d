//! A pool, its machines and their disks are dumped, deleted and applied again, as backup tools do it: with new UIDs and without
//! status, owners and finalizers.

use anyhow::{Context, Result, ensure};
use rstest::rstest;
use serde_json::Value;
use vmpool_e2e::world::condition::{condition, event, live_members, no_condition, not, ready_replicas};
use vmpool_e2e::world::{Deletion, Policy, Pool, SETTLE, World};
use vmpool_invariants::platform::PlatformName;
use vmpool_test_cluster::control_plane::apply;

use crate::on;
use crate::plugin::Plugin;

/// What a backup of the namespace contains, in the order in which tools restore it.
fn resources(platform: PlatformName) -> &'static [&'static str] {
    match platform {
        PlatformName::Dvp => &[
            "controllerrevisions.apps",
            "virtualdisks.virtualization.deckhouse.io",
            "virtualmachinepools.virtualization.deckhouse.io",
            "virtualmachines.virtualization.deckhouse.io",
        ],
        PlatformName::KubeVirt => &[
            "persistentvolumeclaims",
            "controllerrevisions.apps",
            "datavolumes.cdi.kubevirt.io",
            "virtualmachinepools.pool.kubevirt.io",
            "virtualmachines.kubevirt.io",
        ],
    }
}

/// The objects of the namespace without what a backup tool drops.
async fn dump(world: &World) -> Result<Vec<Value>> {
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
async fn machine_names(world: &World) -> Result<Vec<String>> {
    let resource = resources(world.platform()).last().context("no resources")?;
    let machines = world.kubectl(&["get", resource, "-o", "name"]).await?;
    Ok(machines.lines().map(str::to_owned).collect())
}

/// Dumps the namespace, deletes the pool with all its objects, and applies the objects of the dump that are wanted.
async fn restore<'w>(
    world: &'w World,
    pool: &Pool<'w>,
    is_wanted: impl Fn(&Value) -> bool,
) -> Result<Pool<'w>> {
    let mut dumped = dump(world).await?;
    dumped.retain(is_wanted);
    pool.delete(Deletion::Background).await?;
    pool.leaves_nothing().await?;
    apply(&world.client(), &dumped, Some(world.namespace())).await?;
    Ok(world.existing("web").await?)
}

fn builder(world: &World) -> vmpool_e2e::world::PoolBuilder<'_> {
    world.pool("web").policy(Policy::NewestFirst).disk("root").replicas(3)
}

/// The event of a machine that gets another template.
fn restart_event(platform: PlatformName) -> &'static str {
    match platform {
        PlatformName::Dvp => "TemplateApplied",
        PlatformName::KubeVirt => "SuccessfulUpdate",
    }
}

#[rstest]
#[case::dvp(PlatformName::Dvp)]
#[case::kubevirt(PlatformName::KubeVirt)]
fn a_restored_pool_waits_and_then_adopts_its_restored_machines(#[case] platform: PlatformName) {
    on(platform, "a restored pool adopts its machines", async |world| {
        let pool = builder(world).ready().await?;
        let before = machine_names(world).await?;
        ensure!(before.len() == 3, "{before:?}");
        let pool = restore(world, &pool, |_| true).await?;

        // The controller creates no machine beside the restored ones, and says what to do.
        pool.until(condition("Stalled", "True", "Blocked")).await?;
        let stalled = pool.get().await?.condition("Stalled").context("no condition")?.clone();
        ensure!(
            stalled["message"].as_str().is_some_and(|text| text.contains("kubectl vmpool adopt web")),
            "{stalled}"
        );
        pool.holds(live_members(0), SETTLE).await?;
        ensure!(machine_names(world).await? == before);

        // A dry run changes nothing;
        let plugin = Plugin::of(world, "ada", &["cluster-admin"], None).await?;
        let dry = plugin.output(&["adopt", "web", "--dry-run"]).await?;
        ensure!(before.iter().all(|name| dry.contains(name.split('/').nth(1).unwrap_or_default())), "{dry}");
        pool.holds(live_members(0), SETTLE).await?;
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
        pool.holds(not(event(restart_event(platform))), SETTLE).await?;
        if platform == PlatformName::Dvp {
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
#[case::dvp(PlatformName::Dvp)]
#[case::kubevirt(PlatformName::KubeVirt)]
fn a_restored_pool_can_begin_without_its_former_machines(#[case] platform: PlatformName) {
    on(platform, "a restored pool begins without machines", async |world| {
        let pool = builder(world).ready().await?;
        let pool = restore(world, &pool, |object| object["kind"] == "VirtualMachinePool").await?;
        pool.until(condition("Stalled", "True", "Blocked")).await?;
        let plugin = Plugin::of(world, "ada", &["cluster-admin"], None).await?;
        let refused = plugin.error(&["adopt", "web"]).await?;
        ensure!(refused.contains("--without-machines"), "{refused}");
        pool.holds(live_members(0), SETTLE).await?;
        plugin.output(&["adopt", "web", "--without-machines"]).await?;
        pool.until(ready_replicas(3)).await?;
        Ok(())
    });
}
