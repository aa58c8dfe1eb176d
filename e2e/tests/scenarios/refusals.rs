//! Creates that the API server refuses because of a quota or admission.

use std::time::Duration;

use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::condition::{
    machine_count, no_condition, pool_condition, pool_event, ready_replicas, status_number,
};
use vmpool_installation::programs::Accounts;
use vmpool_invariants::object::TestedKind;

/// Number of refused creates of machines by the controller so far.
fn refused(world: &vmpool_e2e::world::ScenarioWorld) -> anyhow::Result<usize> {
    let user = Accounts::controller_user();
    Ok(world
        .audit()?
        .iter()
        .filter(|entry| {
            entry.user == user && entry.verb == "create" && entry.resource == TestedKind::Machine.plural()
        })
        .filter(|entry| !entry.is_success())
        .count())
}

#[test]
fn a_full_quota_limits_a_pool_until_it_is_raised() {
    define_scenario("a full quota limits a pool until it is raised").run(async |world| {
        // Given a quota of three machines,
        let quota = world.quota(TestedKind::Machine, 3).await?;
        // when a pool desires a hundred machines,
        let pool = world.pool("web").replicas(100).create().await?;
        // then it gets three, and its condition explains why,
        pool.until(
            machine_count(3)
                .and(pool_condition("ReplicaFailure", "True", "FailedCreate"))
                .and(pool_event("FailedCreate")),
        )
        .await?;
        // with few refused requests: at first at most one more than the accepted ones, then one per retry.
        let first = refused(world)?;
        assert!(first <= 4 + 2, "{first} creates were refused at first");
        tokio::time::sleep(Duration::from_secs(4)).await;
        let more = refused(world)? - first;
        assert!(more <= 8, "{more} creates were refused in four seconds");
        // When the quota allows more and fewer machines are desired, the controller continues.
        pool.scale(6).await?;
        quota.lift().await?;
        pool.until(ready_replicas(6).and(no_condition("ReplicaFailure"))).await?;
        Ok::<_, anyhow::Error>(())
    });
}

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
fn a_create_refused_by_admission_shows_in_event_and_condition() {
    define_scenario("a create refused by admission appears in event and condition").run(async |world| {
        let refusal = world.refuse_creates(TestedKind::Machine, "no machines on Sundays").await?;
        let pool = world.pool("web").replicas(2).create().await?;
        pool.until(pool_condition("ReplicaFailure", "True", "FailedCreate").and(pool_event("FailedCreate")))
            .await?;
        let message = pool.get().await?.condition("ReplicaFailure").cloned().unwrap_or_default();
        assert!(
            message["message"].as_str().unwrap_or_default().contains("no machines on Sundays"),
            "{message}"
        );
        pool.until(status_number("replicas", 0).and(pool_condition(
            "Available",
            "False",
            "InsufficientReadyReplicas",
        )))
        .await?;
        refusal.lift().await?;
        pool.until(ready_replicas(2).and(no_condition("ReplicaFailure"))).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_disk_that_fails_to_provision_is_reported_and_causes_no_further_machines() {
    define_scenario("a disk that fails to provision does not cause more machines").run(async |world| {
        world.knob("fail-provisioning", "1").await?;
        let pool = world.pool("web").replicas(2).create().await?;
        pool.sees(pool_condition("ReplicaFailure", "True", "DiskFailure")).await?;
        // The disk is replaced, and the machine stays.
        let replaced =
            machine_count(2).and(status_number("readyReplicas", 2)).and(no_condition("ReplicaFailure"));
        pool.until_within(replaced, Duration::from_mins(1)).await?;
        pool.holds(machine_count(2), Duration::from_secs(2)).await?;
        let created = world.audit()?.into_iter().filter(|entry| {
            let by_us = entry.user == Accounts::controller_user();
            by_us
                && entry.verb == "create"
                && entry.resource == TestedKind::Machine.plural()
                && entry.is_success()
        });
        assert_eq!(created.count(), 2, "no further machine was created");
        Ok::<_, anyhow::Error>(())
    });
}
