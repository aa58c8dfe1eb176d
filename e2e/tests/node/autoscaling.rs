//! A real HorizontalPodAutoscaler for machines with real Pods.

use anyhow::ensure;
use vmpool_e2e::autoscaling::{at_once, cpu_metric, create_pool_autoscaler};
use vmpool_e2e::world::condition::{live_machine_count, ready_replicas};
use vmpool_e2e::world::{PoolScaleDownPolicy, SETTLE};
use vmpool_invariants::object::TestedKind;

use crate::stage::{InstalledNodeCluster, among_users};

async fn newest_first(stage: &InstalledNodeCluster) -> anyhow::Result<()> {
    stage
        .visit("an autoscaler scales a pool up and down", async |world| {
            let pool = world.pool("web").replicas(1).ready().await?;
            stage.metrics().set_cpu(world.namespace(), 300);
            create_pool_autoscaler(world, &pool, cpu_metric(), at_once()).await?;
            pool.until(ready_replicas(3)).await?;
            stage.metrics().set_cpu(world.namespace(), 150);
            pool.until(ready_replicas(2)).await?;
            Ok(())
        })
        .await
}

async fn explicit(stage: &InstalledNodeCluster) -> anyhow::Result<()> {
    stage
        .visit("an autoscaler scales an Explicit pool only up", async |world| {
            let pool =
                world.pool("runners").policy(PoolScaleDownPolicy::Explicit).replicas(1).ready().await?;
            stage.metrics().set_cpu(world.namespace(), 300);
            create_pool_autoscaler(world, &pool, cpu_metric(), at_once()).await?;
            pool.until(ready_replicas(3)).await?;
            stage.metrics().set_cpu(world.namespace(), 20);
            // The autoscaler tries to scale down, the webhook refuses, and the autoscaler reports that.
            let refused = vmpool_test_cluster::poll::poll_until(
                || "the autoscaler reports the refusal".to_owned(),
                vmpool_e2e::world::DEADLINE,
                async || {
                    let state = world.recorder().state();
                    let said: Vec<String> = state
                        .all(TestedKind::Event)
                        .filter(|event| event.text("/reason") == "FailedRescale")
                        .map(|event| event.text("/message").to_owned())
                        .collect();
                    Ok(said.iter().find(|said| said.contains("Explicit")).cloned().ok_or(said.join("\n")))
                },
            );
            ensure!(refused.await?.contains("runners"), "the message does not contain the pool's name");
            pool.holds(live_machine_count(3), SETTLE).await?;
            Ok(())
        })
        .await
}

pub(crate) fn an_autoscaler_scales_newest_first_pools_down_and_explicit_pools_only_up() {
    among_users(async |stage| futures::try_join!(newest_first(stage), explicit(stage)).map(drop));
}
