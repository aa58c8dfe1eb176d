//! Pools whose machines an admission policy or another client takes away.

use std::time::Duration;

use anyhow::{Result, ensure};
use rstest::rstest;
use serde_json::json;
use vmpool_e2e::wait::let_time_pass;
use vmpool_e2e::world::condition::{
    PoolPredicate, machine_count, pool_condition, pool_event, ready_replicas,
};
use vmpool_e2e::world::{CreateChange, PoolHandle, SETTLE, ScenarioWorld};
use vmpool_invariants::object::TestedKind;
use vmpool_invariants::platform::TestedPlatform;

use crate::on;

/// Number of machines that the controller may create for a pool that keeps none.
const IN_A_ROW: usize = 3;

/// The condition `Stalled` names all of these parts.
fn stalled(parts: &'static [&'static str]) -> PoolPredicate {
    PoolPredicate::new(format!("stalled with {parts:?}"), move |view| {
        let stalled = view.pool().and_then(|pool| pool.condition("Stalled"));
        stalled.is_some_and(|stalled| {
            let message = stalled["message"].as_str().unwrap_or_default();
            stalled["status"] == "True" && parts.iter().all(|part| message.contains(part))
        })
    })
}

/// Number of machines in the namespace.
async fn machines(world: &ScenarioWorld) -> Result<usize> {
    Ok(world.api(TestedKind::Machine).list(&kube::api::ListParams::default()).await?.items.len())
}

async fn recovers(pool: &PoolHandle<'_>) -> Result<()> {
    // A change of the spec permits a try at once.
    pool.scale(2).await?;
    pool.until_within(ready_replicas(2), Duration::from_secs(90)).await?;
    pool.holds(ready_replicas(2), SETTLE).await?;
    Ok(())
}

#[rstest]
#[case::dvp_owner(TestedPlatform::Dvp, CreateChange::NoOwner, &["controller owner", "policy or webhook"])]
#[case::kubevirt_owner(TestedPlatform::KubeVirt, CreateChange::NoOwner, &["controller owner", "policy or webhook"])]
#[case::kubevirt_label(
    TestedPlatform::KubeVirt,
    CreateChange::Label("app", "platform"),
    &["\"app\"", "\"platform\"", "\"web\"", "policy or webhook"]
)]
fn a_policy_that_takes_created_machines_away_costs_few_machines(
    #[case] platform: TestedPlatform,
    #[case] change: CreateChange<'static>,
    #[case] parts: &'static [&'static str],
) {
    on(platform, "a policy that takes created machines away costs few machines", async |world| {
        // Given a policy that changes by what a pool recognizes its machines,
        let policy = world.change_creates(TestedKind::Machine, change).await?;
        // when a pool is created,
        let pool = world.pool("web").replicas(3).create().await?;
        // then it stops after a few machines, and says what was changed.
        pool.until(stalled(parts).and(pool_condition("ReplicaFailure", "True", "MachineLost"))).await?;
        pool.sees(pool_event("MachineLost")).await?;
        let before = machines(world).await?;
        ensure!(before == IN_A_ROW, "{before} machines");
        pool.holds(stalled(parts).and(machine_count(0)), SETTLE).await?;
        // A change of the spec permits one try, which creates nothing.
        pool.scale(4).await?;
        pool.holds(stalled(parts), SETTLE).await?;
        let after = machines(world).await?;
        ensure!(after == before, "{after} machines");
        // Without the policy it recovers, and leaves the machines that it does not own alone.
        policy.lift().await?;
        recovers(&pool).await?;
        let all = machines(world).await?;
        ensure!(all == before + 2, "{all} machines");
        Ok(())
    });
}

#[test]
fn a_policy_that_strips_disks_costs_few_disks() {
    on(TestedPlatform::Dvp, "a policy that strips disks costs few disks", async |world| {
        let policy = world.change_creates(TestedKind::Disk, CreateChange::NoOwner).await?;
        let pool = world.pool("web").replicas(4).disk("root").create().await?;
        pool.until(stalled(&["disk", "controller owner", "policy or webhook"])).await?;
        pool.holds(stalled(&["disk"]), SETTLE).await?;
        let disks = world.api(TestedKind::Disk).list(&kube::api::ListParams::default()).await?.items.len();
        ensure!(disks <= IN_A_ROW, "{disks} disks");
        policy.lift().await?;
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_client_that_takes_machines_away_again_and_again_costs_few_machines(#[case] platform: TestedPlatform) {
    on(platform, "a client that takes machines away again and again", async |world| {
        let pool = world.pool("web").replicas(3).ready().await?;
        let patch = match platform {
            TestedPlatform::Dvp => json!({ "metadata": { "ownerReferences": null } }),
            TestedPlatform::KubeVirt => json!({ "metadata": { "labels": { "app": "taken" } } }),
        };
        // A client takes all machines of the pool away, as often as they come.
        let deadline = tokio::time::Instant::now() + Duration::from_secs(40);
        while tokio::time::Instant::now() < deadline {
            for machine in pool.machines().await? {
                world.patch(TestedKind::Machine, machine.name(), &patch).await.ok();
            }
            let_time_pass(Duration::from_millis(500)).await;
        }
        pool.until(stalled(&["does not belong to the pool"])).await?;
        let all = machines(world).await?;
        ensure!(all <= 4 * IN_A_ROW, "{all} machines");
        Ok(())
    });
}
