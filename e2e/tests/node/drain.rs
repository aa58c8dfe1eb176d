//! A drained node evicts one replica after the other, and no request fails.

use anyhow::ensure;
use vmpool_e2e::world::condition::ready_replicas;
use vmpool_e2e::world::{DEADLINE, SETTLE};
use vmpool_test_cluster::access::Access;
use vmpool_test_cluster::poll;

use crate::pods;
use crate::stage::{InstalledNodeCluster, among_pods};

/// Evicts both Pods of a component, as fast as its disruption budget allows.
async fn drain(access: &Access, component: &str) -> anyhow::Result<()> {
    let before = pods::until_ready(access, component).await?;
    let [first, second] = before.as_slice() else { anyhow::bail!("{} Pods of {component}", before.len()) };
    // The disruption budget is updated shortly after the Pods.
    poll::poll_until(
        || format!("the eviction of {} is granted", pods::name(first)),
        DEADLINE,
        async || Ok(evicted(access, first).await),
    )
    .await?;
    let refused = pods::evict(access, second).await?;
    let words = refused.err().filter(|(code, _)| *code == 429);
    ensure!(
        words.as_ref().is_some_and(|(_, words)| words.contains("disruption budget")),
        "the second eviction of {component} was not refused for its budget: {words:?}"
    );
    // The second eviction is granted after a replacement of the first Pod is ready.
    poll::poll_until(
        || format!("the eviction of {} is granted in the end", pods::name(second)),
        DEADLINE,
        async || Ok(evicted(access, second).await),
    )
    .await?;
    let after = pods::of(access, component).await?;
    let fresh = |pod: &&k8s_openapi::api::core::v1::Pod| {
        pods::is_ready(pod) && before.iter().all(|old| pods::uid(old) != pods::uid(pod))
    };
    ensure!(after.iter().any(|pod| fresh(&pod)), "{component} had no ready Pod");
    let after = pods::until_ready(access, component).await?;
    ensure!(after.iter().all(|pod| fresh(&pod)), "a Pod of {component} was not replaced");
    Ok(())
}

async fn evicted(access: &Access, pod: &k8s_openapi::api::core::v1::Pod) -> Result<(), String> {
    match pods::evict(access, pod).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err((code, words))) => Err(format!("{code} {words}")),
        Err(error) => Err(format!("{error:#}")),
    }
}

async fn drain_all(stage: &InstalledNodeCluster) -> anyhow::Result<()> {
    let all = pods::COMPONENTS.map(|component| drain(stage.access(), component));
    futures::future::try_join_all(all).await.map(drop)
}

pub(crate) fn a_drain_evicts_one_replica_after_the_other() {
    among_pods(async |stage| {
        pods::until_all_ready(stage.access()).await?;
        let mark = stage.load().mark();
        stage
            .visit("a drain goes on while pools live", async |world| {
                let pool = world.pool("web").replicas(2).ready().await?;
                let grow = async {
                    for replicas in [4, 3, 5] {
                        pool.scale(replicas).await?;
                        pool.until(ready_replicas(replicas)).await?;
                    }
                    anyhow::Ok(())
                };
                futures::try_join!(drain_all(stage), grow)?;
                pool.holds(ready_replicas(5), SETTLE).await?;
                Ok(())
            })
            .await?;
        // All requests to the webhook and the aggregated API meanwhile were served.
        stage.load().ensure_served_since(mark)
    });
}
