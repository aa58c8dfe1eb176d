//! A pool comes up, is scaled, and goes.

use std::collections::BTreeSet;

use serde_json::json;
use vmpool_e2e::object::Object;
use vmpool_e2e::scenario::scenario;
use vmpool_e2e::world::condition::{
    condition, disks, event, live_members, members, no_condition, ready_replicas, status,
};
use vmpool_e2e::world::{Policy, SETTLE};

fn uids(objects: &[Object]) -> BTreeSet<String> {
    objects.iter().map(|object| object.uid().to_owned()).collect()
}

#[test]
fn a_pool_of_tiny_machines_converges_scales_and_goes() {
    scenario("a pool of tiny machines converges, scales and goes").run(async |world| {
        // Given a pool of two tiny machines, each with a root disk of its own,
        let pool = world.pool("web").replicas(2).ready().await?;
        let before = pool.machines().await?;
        for machine in &before {
            let disk = format!("{}-root", machine.name());
            let references: Vec<&str> = machine.disk_references().collect();
            assert_eq!(references, [disk.as_str()], "the placeholder was resolved before the create");
            let disk = world.get(vmpool_e2e::object::Kind::Disk, &disk).await?;
            assert_eq!(disk.owner_uid(), machine.uid());
        }
        // when it is scaled to three,
        pool.scale(3).await?;
        pool.until(ready_replicas(3).and(disks(3))).await?;
        // then the first two are still there,
        let three = uids(&pool.machines().await?);
        assert!(uids(&before).is_subset(&three), "growing replaces nobody");
        // and after scaling to one, one of the machines is left, with its disk.
        pool.scale(1).await?;
        pool.until(ready_replicas(1).and(disks(1))).await?;
        assert!(uids(&pool.machines().await?).is_subset(&three), "shrinking makes nobody new");
        pool.until(condition("Available", "True", "AllReplicasReady").and(no_condition("Progressing")))
            .await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_pool_goes_to_zero_and_comes_back_with_new_names() {
    scenario("a pool goes to zero and comes back").run(async |world| {
        let pool = world.pool("web").replicas(2).ready().await?;
        let names = |machines: Vec<Object>| -> BTreeSet<String> {
            machines.iter().map(|machine| machine.name().to_owned()).collect()
        };
        let before = names(pool.machines().await?);
        pool.scale(0).await?;
        pool.until(ready_replicas(0).and(members(0)).and(disks(0))).await?;
        pool.until(condition("Available", "True", "AllReplicasReady")).await?;
        pool.scale_by_api(2).await?;
        pool.until(ready_replicas(2)).await?;
        assert!(before.is_disjoint(&names(pool.machines().await?)), "a name does not return");
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn the_newest_leave_first() {
    scenario("the newest leave first").run(async |world| {
        let pool = world.pool("web").replicas(1).ready().await?;
        let oldest = pool.machine(0).await?;
        // Creation times have whole seconds.
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
fn the_oldest_leave_first() {
    scenario("the oldest leave first").run(async |world| {
        let pool = world.pool("web").policy(Policy::OldestFirst).replicas(2).ready().await?;
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
fn an_explicit_pool_never_shrinks_by_itself() {
    scenario("an Explicit pool never shrinks by itself").run(async |world| {
        // Given an Explicit pool of three,
        let pool = world.pool("runners").policy(Policy::Explicit).replicas(3).ready().await?;
        // when its count is lowered,
        pool.edit(&json!({ "spec": { "replicas": 1 } })).await?;
        // then nobody leaves, and the pool says what to do about it.
        pool.until(status("readyReplicas", 3).and(condition("Progressing", "True", "ReplicasProgressing")))
            .await?;
        pool.holds(live_members(3), SETTLE).await?;
        let message = pool.get().await?.condition("Progressing").cloned().unwrap_or_default();
        let message = message["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains("by name"), "{message}");
        // A machine that somebody deletes by hand is not replaced while there are too many.
        world.delete(&pool.machine(0).await?).await?;
        pool.until(ready_two_of_surplus()).await?;
        pool.holds(members(2), SETTLE).await?;
        Ok::<_, anyhow::Error>(())
    });
}

fn ready_two_of_surplus() -> vmpool_e2e::world::condition::Condition {
    members(2).and(status("replicas", 2))
}

#[test]
fn two_disks_per_machine_and_events_for_people() {
    scenario("two disks per machine, and events for people").run(async |world| {
        let pool = world.pool("web").disk("root").disk("data").replicas(2).ready().await?;
        pool.until(disks(4).and(event("SuccessfulCreate"))).await?;
        for machine in pool.machines().await? {
            let references: Vec<String> = machine.disk_references().map(str::to_owned).collect();
            assert_eq!(references, [format!("{}-root", machine.name()), format!("{}-data", machine.name())]);
        }
        pool.scale(1).await?;
        pool.until(ready_replicas(1).and(disks(2)).and(event("SuccessfulDelete"))).await?;
        Ok::<_, anyhow::Error>(())
    });
}
