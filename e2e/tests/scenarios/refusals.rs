//! Disks that the API server refuses, or that the platform does not provision.

use std::time::Duration;

use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::condition::{
    machine_count, no_condition, pool_condition, pool_event, ready_replicas, status_number,
};
use vmpool_invariants::object::TestedKind;

#[test]
fn a_full_quota_of_disks_leaves_no_machine_without_its_disk() {
    define_scenario("a full quota of disks leaves no machine without its disk").run(async |world| {
        let quota = world.quota(TestedKind::Disk, 2).await?;
        let pool = world.pool("web").replicas(6).create().await?;
        pool.until(pool_condition("ReplicaFailure", "True", "DiskFailure").and(pool_event("FailedDisk")))
            .await?;
        // A machine and its disks are created together: while one lacks its disk, the controller creates no
        // further machine.
        let stuck = pool.machines().await?.len();
        assert!((3..6).contains(&stuck) || stuck == 6, "{stuck} machines");
        pool.holds(machine_count(stuck), Duration::from_secs(2)).await?;
        quota.lift().await?;
        pool.until(ready_replicas(6).and(no_condition("ReplicaFailure"))).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_disk_that_fails_to_provision_is_reported_and_causes_no_further_machines() {
    define_scenario("a disk that fails to provision does not cause more machines").run(async |world| {
        // One of the disks fails twice: on a busy machine, the pause after a first failure can end before the
        // status shows it.
        world.knob("fail-provisioning", "3").await?;
        let pool = world.pool("web").replicas(2).create().await?;
        pool.sees(pool_condition("ReplicaFailure", "True", "DiskFailure")).await?;
        // The disk is replaced, and the machine stays.
        let replaced =
            machine_count(2).and(status_number("readyReplicas", 2)).and(no_condition("ReplicaFailure"));
        pool.until_within(replaced, Duration::from_mins(1)).await?;
        pool.holds(machine_count(2), Duration::from_secs(2)).await?;
        let created = world.controller_writes(TestedKind::Machine)?;
        let created = created.iter().filter(|entry| entry.verb == "create").count();
        assert_eq!(created, 2, "no further machine was created");
        Ok::<_, anyhow::Error>(())
    });
}
