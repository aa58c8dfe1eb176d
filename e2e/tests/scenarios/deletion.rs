//! Deleting pools.

use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::condition::{disk_count, negate_condition, pool_exists, ready_replicas};
use vmpool_e2e::world::{PoolDeletion, SETTLE};
use vmpool_invariants::object::TestedKind;

#[test]
fn a_pool_deleted_in_the_background_leaves_nothing() {
    define_scenario("a pool deleted in the background leaves nothing").run(async |world| {
        let pool = world.pool("web").replicas(3).ready().await?;
        pool.delete(PoolDeletion::Background).await?;
        pool.leaves_nothing().await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_foreground_deletion_deletes_the_pool_last() {
    define_scenario("a foreground deletion deletes the pool last").run(async |world| {
        let pool = world.pool("web").replicas(3).knob("stop-delay", "500ms").ready().await?;
        pool.delete(PoolDeletion::Foreground).await?;
        // No machine is created during the deletion.
        pool.until(negate_condition(pool_exists())).await?;
        pool.leaves_nothing().await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn an_orphaning_deletion_leaves_machines_and_disks_alone() {
    define_scenario("an orphaning deletion leaves machines and disks alone").run(async |world| {
        let pool = world.pool("web").replicas(2).ready().await?;
        let machines = pool.machines().await?;
        let disks = pool.disks().await?;
        pool.delete(PoolDeletion::Orphan).await?;
        pool.until(negate_condition(pool_exists())).await?;
        tokio::time::sleep(SETTLE).await;
        for machine in &machines {
            let now = world.get(TestedKind::Machine, machine.name()).await?;
            assert_eq!(now.uid(), machine.uid());
            assert!(!now.is_terminating(), "{} is terminating", now.name());
            assert_eq!(now.owner_uid(), "", "{} has an owner", now.name());
        }
        for disk in &disks {
            assert_eq!(world.get(TestedKind::Disk, disk.name()).await?.uid(), disk.uid());
        }
        // A new pool with the same name creates its own machines, and adopts none of the orphaned ones.
        let next = world.pool("web").replicas(2).ready().await?;
        for machine in next.machines().await? {
            assert!(machines.iter().all(|old| old.uid() != machine.uid()));
        }
        for machine in &machines {
            world.delete(machine).await?;
        }
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_new_pool_of_the_same_name_starts_at_once() {
    define_scenario("a new pool of the same name starts at once").run(async |world| {
        // Given a pool whose machines stop slowly,
        let old = world.pool("web").replicas(2).knob("stop-delay", "2s").ready().await?;
        // when it is deleted and created again at the same time,
        old.delete(PoolDeletion::Background).await?;
        let new = world.pool("web").replicas(2).create().await?;
        assert_ne!(old.uid(), new.uid());
        // then the new pool gets its own machines, and the old ones are deleted.
        new.until(ready_replicas(2).and(disk_count(2))).await?;
        new.holds(ready_replicas(2), SETTLE).await?;
        Ok::<_, anyhow::Error>(())
    });
}
