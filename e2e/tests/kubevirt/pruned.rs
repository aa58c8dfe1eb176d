//! Pools whose definition is that of KubeVirt, which has none of the status fields of vmpool.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_installation::installation::{cluster_options, kubevirt_definitions};
use vmpool_installation::programs::{Accounts, Chart};
use vmpool_test_cluster::control_plane::ControlPlane;
use vmpool_test_cluster::deadline::Deadline;

use crate::pools::spec;
use crate::world::run_with;
use crate::{POOLS, Place, Unknown, minimal, run_to_end};

const NAMESPACE: &str = "team";
/// The fields that only vmpool has in the spec of a pool.
const OWN_SETTINGS: [&str; 2] = ["instancetypePolicy", "maxProtection"];
/// The fields that only vmpool has in its status.
const OWN: [&str; 7] = [
    "observedGeneration",
    "availableReplicas",
    "updatedReplicas",
    "restartPendingReplicas",
    "healedReplicas",
    "currentRevision",
    "activity",
];

/// Removes the fields of vmpool from the definition, and waits until the API server prunes them.
async fn prune(place: &Place<'_>) -> Result<()> {
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{POOLS}");
    let mut definition = place.ask(Method::GET, &path, &Value::Null).await?;
    for version in definition["spec"]["versions"].as_array_mut().context("it has versions")? {
        let schema = version["schema"]["openAPIV3Schema"].as_object_mut().context("it has a schema")?;
        // The rules of vmpool are about its own fields.
        schema.remove("x-kubernetes-validations");
        for (part, own) in [("spec", &OWN_SETTINGS[..]), ("status", &OWN[..])] {
            let fields =
                version["schema"]["openAPIV3Schema"]["properties"][part]["properties"].as_object_mut();
            let fields = fields.with_context(|| format!("it has no {part}"))?;
            let removed = own.iter().filter(|field| fields.remove(**field).is_some()).count();
            ensure!(removed == own.len(), "the definition has other fields: {fields:?}");
        }
    }
    place.ask(Method::PUT, &path, &definition).await?;
    let pool = place.pool("trial")?;
    let deadline = Deadline::after(Duration::from_secs(30));
    let mut replicas = 0;
    loop {
        replicas += 1;
        let status = json!({ "status": { "replicas": replicas, "updatedReplicas": replicas } });
        // While the API server replaces the storage of a changed definition, it answers requests with
        // 503, as if it were shutting down.
        let found = match place.write(&minimal("trial"), Unknown::Refused).await? {
            Ok(_created) => place.send(Method::PATCH, &format!("{pool}/status"), &status).await?,
            Err(refused) => Err(refused),
        };
        match found {
            Ok(found) if found["status"].get("updatedReplicas").is_none() => break,
            Ok(_not_yet_pruned) => {}
            Err(refused) => ensure!(refused.code == 503, "{refused:?}"),
        }
        ensure!(!deadline.is_over(), "the API server does not prune the fields");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    place.ask(Method::DELETE, &pool, &Value::Null).await.map(drop)
}

#[test]
fn with_the_definition_of_kubevirt_the_status_has_its_fields_and_is_not_written_again() {
    run_to_end(async {
        let mut options = cluster_options("kubevirt-pruned");
        options.manifests.extend(kubevirt_definitions());
        let cluster = ControlPlane::start(options).await?;
        let chart = Chart::render(&["platforms.kubevirt.enabled=true".to_owned()]).await?;
        let accounts = Accounts::of(&chart, &cluster).await?;
        cluster.kubectl(&["create", "namespace", NAMESPACE]).await?;
        prune(&Place { cluster: &cluster, namespace: NAMESPACE }).await?;
        let place = Place { cluster: &cluster, namespace: NAMESPACE };
        run_with(&accounts, place, "kubevirt", async |world| {
            world.create("p", &spec(2)).await?;
            world.until_ready(&["p-0", "p-1"]).await?;
            let pool = world.until_status("p", 2).await?;
            ensure!(OWN.iter().all(|field| pool["status"].get(*field).is_none()), "{pool}");
            world.is_settled().await?;
            world.patch("p", &json!({ "spec": { "replicas": 3 } })).await?;
            world.until_ready(&["p-0", "p-1", "p-2"]).await?;
            world.until_status("p", 3).await?;
            world.is_settled().await
        })
        .await
    });
}
