//! Pools while etcd restarts, stalls, or has no disk space.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::wait::let_time_pass;
use vmpool_e2e::world::condition::{
    PoolPredicate, disk_count, machine_count, pool_condition, ready_replicas, status_number,
};
use vmpool_e2e::world::{DEADLINE, PoolHandle, SETTLE, ScenarioWorld};
use vmpool_installation::programs::ControllerProgram;
use vmpool_invariants::object::TestedKind;
use vmpool_test_cluster::control_plane::RestartMethod;
use vmpool_test_cluster::poll;

/// Timeout after an outage. It includes the backoff of clients.
const PATIENCE: Duration = Duration::from_mins(2);

fn template(spec: &Value) -> Value {
    json!({ "spec": { "virtualMachineTemplate": { "spec": spec } } })
}

/// Machines restart automatically, half of them at a time.
fn automatic() -> Value {
    json!({ "spec": {
        "rollout": { "maxUnavailable": "50%" },
        "virtualMachineTemplate": { "spec": { "disruptions": { "restartApprovalMode": "Automatic" } } },
    } })
}

/// The scale-up has started. Its progress does not matter, because a short-lived state could be missed on a
/// slow host.
fn more_machines_than(before: usize) -> PoolPredicate {
    PoolPredicate::new(format!("more than {before} machines"), move |view| view.machines().len() > before)
}

/// Some machines have this number of cores in their spec.
fn rollout_begun_to(cores: i64) -> PoolPredicate {
    PoolPredicate::new("a rollout that has started", move |view| {
        view.live().any(|machine| number_of_cores(machine) == Some(cores))
    })
}

fn number_of_cores(machine: &vmpool_invariants::object::JsonObject) -> Option<i64> {
    machine.number("/spec/cpu/cores")
}

/// All machines of the pool have this number of cores in effect.
fn rolled_out(count: i64, cores: i64) -> PoolPredicate {
    let all = PoolPredicate::new(format!("machines of {cores} cores"), move |view| {
        view.live().all(|machine| number_of_cores(machine) == Some(cores))
    });
    all.and(pool_condition("Synced", "True", "PoolSynced")).and(status_number("updatedReplicas", count))
}

/// Changes the template, and returns when the first machine has the change.
async fn roll_out(world: &ScenarioWorld, pool: &PoolHandle<'_>, cores: i64) -> anyhow::Result<()> {
    world.patch(TestedKind::Pool, pool.name(), &template(&json!({ "cpu": { "cores": cores } }))).await?;
    pool.sees(rollout_begun_to(cores)).await?;
    Ok(())
}

/// Scales the pool up, and returns when the first new machine exists.
async fn begin_scale_up(
    world: &ScenarioWorld,
    pool: &PoolHandle<'_>,
    before: usize,
    replicas: i64,
) -> anyhow::Result<()> {
    world.patch(TestedKind::Pool, pool.name(), &json!({ "spec": { "replicas": replicas } })).await?;
    pool.sees(more_machines_than(before)).await?;
    Ok(())
}

#[test]
fn scale_up_and_rollouts_survive_restarts_of_etcd_and_the_api_server() {
    define_scenario("etcd and the API server restart during rollouts").on_its_own_cluster().run(
        async |world| {
            let cluster = world.cluster();
            let pool = world.pool("web").disk("root").retained("cache", 0, "10m").with(&automatic());
            let pool = pool.ready().await?;
            // When etcd is killed after some of the machines were created,
            begin_scale_up(world, &pool, 0, 12).await?;
            cluster.restart_etcd(RestartMethod::Killed).await?;
            // then there are finally as many machines as desired, each with its disks,
            pool.until_within(ready_replicas(12).and(machine_count(12)).and(disk_count(24)), PATIENCE)
                .await?;
            let before = vmpool_invariants::object::object_uids(&pool.machines().await?);
            // and when etcd restarts, and then the API server, after some machines were updated,
            roll_out(world, &pool, 2).await?;
            cluster.restart_etcd(RestartMethod::Graceful).await?;
            pool.until_within(rolled_out(12, 2).and(ready_replicas(12)), PATIENCE).await?;
            roll_out(world, &pool, 3).await?;
            cluster.restart_api_server(RestartMethod::Killed).await?;
            // then all machines are updated, and none was recreated.
            pool.until_within(rolled_out(12, 3).and(ready_replicas(12)), PATIENCE).await?;
            ensure!(
                vmpool_invariants::object::object_uids(&pool.machines().await?) == before,
                "machines were recreated"
            );
            Ok::<_, anyhow::Error>(())
        },
    );
}

/// Waits until there is no leader.
async fn until_no_controller_leads(controllers: &[Arc<ControllerProgram>]) -> anyhow::Result<()> {
    let what = || "no controller leads without renewing the lease".to_owned();
    poll::poll_until(what, DEADLINE, async || {
        for controller in controllers {
            if controller.leads().await != Some(false) {
                return Ok(Err(format!("{} leads", controller.identity())));
            }
        }
        Ok(Ok(()))
    })
    .await?;
    Ok(())
}

#[test]
fn controllers_survive_a_full_and_a_slow_disk_of_etcd() {
    define_scenario("controllers survive a full and a slow disk").on_its_own_cluster().controllers(0).run(
        async |world| {
            let cluster = world.cluster();
            let controllers = [world.add_short_leased("a").await?, world.add_short_leased("b").await?];
            let pool = world.pool("web").replicas(2).disk("root").retained("cache", 0, "10m");
            let pool = pool.with(&automatic()).ready().await?;
            // Given a pool during a scale-up when the disk of etcd is full,
            begin_scale_up(world, &pool, 2, 12).await?;
            cluster.fill_disk().await?;
            // then users get an error,
            let note = json!({ "metadata": { "annotations": { "note": "more data" } } });
            let refused = world.patch(TestedKind::Pool, pool.name(), &note).await;
            let refused = refused
                .err()
                .map(|error| vmpool_test_cluster::error::error_with_causes(&error))
                .unwrap_or_default();
            ensure!(refused.contains("database space exceeded"), "a write on a full disk: {refused:?}");
            // and there is no leader, because the lease cannot be renewed either.
            until_no_controller_leads(&controllers).await?;
            ensure!(
                controllers.iter().all(|controller| controller.exit_status().is_none()),
                "a controller has exited"
            );
            // Once there is space again, the scale-up continues.
            ensure!(cluster.clear_disk().await? == 1, "the disk was never full");
            pool.until_within(ready_replicas(12).and(machine_count(12)).and(disk_count(24)), PATIENCE)
                .await?;
            // When etcd is paused repeatedly during a rollout and a scale-down,
            roll_out(world, &pool, 2).await?;
            for replicas in [10, 8, 6] {
                cluster.pause_etcd()?;
                // The length of the fault.
                let_time_pass(Duration::from_millis(900)).await;
                cluster.resume_etcd()?;
                world
                    .patch(TestedKind::Pool, pool.name(), &json!({ "spec": { "replicas": replicas } }))
                    .await?;
            }
            // then both complete, and the state is stable.
            pool.until_within(ready_replicas(6).and(rolled_out(6, 2)), PATIENCE).await?;
            pool.holds(machine_count(6), SETTLE).await?;
            Ok::<_, anyhow::Error>(())
        },
    );
}
