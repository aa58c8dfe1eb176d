//! Deleting pools.

use anyhow::ensure;
use rstest::rstest;
use vmpool_api::kubevirt::labels;
use vmpool_e2e::world::condition::{
    PoolPredicate, disk_count, has_machine, negate_condition, pool_exists, ready_replicas,
};
use vmpool_e2e::world::{PoolDeletion, SETTLE};
use vmpool_invariants::object::{JsonObject, TestedKind, object_uids};
use vmpool_invariants::platform::TestedPlatform;

use crate::on;

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_deleted_pool_leaves_nothing(#[case] platform: TestedPlatform) {
    on(platform, "a deleted pool leaves nothing", async |world| {
        let builder = |name: &str| world.pool(name).disk(name).replicas(2).knob("stop-delay", "500ms");
        let (back, front) = tokio::try_join!(builder("back").ready(), builder("front").ready())?;
        back.delete(PoolDeletion::Background).await?;
        // The invariants include that no machine is created during the deletion.
        front.delete(PoolDeletion::Foreground).await?;
        back.leaves_nothing().await?;
        front.leaves_nothing().await?;
        Ok(())
    });
}

/// These machines run, without an owner and without what marks the machines of a pool of KubeVirt.
fn run_without_owner(machines: &[JsonObject]) -> PoolPredicate {
    let uids = object_uids(machines);
    let runs = |machine: &JsonObject| {
        machine.is_running()
            && !machine.is_terminating()
            && machine.owner_uid().is_empty()
            && !machine.has_pool_finalizer()
    };
    PoolPredicate::new("all machines run without an owner", move |view| {
        uids.iter().all(|uid| view.state.get(TestedKind::Machine, uid).is_some_and(runs))
    })
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn an_orphaning_deletion_leaves_machines_and_disks_alone(#[case] platform: TestedPlatform) {
    on(platform, "an orphaning deletion leaves machines and disks alone", async |world| {
        let pool = world.pool("web").disk("root").replicas(2).ready().await?;
        let (machines, disks) = (pool.machines().await?, pool.disks().await?);
        let mut guests = Vec::new();
        for machine in &machines {
            guests.push(world.guest_of(machine.name()).await?);
        }
        pool.delete(PoolDeletion::Orphan).await?;
        pool.until(negate_condition(pool_exists()).and(run_without_owner(&machines))).await?;
        pool.holds(run_without_owner(&machines), SETTLE).await?;
        for (machine, guest) in machines.iter().zip(&guests) {
            ensure!(world.guest_of(machine.name()).await? == *guest, "{} was restarted", machine.name());
        }
        for disk in &disks {
            ensure!(world.get(TestedKind::Disk, disk.name()).await?.uid() == disk.uid(), "{disk:?}");
        }
        // A new pool with the same name creates its own machines, and adopts none of the orphaned ones.
        let next = world.pool("web").replicas(2).ready().await?;
        for machine in next.machines().await? {
            ensure!(machines.iter().all(|old| old.uid() != machine.uid()), "{machine:?}");
        }
        // A user can delete them.
        for machine in &machines {
            world.delete(machine).await?;
            next.until(negate_condition(has_machine(machine))).await?;
        }
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_new_pool_of_the_same_name_starts_at_once(#[case] platform: TestedPlatform) {
    on(platform, "a new pool of the same name starts at once", async |world| {
        // Given a pool whose machines stop slowly,
        let old = world.pool("web").replicas(2).knob("stop-delay", "2s").ready().await?;
        let former = old.machines().await?;
        // when it is deleted, and created again with another template while they stop,
        old.delete(PoolDeletion::Background).await?;
        old.until(negate_condition(pool_exists())).await?;
        let new = world.pool("web").replicas(2).memory("1Gi").create().await?;
        ensure!(old.uid() != new.uid());
        // then the new pool gets its own machines, and the old ones are deleted.
        new.until(ready_replicas(2)).await?;
        if platform == TestedPlatform::Dvp {
            new.until(disk_count(2)).await?;
        }
        for machine in &former {
            new.until(negate_condition(has_machine(machine))).await?;
        }
        new.holds(ready_replicas(2), SETTLE).await?;
        for machine in new.machines().await? {
            ensure!(machine.memory() == "1Gi", "{} has the old template", machine.name());
            if let Some(revision) = machine.label(labels::REVISION) {
                let owner = "jsonpath={.metadata.ownerReferences[0].uid}";
                let owner = world.kubectl(&["get", "controllerrevisions", revision, "-o", owner]).await?;
                ensure!(owner == new.uid(), "a revision of the former pool: {owner}");
            }
        }
        Ok(())
    });
}
