//! A real HorizontalPodAutoscaler of kube-controller-manager, with metrics from the harness.

use anyhow::ensure;
use serde_json::{Value, json};
use vmpool_api::v1alpha2::API_VERSION;
use vmpool_e2e::autoscaling::{at_once, cpu_metric, create_pool_autoscaler};
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::condition::{live_machine_count, ready_replicas};
use vmpool_e2e::world::{DEADLINE, PoolHandle, PoolScaleDownPolicy, SETTLE, ScenarioWorld};
use vmpool_invariants::object::TestedKind;
use vmpool_test_cluster::poll;

/// The metric for the length of a pool's work queue.
const QUEUE: &str = "queue_length";

/// Ten jobs per machine.
fn queue(pool: &PoolHandle<'_>) -> Value {
    json!({ "type": "Object", "object": {
        "describedObject": { "apiVersion": API_VERSION, "kind": TestedKind::Pool.name(), "name": pool.name() },
        "metric": { "name": QUEUE },
        "target": { "type": "AverageValue", "averageValue": "10" },
    } })
}

/// Messages of the autoscaler's events with this reason.
fn events(world: &ScenarioWorld, reason: &str) -> Vec<String> {
    let state = world.recorder().state();
    let of_autoscaler = state.all(TestedKind::Event).filter(|event| {
        event.text("/reason") == reason && event.text("/involvedObject/kind") == "HorizontalPodAutoscaler"
    });
    of_autoscaler.map(|event| event.text("/message").to_owned()).collect()
}

#[test]
fn an_autoscaler_scales_a_pool_up_and_down_on_a_queue_length() {
    define_scenario("an autoscaler scales a pool on a queue").guarded().run(async |world| {
        let pool = world.pool("workers").policy(PoolScaleDownPolicy::OldestFirst).replicas(1).ready().await?;
        let metrics = world.installation().guard()?.metrics();
        metrics.set_custom(world.namespace(), QUEUE, 30);
        create_pool_autoscaler(world, &pool, queue(&pool), at_once()).await?;
        pool.until(ready_replicas(3)).await?;
        metrics.set_custom(world.namespace(), QUEUE, 5);
        pool.until(ready_replicas(1)).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn an_autoscaler_scales_an_explicit_pool_only_up() {
    define_scenario("an autoscaler scales an Explicit pool only up").guarded().run(async |world| {
        let pool = world.pool("runners").policy(PoolScaleDownPolicy::Explicit).replicas(1).ready().await?;
        let metrics = world.installation().guard()?.metrics();
        metrics.set_cpu(world.namespace(), 300);
        create_pool_autoscaler(world, &pool, cpu_metric(), at_once()).await?;
        pool.until(ready_replicas(3)).await?;
        // When the CPU usage is low,
        metrics.set_cpu(world.namespace(), 20);
        // then the autoscaler tries to scale down, is refused, and reports the webhook's message,
        poll::poll_until(
            || "the autoscaler reports the refusal".to_owned(),
            DEADLINE,
            async || {
                let failed = events(world, "FailedRescale");
                Ok(if failed.iter().any(|event| event.contains("Explicit")) {
                    Ok(())
                } else {
                    Err(failed.join("\n"))
                })
            },
        )
        .await?;
        pool.holds(live_machine_count(3), SETTLE).await?;
        // and a targeted removal does not conflict with the autoscaler.
        metrics.set_cpu(world.namespace(), 200);
        let idle = pool.machine(1).await?;
        pool.remove(std::slice::from_ref(&idle)).await?;
        pool.until(ready_replicas(2)).await?;
        pool.holds(live_machine_count(2), SETTLE).await?;
        ensure!(pool.machines().await?.iter().all(|left| left.uid() != idle.uid()));
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn an_autoscaler_with_disabled_scale_down_does_not_try() {
    define_scenario("an autoscaler with disabled scale-down does not try").guarded().run(async |world| {
        let pool = world.pool("runners").policy(PoolScaleDownPolicy::Explicit).replicas(1).ready().await?;
        let metrics = world.installation().guard()?.metrics();
        metrics.set_cpu(world.namespace(), 200);
        create_pool_autoscaler(world, &pool, cpu_metric(), json!({ "selectPolicy": "Disabled" })).await?;
        pool.until(ready_replicas(2)).await?;
        metrics.set_cpu(world.namespace(), 20);
        pool.holds(live_machine_count(2), SETTLE * 2).await?;
        let failed = events(world, "FailedRescale");
        ensure!(failed.is_empty(), "{failed:?}");
        Ok::<_, anyhow::Error>(())
    });
}
