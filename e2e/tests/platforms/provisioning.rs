//! Limits on machines that have not been ready yet.

use anyhow::ensure;
use rstest::rstest;
use serde_json::json;
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::SETTLE;
use vmpool_e2e::world::condition::{live_machine_count, no_condition, pool_condition, ready_replicas};
use vmpool_installation::programs::ControllerOptions;
use vmpool_invariants::platform::TestedPlatform;

use crate::REPLICAS;

/// The feature gates of a controller that limits provisioning.
const GATES: &str = "--feature-gates=VirtualMachinePool=true,ProvisioningLimit=true";

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_pool_grows_by_as_many_machines_at_a_time_as_its_limit_allows(#[case] platform: TestedPlatform) {
    define_scenario("a pool grows within its limit on provisioning").on(platform).controllers(0).run(
        async |world| {
            let _shared = REPLICAS.read().await;
            world.user_actions().limits_provisioning = true;
            let mut options = ControllerOptions::new(world.namespace(), "limited");
            options.extra.push(GATES.to_owned());
            let controller = world.add_controller_with(options).await?;
            // While no machine starts, only two exist, and the pool says why.
            world.knob("start-delay", "never").await?;
            let limit = json!({ "metadata": { "annotations": { "vmpool.dev/max-provisioning": "2" } } });
            let pool = world.pool("web").replicas(5).with(&limit).create().await?;
            let limited = || pool_condition("ProvisioningLimited", "True", "MaxProvisioningReached");
            pool.until(live_machine_count(2).and(limited())).await?;
            pool.holds(live_machine_count(2).and(limited()), SETTLE).await?;
            let (_, page) = controller.probe("/metrics").await;
            let is_series =
                |line: &str| line.starts_with("vmpool_pool_provisioning{") && line.contains("limit=\"pool\"");
            let series = page.lines().find(|line| is_series(line));
            ensure!(series.is_some_and(|series| series.ends_with(" 2")), "{series:?}");
            // A higher limit takes effect at once.
            pool.edit(&json!({ "metadata": { "annotations": { "vmpool.dev/max-provisioning": "3" } } }))
                .await?;
            pool.until(live_machine_count(3).and(limited())).await?;
            // As machines become ready, the others follow.
            world.reset_knob("start-delay").await?;
            pool.until(ready_replicas(5).and(no_condition("ProvisioningLimited"))).await?;
            Ok::<_, anyhow::Error>(())
        },
    );
}
