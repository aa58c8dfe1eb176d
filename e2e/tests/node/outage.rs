//! All replicas of the aggregated API are unavailable.

use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use vmpool_e2e::world::condition::ready_replicas;
use vmpool_e2e::world::{PoolDeletion, PoolHandle};
use vmpool_installation::programs::SYSTEM_NAMESPACE;
use vmpool_installation::release::API_SERVICES;
use vmpool_test_cluster::access::Access;
use vmpool_test_cluster::{Error, Result, poll};

use crate::stage::alone;
use crate::{namespaces, pods};

/// Longer than the API server caches discovery documents.
const DEADLINE: Duration = Duration::from_mins(2);

/// Scales the aggregated API.
async fn set_api_servers(access: &Access, replicas: usize) -> Result<()> {
    let deployments = Api::<Deployment>::namespaced(access.client.clone(), SYSTEM_NAMESPACE);
    let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    let patched = deployments.patch("vmpool-apiserver", &PatchParams::default(), &patch).await;
    patched.map(drop).map_err(Error::api("scaling the aggregated API"))
}

/// Waits until the API server has detected that an APIService is unavailable. It checks only once a minute,
/// so an irrelevant change triggers a check.
async fn until_noticed(access: &Access, service: &str) -> Result<()> {
    let group = service.split_once('.').unwrap_or_default().1;
    let object = format!("apiservice/{service}");
    let mut looks = 0;
    poll::poll_until(
        || format!("the API server reports {group} as unavailable"),
        DEADLINE,
        async || {
            looks += 1;
            let change = format!("e2e.vmpool.dev/look={looks}");
            access.kubectl(&["annotate", "--overwrite", &object, &change]).await?;
            let found = freshness(access, group).await?;
            Ok(if found == "Stale" { Ok(()) } else { Err(found) })
        },
    )
    .await
}

/// The freshness of a group in the API server's discovery: `Current` or `Stale`.
async fn freshness(access: &Access, group: &str) -> Result<String> {
    let doing = || "reading the discovery document".to_owned();
    let request = http::Request::get("/apis")
        .header("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
        .body(Vec::new())
        .map_err(kube::Error::HttpError)
        .map_err(Error::api(doing()))?;
    let groups: Value = access.client.request(request).await.map_err(Error::api(doing()))?;
    let mut items = groups["items"].as_array().into_iter().flatten();
    let found = items.find(|item| item["metadata"]["name"] == group);
    Ok(found.map(|item| item["versions"][0]["freshness"].to_string()).unwrap_or_default().replace('"', ""))
}

pub(crate) fn without_the_aggregated_api_namespace_deletion_waits_until_it_is_back() {
    const NAMESPACE: &str = "waits-for-an-api-server";
    alone(async |stage| {
        let access = stage.access();
        stage
            .visit("the aggregated API is away", async |world| {
                let pool = world.pool("web").replicas(2).ready().await?;
                namespaces::create(access, NAMESPACE).await?;
                // When all replicas of the aggregated API are gone,
                set_api_servers(access, 0).await?;
                let without = check_without_aggregated_api(access, &pool, NAMESPACE).await;
                // (restore them in any case, because other tests need them)
                let begin = Instant::now();
                set_api_servers(access, pods::REPLICAS).await?;
                stage.release().until_at_work().await?;
                let answers = begin.elapsed();
                without?;
                // and once a replica responds, the namespace is deleted.
                namespaces::until_gone(access, NAMESPACE).await?;
                let gone = begin.elapsed();
                println!("the aggregated API responds after {answers:.1?}, the namespace is deleted after {gone:.1?}");
                Ok(())
            })
            .await?;
        Ok(pods::until_all_ready(access).await?)
    });
}

async fn check_without_aggregated_api(
    access: &Access,
    pool: &PoolHandle<'_>,
    namespace: &str,
) -> anyhow::Result<()> {
    until_noticed(access, API_SERVICES[0]).await?;
    namespaces::delete(access, namespace).await?;
    // then pools still work, and machines of deleted pools are garbage-collected,
    pool.scale(3).await?;
    pool.until(ready_replicas(3)).await?;
    pool.delete(PoolDeletion::Background).await?;
    pool.leaves_nothing().await?;
    // while the deletion of namespaces waits, and the status says why.
    Ok(namespaces::until_stuck(access, namespace, API_SERVICES[0]).await?)
}
