//! Creates that the API server refuses: quota, admission.

use std::time::Duration;

use vmpool_e2e::object::Kind;
use vmpool_e2e::programs::Accounts;
use vmpool_e2e::scenario::scenario;
use vmpool_e2e::world::condition::{condition, event, members, no_condition, ready_replicas, status};

/// Writes that a controller may have under way, by default.
const IN_FLIGHT: usize = 64;

/// Refused creates of machines by the controller so far.
fn refused(world: &vmpool_e2e::world::World) -> anyhow::Result<usize> {
    let user = Accounts::controller_user();
    Ok(world
        .audit()?
        .iter()
        .filter(|entry| {
            entry.user == user && entry.verb == "create" && entry.resource == Kind::Machine.plural()
        })
        .filter(|entry| !entry.is_success())
        .count())
}

#[test]
fn a_full_quota_holds_a_pool_back_until_it_is_freed() {
    scenario("a full quota holds a pool back until it is freed").run(async |world| {
        // Given room for three machines,
        let quota = world.quota(Kind::Machine, 3).await?;
        // when a pool wants a hundred,
        let pool = world.pool("web").replicas(100).create().await?;
        // then it gets three, and says why not more,
        pool.until(
            members(3).and(condition("ReplicaFailure", "True", "FailedCreate")).and(event("FailedCreate")),
        )
        .await?;
        // without running against the wall: at most the requests that were in flight, then one per try.
        let first = refused(world)?;
        assert!(first <= IN_FLIGHT + 2, "{first} creates were refused at first");
        tokio::time::sleep(Duration::from_secs(4)).await;
        let more = refused(world)? - first;
        assert!(more <= 8, "{more} creates were refused in four seconds");
        // When there is room again and fewer are wanted, it goes on by itself.
        pool.scale(6).await?;
        quota.lift().await?;
        pool.until(ready_replicas(6).and(no_condition("ReplicaFailure"))).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_full_quota_of_disks_leaves_no_machine_without_its_disk() {
    scenario("a full quota of disks leaves no machine without its disk").run(async |world| {
        let quota = world.quota(Kind::Disk, 2).await?;
        let pool = world.pool("web").replicas(6).create().await?;
        pool.until(condition("ReplicaFailure", "True", "DiskFailure").and(event("FailedDisk"))).await?;
        // A machine and its disks are one unit: as long as one lacks its disk, no further machine is made.
        let stuck = pool.machines().await?.len();
        assert!((3..6).contains(&stuck) || stuck == 6, "{stuck} members");
        pool.holds(members(stuck), Duration::from_secs(2)).await?;
        quota.lift().await?;
        pool.until(ready_replicas(6).and(no_condition("ReplicaFailure"))).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_create_refused_by_admission_shows_in_event_and_condition() {
    scenario("a create refused by admission shows in event and condition").run(async |world| {
        let refusal = world.refuse_creates(Kind::Machine, "no machines on Sundays").await?;
        let pool = world.pool("web").replicas(2).create().await?;
        pool.until(condition("ReplicaFailure", "True", "FailedCreate").and(event("FailedCreate"))).await?;
        let message = pool.get().await?.condition("ReplicaFailure").cloned().unwrap_or_default();
        assert!(
            message["message"].as_str().unwrap_or_default().contains("no machines on Sundays"),
            "{message}"
        );
        pool.until(status("replicas", 0).and(condition("Available", "False", "InsufficientReadyReplicas")))
            .await?;
        refusal.lift().await?;
        pool.until(ready_replicas(2).and(no_condition("ReplicaFailure"))).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_disk_that_fails_to_provision_shows_and_the_pool_stays() {
    scenario("a disk that fails to provision is no reason to make more machines").run(async |world| {
        world.knob("fail-provisioning", "1").await?;
        let pool = world.pool("web").replicas(2).create().await?;
        pool.sees(condition("ReplicaFailure", "True", "DiskFailure")).await?;
        // The disk is replaced, and the machine stays.
        let replaced = members(2).and(status("readyReplicas", 2)).and(no_condition("ReplicaFailure"));
        pool.until_within(replaced, Duration::from_secs(60)).await?;
        pool.holds(members(2), Duration::from_secs(2)).await?;
        let created = world.audit()?.into_iter().filter(|entry| {
            let by_us = entry.user == Accounts::controller_user();
            by_us && entry.verb == "create" && entry.resource == Kind::Machine.plural() && entry.is_success()
        });
        assert_eq!(created.count(), 2, "no machine was made anew");
        Ok::<_, anyhow::Error>(())
    });
}
