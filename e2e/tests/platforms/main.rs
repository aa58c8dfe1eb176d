//! Scenarios with the same steps on each platform: protection, claims and the kubectl plugin; and scenarios with pools of both.
//!
//! They share a cluster with both platforms, the webhook, and two replicas of the aggregated API.

mod autoscaling;
mod backup;
mod claims;
mod healing;
mod limits_of_protection;
mod lost_replica;
mod other_namespaces;
mod paused;
mod plugin;
mod policy;
mod protected;
mod recipes;
mod release;
mod removal;
mod rollout;
mod scale_down;
mod side_by_side;
mod slow_webhooks;
mod taken;
mod unusual_values;

use tokio::sync::RwLock;
use vmpool_e2e::scenario::scenario;
use vmpool_e2e::world::World;
use vmpool_invariants::platform::PlatformName;

/// A scenario that kills a replica of the aggregated API breaks the requests of all others, so it runs alone.
static REPLICAS: RwLock<()> = RwLock::const_new(());

/// Runs a scenario with pools of this platform.
fn on(platform: PlatformName, name: &'static str, body: impl AsyncFnOnce(&World) -> anyhow::Result<()>) {
    scenario(name).on(platform).run(async |world| {
        let _shared = REPLICAS.read().await;
        body(world).await
    });
}

/// As [`on`], while no other scenario runs.
fn alone_on(
    platform: PlatformName,
    name: &'static str,
    body: impl AsyncFnOnce(&World) -> anyhow::Result<()>,
) {
    scenario(name).on(platform).run(async |world| {
        let _alone = REPLICAS.write().await;
        body(world).await
    });
}
