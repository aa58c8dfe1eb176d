//! Scale-up and scale-down of a pool.

use std::collections::BTreeSet;

use serde_json::json;
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::condition::{
    disk_count, live_machine_count, machine_count, no_condition, pool_condition, pool_event, ready_replicas,
    status_number,
};
use vmpool_e2e::world::{PoolScaleDownPolicy, SETTLE};
use vmpool_invariants::object::JsonObject;

fn uids(objects: &[JsonObject]) -> BTreeSet<String> {
    objects.iter().map(|object| object.uid().to_owned()).collect()
}

#[test]
fn a_pool_converges_scales_and_is_deleted() {
    define_scenario("a pool converges, scales and is deleted").run(async |world| {
        // Given a pool of two small machines, each with its own root disk,
        let pool = world.pool("web").replicas(2).ready().await?;
        let before = pool.machines().await?;
        for machine in &before {
            let disk = format!("{}-root", machine.name());
            let references: Vec<&str> = machine.disk_references().collect();
            assert_eq!(references, [disk.as_str()], "the machine was created with the name of its disk");
            let disk = world.get(vmpool_invariants::object::TestedKind::Disk, &disk).await?;
            assert_eq!(disk.owner_uid(), machine.uid());
        }
        // when it is scaled to three,
        pool.scale(3).await?;
        pool.until(ready_replicas(3).and(disk_count(3))).await?;
        // then the first two still exist,
        let three = uids(&pool.machines().await?);
        assert!(uids(&before).is_subset(&three), "a scale-up replaces no machine");
        // and after a scale-down to one, one machine remains with its disk.
        pool.scale(1).await?;
        pool.until(ready_replicas(1).and(disk_count(1))).await?;
        assert!(uids(&pool.machines().await?).is_subset(&three), "a scale-down creates no machine");
        pool.until(pool_condition("Available", "True", "AllReplicasReady").and(no_condition("Progressing")))
            .await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_pool_scaled_up_from_zero_has_new_names() {
    define_scenario("a pool is scaled to zero and up again").run(async |world| {
        let pool = world.pool("web").replicas(2).ready().await?;
        let names = |machines: Vec<JsonObject>| -> BTreeSet<String> {
            machines.iter().map(|machine| machine.name().to_owned()).collect()
        };
        let before = names(pool.machines().await?);
        pool.scale(0).await?;
        pool.until(ready_replicas(0).and(machine_count(0)).and(disk_count(0))).await?;
        pool.until(pool_condition("Available", "True", "AllReplicasReady")).await?;
        pool.scale_by_api(2).await?;
        pool.until(ready_replicas(2)).await?;
        assert!(before.is_disjoint(&names(pool.machines().await?)), "a name is not reused");
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn scale_down_removes_newest_first() {
    define_scenario("scale-down removes the newest first").run(async |world| {
        let pool = world.pool("web").replicas(1).ready().await?;
        let oldest = pool.machine(0).await?;
        // Creation timestamps have a resolution of one second.
        tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
        pool.scale(3).await?;
        pool.until(ready_replicas(3)).await?;
        pool.scale(1).await?;
        pool.until(ready_replicas(1)).await?;
        assert_eq!(pool.machine(0).await?.uid(), oldest.uid());
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn scale_down_removes_oldest_first() {
    define_scenario("scale-down removes the oldest first").run(async |world| {
        let pool = world.pool("web").policy(PoolScaleDownPolicy::OldestFirst).replicas(2).ready().await?;
        let old = uids(&pool.machines().await?);
        tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
        pool.scale(3).await?;
        pool.until(ready_replicas(3)).await?;
        pool.scale(1).await?;
        pool.until(ready_replicas(1)).await?;
        assert!(uids(&pool.machines().await?).is_disjoint(&old));
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn an_explicit_pool_keeps_surplus_machines() {
    define_scenario("an Explicit pool keeps surplus machines").run(async |world| {
        // Given an Explicit pool of three machines,
        let pool = world.pool("runners").policy(PoolScaleDownPolicy::Explicit).replicas(3).ready().await?;
        // when `replicas` is lowered,
        pool.edit(&json!({ "spec": { "replicas": 1 } })).await?;
        // then no machine is removed, and the condition says what to do.
        pool.until(status_number("readyReplicas", 3).and(pool_condition(
            "Progressing",
            "True",
            "ReplicasProgressing",
        )))
        .await?;
        pool.holds(live_machine_count(3), SETTLE).await?;
        let message = pool.get().await?.condition("Progressing").cloned().unwrap_or_default();
        let message = message["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains("by name"), "{message}");
        // A machine that a user deletes is not replaced while there is a surplus.
        world.delete(&pool.machine(0).await?).await?;
        pool.until(ready_two_of_surplus()).await?;
        pool.holds(machine_count(2), SETTLE).await?;
        Ok::<_, anyhow::Error>(())
    });
}

fn ready_two_of_surplus() -> vmpool_e2e::world::condition::PoolPredicate {
    machine_count(2).and(status_number("replicas", 2))
}

#[test]
fn machines_can_have_two_disks_and_pools_get_events() {
    define_scenario("two disks per machine, and events").run(async |world| {
        let pool = world.pool("web").disk("root").disk("data").replicas(2).ready().await?;
        pool.until(disk_count(4).and(pool_event("SuccessfulCreate"))).await?;
        for machine in pool.machines().await? {
            let references: Vec<String> = machine.disk_references().map(str::to_owned).collect();
            assert_eq!(references, [format!("{}-root", machine.name()), format!("{}-data", machine.name())]);
        }
        pool.scale(1).await?;
        pool.until(ready_replicas(1).and(disk_count(2)).and(pool_event("SuccessfulDelete"))).await?;
        Ok::<_, anyhow::Error>(())
    });
}
