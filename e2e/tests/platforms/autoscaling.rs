//! An autoscaler of a pool. It finds the Pods of the guests by the selector in the status.

use anyhow::ensure;
use rstest::rstest;
use vmpool_e2e::autoscaling::{at_once, cpu_metric, create_pool_autoscaler};
use vmpool_e2e::world::SETTLE;
use vmpool_e2e::world::condition::{ready_replicas, status_number};
use vmpool_invariants::platform::TestedPlatform;

use crate::on;

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn an_autoscaler_scales_a_pool_up_and_down_on_cpu(#[case] platform: TestedPlatform) {
    on(platform, "an autoscaler scales a pool on CPU", async |world| {
        // Given a pool of one machine with an autoscaler,
        let pool = world.pool("web").replicas(1).ready().await?;
        let metrics = world.installation().guard()?.metrics();
        metrics.set_cpu(world.namespace(), 100);
        create_pool_autoscaler(world, &pool, cpu_metric(), at_once()).await?;
        // when the CPU usage of its Pods is high, then the autoscaler scales the pool up,
        metrics.set_cpu(world.namespace(), 400);
        pool.until(ready_replicas(4)).await?;
        if platform == TestedPlatform::KubeVirt {
            let scale = ["get", "virtualmachinepools.pool.kubevirt.io", "web", "--subresource=scale", "-o"];
            let selector = world.kubectl(&[&scale[..], &["jsonpath={.status.selector}"]].concat()).await?;
            let pods = world.kubectl(&["get", "pods", "-o", "name", "-l", &selector]).await?;
            ensure!(!selector.is_empty() && pods.lines().count() == 4, "{selector}: {pods}");
        }
        // and when it is low, down.
        metrics.set_cpu(world.namespace(), 150);
        pool.until(ready_replicas(2)).await?;
        pool.holds(status_number("replicas", 2), SETTLE).await?;
        Ok(())
    });
}
