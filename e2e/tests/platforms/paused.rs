//! Paused pools, which only KubeVirt has: on DVP, the rollout is paused.

use anyhow::ensure;
use serde_json::json;
use vmpool_e2e::world::SETTLE;
use vmpool_e2e::world::condition::{
    has_machine, live_machine_count, negate_condition, pool_condition, pool_is_ready, ready_replicas,
};
use vmpool_invariants::platform::TestedPlatform;

use crate::on;
use crate::protected::exactly;

#[test]
fn a_paused_pool_changes_nothing_but_lets_deleted_machines_go() {
    on(TestedPlatform::KubeVirt, "a paused pool changes nothing", async |world| {
        let pool = world.pool("web").replicas(3).ready().await?;
        pool.edit(&json!({ "spec": { "paused": true } })).await?;
        let paused = pool_condition("ReplicaPaused", "True", "SuccessfulPaused");
        pool.until(paused.clone().and(pool_condition("Ready", "True", "Paused"))).await?;
        let all = pool.machines().await?;
        // When a user names a machine, then the aggregated API deletes it, and the paused pool replaces none.
        pool.remove(&all[1..2]).await?;
        pool.until(negate_condition(has_machine(&all[1]))).await?;
        // A lower count alone removes none until the pool continues.
        pool.scale(1).await?;
        pool.holds(exactly(&[&all[0], &all[2]]), SETTLE).await?;
        pool.edit(&json!({ "spec": { "paused": false } })).await?;
        pool.until(live_machine_count(1).and(ready_replicas(1))).await?;
        // A higher count creates none, and a machine that a user deletes goes, and is not replaced.
        pool.edit(&json!({ "spec": { "paused": true, "replicas": 4 } })).await?;
        pool.until(paused).await?;
        let last = pool.machine(0).await?;
        world.delete(&last).await?;
        pool.until(negate_condition(has_machine(&last)).and(exactly(&[]))).await?;
        world.settles().await?;
        pool.holds(exactly(&[]), SETTLE).await?;
        pool.edit(&json!({ "spec": { "paused": false } })).await?;
        pool.until(ready_replicas(4).and(pool_is_ready())).await?;
        let machines = pool.machines().await?;
        let mut names: Vec<&str> = machines.iter().map(vmpool_invariants::object::JsonObject::name).collect();
        names.sort_unstable();
        ensure!(names == ["web-0", "web-1", "web-2", "web-3"], "the names are {names:?}");
        Ok(())
    });
}
