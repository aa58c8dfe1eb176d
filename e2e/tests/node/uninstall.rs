//! The chart is taken away, and comes back.

use std::time::Instant;

use anyhow::ensure;
use serde_json::{Value, json};
use vmpool_e2e::Result;
use vmpool_e2e::access::Access;
use vmpool_e2e::cluster::apply;
use vmpool_e2e::object::uids;
use vmpool_e2e::programs::SYSTEM_NAMESPACE;
use vmpool_e2e::release::{API_SERVICES, WEBHOOK};
use vmpool_e2e::world::condition::{exists, live_members, not, ready_replicas};
use vmpool_e2e::world::{Deletion, Policy, Pool, SETTLE, World};

use crate::stage::{Stage, alone};
use crate::{namespaces, pods};

/// The names of all objects of a kind in the cluster.
async fn names(access: &Access, kind: &str) -> Result<Vec<String>> {
    let listed = access.kubectl(&["get", kind, "--output=name"]).await?;
    Ok(listed.lines().map(str::to_owned).collect())
}

/// Nothing of ours stands between the API server and its users any more.
async fn ensure_nothing_blocks(access: &Access) -> anyhow::Result<()> {
    let webhooks = names(access, "validatingwebhookconfigurations,mutatingwebhookconfigurations").await?;
    ensure!(webhooks.iter().all(|name| !name.contains(WEBHOOK)), "{webhooks:?}");
    let services = names(access, "apiservices").await?;
    ensure!(services.iter().all(|name| API_SERVICES.iter().all(|ours| !name.contains(ours))), "{services:?}");
    let roles = names(access, "clusterroles,clusterrolebindings").await?;
    // The simulator's role is not the chart's.
    let ours = |name: &&String| name.contains("/vmpool-") && !name.contains("vmpool-simulator");
    let left: Vec<&String> = roles.iter().filter(ours).collect();
    ensure!(left.is_empty(), "roles that nobody has any more: {left:?}");
    Ok(())
}

/// What a user who has uninstalled the chart may still do to pools.
async fn pools_are_free(world: &World, kept: &Pool<'_>) -> anyhow::Result<()> {
    // Nobody keeps an Explicit pool from shrinking, and nobody shrinks it,
    kept.edit(&json!({ "spec": { "replicas": 1 } })).await?;
    kept.holds(live_members(2), SETTLE).await?;
    kept.edit(&json!({ "spec": { "replicas": 2 } })).await?;
    // and pools can be made and deleted.
    let idle = world.pool("idle").replicas(1).create().await?;
    idle.delete(Deletion::Foreground).await?;
    idle.until(not(exists())).await?;
    Ok(())
}

/// A namespace with a pool in it, as the user of another team has one.
async fn furnish(stage: &Stage, namespace: &str, pool: &Value) -> anyhow::Result<()> {
    namespaces::create(stage.access(), namespace).await?;
    apply(&stage.access().client, std::slice::from_ref(pool), Some(namespace)).await?;
    Ok(())
}

#[test]
fn an_uninstalled_chart_leaves_pools_machines_and_a_cluster_that_works() {
    const NAMESPACE: &str = "goes-with-its-pool";
    alone(async |stage| {
        let access = stage.access();
        stage
            .visit("the chart is uninstalled", async |world| {
                let kept = world.pool("kept").policy(Policy::Explicit).replicas(2).ready().await?;
                let before = uids(&kept.machines().await?);
                let mut other = world.pool("other").replicas(1).object();
                other["metadata"].as_object_mut().map(|metadata| metadata.remove("namespace"));
                furnish(stage, NAMESPACE, &other).await?;
                // When the chart is uninstalled, and a namespace is deleted in the same moment,
                let begin = Instant::now();
                stage.release().uninstall().await?;
                let uninstalled = begin.elapsed();
                namespaces::delete(access, NAMESPACE).await?;
                // then nothing of it is in anybody's way,
                ensure_nothing_blocks(access).await?;
                // its own namespace can go, too, with the certificates that the chart did not make,
                namespaces::delete(access, SYSTEM_NAMESPACE).await?;
                // and pools and machines are there.
                ensure!(uids(&kept.machines().await?) == before, "the machines are others");
                let (gone, own, ()) = futures::try_join!(
                    async { Ok(namespaces::until_gone(access, NAMESPACE).await?) },
                    async { Ok(namespaces::until_gone(access, SYSTEM_NAMESPACE).await?) },
                    pools_are_free(world, &kept),
                )?;
                println!(
                    "uninstalled after {uninstalled:.1?}; a namespace with a pool went in {gone:.1?}, its own in {own:.1?}"
                );
                // Installed again, it goes on with what is there.
                stage.release().reinstall().await?;
                let machine = kept.machine(0).await?;
                kept.remove(std::slice::from_ref(&machine)).await?;
                kept.until(ready_replicas(1)).await?;
                let after = uids(&kept.machines().await?);
                ensure!(after == before[1..], "of {before:?} there are left {after:?}");
                Ok(())
            })
            .await?;
        pods::until_all_ready(access).await?;
        let calm = stage.load().mark();
        tokio::time::sleep(SETTLE).await;
        stage.load().ensure_served_since(calm)
    });
}
