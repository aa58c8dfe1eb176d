//! Manual edits of machines and disks lose no data.

use std::time::Duration;

use serde_json::{Value, json};
use vmpool_api::{annotations, labels};
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::condition::{
    PoolPredicate, disk_count, machine_count, pool_condition, pool_event, ready_replicas,
};
use vmpool_e2e::world::{PoolHandle, SETTLE, ScenarioWorld};
use vmpool_invariants::object::{JsonObject, TestedKind};

/// Timeout of a repair, which consists of several steps of the controller and the platform.
const PATIENCE: Duration = Duration::from_mins(1);

/// The disk of template `cache` that a machine refers to.
async fn cache_of(pool: &PoolHandle<'_>, machine: &JsonObject) -> anyhow::Result<JsonObject> {
    let disks = pool.disks().await?.into_iter();
    let mut caches = disks.filter(|disk| disk.label(labels::DISK_TEMPLATE) == Some("cache"));
    let has = |disk: &JsonObject| machine.disk_references().any(|name| name == disk.name());
    Ok(caches.find(has).expect("each machine has one"))
}

/// Changes the devices of a machine as a user.
async fn refer(
    world: &ScenarioWorld,
    machine: &JsonObject,
    edit: impl FnOnce(&mut Vec<Value>),
) -> anyhow::Result<()> {
    let mut devices = machine.at("/spec/blockDeviceRefs").as_array().cloned().unwrap_or_default();
    edit(&mut devices);
    let patch = json!({ "spec": { "blockDeviceRefs": devices } });
    world.patch(TestedKind::Machine, machine.name(), &patch).await?;
    Ok(())
}

/// The machine runs and refers to exactly these disks.
fn on(machine: &JsonObject, disks: Vec<String>) -> PoolPredicate {
    let name = machine.name().to_owned();
    PoolPredicate::new(format!("{name} on {disks:?}"), move |view| {
        let refers = |machine: &&JsonObject| machine.disk_references().eq(disks.iter().map(String::as_str));
        view.live().any(|machine| machine.name() == name && machine.is_running() && refers(&machine))
    })
}

fn references(machine: &JsonObject) -> Vec<String> {
    machine.disk_references().map(str::to_owned).collect()
}

#[test]
fn two_machines_edited_to_share_a_disk_get_their_own_disks_back() {
    define_scenario("two machines edited to share a disk").run(async |world| {
        // Given two running machines, each with its own cache,
        let pool = world.pool("web").replicas(2).disk("root").retained("cache", 0, "10m").ready().await?;
        let (first, second) = (pool.machine(0).await?, pool.machine(1).await?);
        let shared = cache_of(&pool, &first).await?;
        // when a user replaces the cache of the second one by the cache of the first one,
        refer(world, &second, |devices| devices[1]["name"] = json!(shared.name())).await?;
        // then the second one gets its own cache back,
        let own = on(&second, references(&second)).and(on(&first, references(&first)));
        pool.until_within(pool_event("DiskDetached").and(own.clone()), PATIENCE).await?;
        // and when a user adds the disk to the devices of the second one, the device is removed.
        let added = json!({ "kind": "VirtualDisk", "name": shared.name() });
        refer(world, &second, |devices| devices.push(added)).await?;
        pool.until_within(own.and(pool_condition("Synced", "True", "PoolSynced")), PATIENCE).await?;
        pool.holds(disk_count(4).and(ready_replicas(2)), SETTLE).await?;
        let now = pool.machine(0).await?;
        assert_eq!(now.at("/spec"), first.at("/spec"), "the machine that uses the disk was not changed");
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_manually_detached_disk_is_kept_until_its_machine_is_removed() {
    define_scenario("a manually detached disk is kept despite its ttl").run(async |world| {
        let pool = world.pool("web").replicas(1).disk("root").retained("cache", 0, "1s").ready().await?;
        let machine = pool.machine(0).await?;
        let cache = cache_of(&pool, &machine).await?;
        let root: Vec<String> =
            references(&machine).into_iter().filter(|disk| disk != cache.name()).collect();
        // When a user detaches the cache of a running machine,
        refer(world, &machine, |devices| devices.retain(|device| device["name"] != cache.name())).await?;
        // then the pool reports it, does not attach the cache again, and keeps it.
        let told =
            pool_condition("Synced", "False", "DiskDetachedByHand").and(pool_event("DiskDetachedByHand"));
        pool.until(told.clone()).await?;
        let synced = pool.get().await?.condition("Synced").cloned().unwrap_or_default();
        let message = synced["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains(cache.name()) && message.contains(machine.name()), "{message}");
        pool.holds(told.and(disk_count(2)).and(on(&machine, root)), Duration::from_secs(8)).await?;
        // The user can attach it again,
        let stripped = world.get(TestedKind::Machine, machine.name()).await?;
        let device = json!({ "kind": "VirtualDisk", "name": cache.name() });
        refer(world, &stripped, |devices| devices.push(device)).await?;
        pool.until(pool_condition("Synced", "True", "PoolSynced")).await?;
        refer(world, &stripped, |_| {}).await?;
        pool.until(pool_condition("Synced", "False", "DiskDetachedByHand")).await?;
        // and when the machine is removed, the disk is free and is deleted.
        pool.scale(0).await?;
        pool.until_within(machine_count(0).and(disk_count(0)), Duration::from_secs(90)).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn an_implausible_time_in_the_annotation_deletes_no_disk() {
    define_scenario("an implausible time in the annotation deletes no disk").run(async |world| {
        let pool = world.pool("web").replicas(1).disk("root").retained("cache", 0, "10m").ready().await?;
        pool.scale(0).await?;
        let stamped = PoolPredicate::new("a free cache", |view| {
            view.disks().iter().any(|disk| disk.annotation(annotations::FREE_SINCE).is_some())
        });
        pool.until(machine_count(0).and(disk_count(1)).and(stamped)).await?;
        for stamp in ["0001-01-01T00:00:00Z", "2001-01-01T00:00:00Z", "2999-01-01T00:00:00Z"] {
            let disk = pool.disks().await?.remove(0);
            let patch = json!({ "metadata": { "annotations": { annotations::FREE_SINCE: stamp } } });
            world.patch(TestedKind::Disk, disk.name(), &patch).await?;
            let corrected = PoolPredicate::new(format!("{stamp} is corrected"), move |view| {
                let stamps =
                    || view.disks().into_iter().filter_map(|disk| disk.annotation(annotations::FREE_SINCE));
                stamps().count() == 1 && stamps().all(|now| now != stamp)
            });
            pool.until(corrected).await?;
        }
        pool.holds(disk_count(1), Duration::from_secs(4)).await?;
        Ok::<_, anyhow::Error>(())
    });
}
