//! The shortest scenario, and a template for the others.

use std::time::Duration;

use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::condition::{disk_count, ready_replicas};
use vmpool_e2e::world::{PoolDeletion, SETTLE};

#[test]
fn a_pool_of_one_machine_is_created_and_deleted() {
    define_scenario("a pool of one machine is created and deleted").run(async |world| {
        // Given a pool of one running machine with its disk,
        let pool = world.pool("tiny").replicas(1).ready().await?;
        pool.until(disk_count(1)).await?;
        // when nothing changes,
        // then the machine stays ready.
        pool.holds(ready_replicas(1), SETTLE).await?;
        // When the pool is deleted,
        pool.delete(PoolDeletion::Background).await?;
        // then nothing remains of it.
        pool.leaves_nothing().await?;
        Ok(())
    });
}

#[test]
#[should_panic(expected = "it has not completed after ")]
fn a_scenario_that_waits_forever_fails() {
    let endless =
        define_scenario("a scenario that waits forever").controllers(0).within(Duration::from_secs(1));
    endless.run(async |_world| std::future::pending().await);
}
