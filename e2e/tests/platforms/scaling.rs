//! Scale-up and scale-down of a pool.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use rstest::rstest;
use serde_json::json;
use vmpool_e2e::world::condition::{
    desired_replicas, disk_count, machine_count, no_condition, pool_condition, pool_event, pool_is_ready,
    ready_replicas,
};
use vmpool_e2e::world::{PoolHandle, PoolScaleDownPolicy, ScenarioWorld};
use vmpool_invariants::object::{JsonObject, TestedKind, object_uids};
use vmpool_invariants::platform::TestedPlatform;

use crate::on;

fn uids(machines: &[JsonObject]) -> BTreeSet<String> {
    object_uids(machines).into_iter().collect()
}

fn names(machines: &[JsonObject]) -> BTreeSet<String> {
    machines.iter().map(|machine| machine.name().to_owned()).collect()
}

/// The name of the disk that a machine of pool `web` has from a template.
fn disk_name(platform: TestedPlatform, machine: &JsonObject, template: &str) -> String {
    match platform {
        TestedPlatform::Dvp => format!("{}-{template}", machine.name()),
        TestedPlatform::KubeVirt => machine.name().replacen("web", template, 1),
    }
}

/// Each machine has its own disks.
async fn check_disks(world: &ScenarioWorld, pool: &PoolHandle<'_>) -> Result<()> {
    for machine in pool.machines().await? {
        let expected = ["root", "data"].map(|template| disk_name(world.platform(), &machine, template));
        let disks: Vec<&str> = machine.disk_references().collect();
        ensure!(disks == expected, "{} has the disks {disks:?}", machine.name());
        for disk in disks {
            let disk = world.get(TestedKind::Disk, disk).await?;
            ensure!(disk.owner_uid() == machine.uid(), "{disk:?}");
        }
    }
    Ok(())
}

/// The pool says that it has all machines.
async fn until_complete(pool: &PoolHandle<'_>, platform: TestedPlatform) -> Result<()> {
    pool.until(pool_is_ready()).await?;
    if platform == TestedPlatform::Dvp {
        let available = pool_condition("Available", "True", "AllReplicasReady");
        pool.until(available.and(no_condition("Progressing"))).await?;
    }
    Ok(())
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_pool_converges_and_scales_to_zero_and_up_again(#[case] platform: TestedPlatform) {
    on(platform, "a pool converges, and scales to zero and up again", async |world| {
        // Given a pool of two machines with two disks each,
        let pool = world.pool("web").policy(PoolScaleDownPolicy::NewestFirst).disk("root").disk("data");
        let pool = pool.replicas(2).ready().await?;
        let before = uids(&pool.machines().await?);
        check_disks(world, &pool).await?;
        // when it is scaled to three,
        pool.scale(3).await?;
        pool.until(ready_replicas(3).and(disk_count(6)).and(pool_event("SuccessfulCreate"))).await?;
        // then the first two still exist, and each machine has cost one write.
        let three = pool.machines().await?;
        ensure!(before.is_subset(&uids(&three)), "a scale-up replaced a machine");
        check_disks(world, &pool).await?;
        let writes = world.controller_writes(TestedKind::Machine)?;
        ensure!(writes.len() == 3 && writes.iter().all(|entry| entry.verb == "create"), "{writes:?}");
        // When it is scaled down to one, then one machine remains with its disks.
        pool.scale(1).await?;
        pool.until(ready_replicas(1).and(disk_count(2)).and(pool_event("SuccessfulDelete"))).await?;
        ensure!(uids(&pool.machines().await?).is_subset(&uids(&three)), "a scale-down created a machine");
        until_complete(&pool, platform).await?;
        // When it is scaled to zero, then nothing remains,
        pool.scale(0).await?;
        pool.until(ready_replicas(0).and(machine_count(0)).and(disk_count(0))).await?;
        until_complete(&pool, platform).await?;
        // and it is scaled up again: on DVP with new names, on KubeVirt from the first ordinal.
        pool.scale_by_api(2).await?;
        pool.until(ready_replicas(2)).await?;
        let again = names(&pool.machines().await?);
        match platform {
            TestedPlatform::Dvp => ensure!(again.is_disjoint(&names(&three)), "{again:?} are used again"),
            TestedPlatform::KubeVirt => {
                ensure!(again.iter().eq(["web-0", "web-1"]), "the names are {again:?}");
            }
        }
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_scale_down_removes_machines_in_the_order_of_its_policy(#[case] platform: TestedPlatform) {
    on(platform, "a scale-down removes machines in the order of its policy", async |world| {
        let newest =
            world.pool("newest").policy(PoolScaleDownPolicy::NewestFirst).replicas(1).ready().await?;
        let oldest =
            world.pool("oldest").policy(PoolScaleDownPolicy::OldestFirst).replicas(2).ready().await?;
        let (first, old) = (uids(&newest.machines().await?), uids(&oldest.machines().await?));
        for pool in [&newest, &oldest] {
            pool.until_next_are_younger().await?;
            pool.scale(3).await?;
            pool.until(ready_replicas(3)).await?;
            pool.scale(1).await?;
            pool.until(ready_replicas(1)).await?;
        }
        ensure!(uids(&newest.machines().await?) == first, "the oldest machine was removed");
        ensure!(uids(&oldest.machines().await?).is_disjoint(&old), "the newest machine was removed");
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn the_last_count_of_an_autoscaler_or_a_user_is_reached(#[case] platform: TestedPlatform) {
    on(platform, "the last count of an autoscaler or a user is reached", async |world| {
        let pool = world.pool("web").replicas(2).ready().await?;
        // An autoscaler writes the scale, and a user the pool, both while the controller acts.
        let autoscaler = async {
            for replicas in [6, 3, 7, 1, 5, 2, 8, 4, 6, 3] {
                pool.scale_by_api(replicas).await?;
            }
            Ok::<_, anyhow::Error>(())
        };
        let user = async {
            for replicas in [1, 8, 2, 9, 4, 7, 3, 5, 1, 6] {
                pool.edit(&json!({ "spec": { "replicas": replicas } })).await?;
            }
            Ok(())
        };
        tokio::try_join!(autoscaler, user)?;
        pool.scale_by_api(3).await?;
        pool.until(ready_replicas(3).and(desired_replicas(3))).await?;
        Ok(())
    });
}
