//! What both platforms promise: scenarios with the same steps on each; and scenarios with pools of both.
//!
//! They share a cluster with both platforms, the webhook, and two replicas of the aggregated API.

mod autoscaler_rights;
mod autoscaling;
mod backup;
mod claims;
mod dashboard;
mod deadline;
mod deletion;
mod detached_machines;
mod draining;
mod healing;
mod image_refresh;
mod limits_of_protection;
mod lost_replica;
mod machines;
mod other_namespaces;
mod paused;
mod plugin;
mod plugin_outage;
mod policy;
mod pool_autoscalers;
mod protected;
mod provisioning;
mod recipes;
mod recycling;
mod refused_creates;
mod release;
mod removal;
mod removal_requests;
mod rollout;
mod scale_down;
mod scaling;
mod side_by_side;
mod slow_webhooks;
mod standby;
mod unusual_values;
mod who_scaled;

use tokio::sync::RwLock;
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::ScenarioWorld;
use vmpool_installation::programs::ControllerOptions;
use vmpool_invariants::platform::TestedPlatform;

/// A scenario that kills a replica of the aggregated API breaks the requests of all others, so it runs alone.
static REPLICAS: RwLock<()> = RwLock::const_new(());

/// Runs a scenario with pools of this platform.
fn on(
    platform: TestedPlatform,
    name: &'static str,
    body: impl AsyncFnOnce(&ScenarioWorld) -> anyhow::Result<()>,
) {
    define_scenario(name).on(platform).run(async |world| {
        let _shared = REPLICAS.read().await;
        body(world).await
    });
}

/// Runs a scenario where the chart has all features, with a controller that has this feature gate.
fn with_gate(
    platform: TestedPlatform,
    name: &'static str,
    gate: &str,
    body: impl AsyncFnOnce(&ScenarioWorld) -> anyhow::Result<()>,
) {
    define_scenario(name).on(platform).with_all_features().controllers(0).run(async |world| {
        let mut options = ControllerOptions::new(world.namespace(), "gated");
        options.extra.push(format!("--feature-gates=VirtualMachinePool=true,{gate}=true"));
        world.add_controller_with(options).await?;
        body(world).await
    });
}

/// As [`on`], while no other scenario runs.
fn alone_on(
    platform: TestedPlatform,
    name: &'static str,
    body: impl AsyncFnOnce(&ScenarioWorld) -> anyhow::Result<()>,
) {
    define_scenario(name).on(platform).run(async |world| {
        let _alone = REPLICAS.write().await;
        body(world).await
    });
}
