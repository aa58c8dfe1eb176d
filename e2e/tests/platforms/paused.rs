//! Removals of machines by name from paused pools, which only KubeVirt has: on DVP, the rollout is paused.

use serde_json::json;
use vmpool_e2e::world::SETTLE;
use vmpool_e2e::world::condition::{
    has_machine, live_machine_count, negate_condition, pool_condition, ready_replicas,
};
use vmpool_invariants::platform::TestedPlatform;

use crate::on;
use crate::protected::exactly;

#[test]
fn a_paused_pool_removes_the_machines_that_a_user_names() {
    on(TestedPlatform::KubeVirt, "a paused pool removes machines by name", async |world| {
        let pool = world.pool("web").replicas(3).ready().await?;
        pool.edit(&json!({ "spec": { "paused": true } })).await?;
        pool.until(pool_condition("Ready", "True", "Paused")).await?;
        let all = pool.machines().await?;
        // The aggregated API deletes it, and the paused pool replaces none.
        pool.remove(&all[1..2]).await?;
        pool.until(negate_condition(has_machine(&all[1]))).await?;
        // A lower count alone removes none until the pool continues.
        pool.scale(1).await?;
        pool.holds(exactly(&[&all[0], &all[2]]), SETTLE).await?;
        pool.edit(&json!({ "spec": { "paused": false } })).await?;
        pool.until(live_machine_count(1).and(ready_replicas(1))).await?;
        Ok(())
    });
}
