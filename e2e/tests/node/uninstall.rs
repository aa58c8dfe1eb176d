//! The chart is uninstalled and installed again.

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::{Value, json};
use vmpool_e2e::world::condition::{live_machine_count, negate_condition, pool_exists, ready_replicas};
use vmpool_e2e::world::{PoolDeletion, PoolHandle, PoolScaleDownPolicy, SETTLE, ScenarioWorld};
use vmpool_installation::installation::kubevirt_definitions;
use vmpool_installation::programs::SYSTEM_NAMESPACE;
use vmpool_installation::release::{API_SERVICES, WEBHOOK};
use vmpool_invariants::object::object_uids;
use vmpool_test_cluster::Result;
use vmpool_test_cluster::access::Access;
use vmpool_test_cluster::control_plane::{apply_manifests, read_yaml_documents};
use vmpool_test_cluster::poll;

use crate::stage::alone;
use crate::{namespaces, pods};

/// The names of all objects of a kind.
async fn names(access: &Access, kind: &str) -> Result<Vec<String>> {
    let listed = access.kubectl(&["get", kind, "--output=name"]).await?;
    Ok(listed.lines().map(str::to_owned).collect())
}

/// Checks that no object of the chart affects requests to the API server.
async fn ensure_nothing_blocks(access: &Access) -> anyhow::Result<()> {
    let webhooks = names(access, "validatingwebhookconfigurations,mutatingwebhookconfigurations").await?;
    ensure!(webhooks.iter().all(|name| !name.contains(WEBHOOK)), "{webhooks:?}");
    let services = names(access, "apiservices").await?;
    ensure!(services.iter().all(|name| API_SERVICES.iter().all(|ours| !name.contains(ours))), "{services:?}");
    let roles = names(access, "clusterroles,clusterrolebindings").await?;
    // The simulator's role does not belong to the chart.
    let ours = |name: &&String| name.contains("/vmpool-") && !name.contains("vmpool-simulator");
    let left: Vec<&String> = roles.iter().filter(ours).collect();
    ensure!(left.is_empty(), "roles without a subject remain: {left:?}");
    Ok(())
}

/// What users can do to pools after the chart was uninstalled.
async fn pools_are_free(world: &ScenarioWorld, kept: &PoolHandle<'_>) -> anyhow::Result<()> {
    // The webhook no longer refuses a scale-down of an Explicit pool, and no controller performs it,
    kept.edit(&json!({ "spec": { "replicas": 1 } })).await?;
    kept.holds(live_machine_count(2), SETTLE).await?;
    kept.edit(&json!({ "spec": { "replicas": 2 } })).await?;
    // and pools can be created and deleted.
    let idle = world.pool("idle").replicas(1).create().await?;
    idle.delete(PoolDeletion::Foreground).await?;
    idle.until(negate_condition(pool_exists())).await?;
    Ok(())
}

/// Creates a namespace with a pool.
async fn create_pool_in_namespace(access: &Access, namespace: &str, pool: &Value) -> anyhow::Result<()> {
    namespaces::create(access, namespace).await?;
    apply_manifests(&access.client, std::slice::from_ref(pool), Some(namespace)).await?;
    Ok(())
}

/// The values with which objects have finalizers of vmpool.
const WITH_FINALIZERS: [&str; 2] = ["platforms.kubevirt.enabled=true", "instancetype.mode=Standalone"];
/// The definitions that the chart then installs, and keeps.
const DEFINITIONS: [&str; 5] = [
    "virtualmachinepools.pool.kubevirt.io",
    "virtualmachineclusterinstancetypes.instancetype.kubevirt.io",
    "virtualmachineclusterpreferences.instancetype.kubevirt.io",
    "virtualmachineinstancetypes.instancetype.kubevirt.io",
    "virtualmachinepreferences.instancetype.kubevirt.io",
];
/// An instance type, as kubectl names it.
const INSTANCE_TYPE: &str = "virtualmachineclusterinstancetype/small";

/// The finalizers of the instance type.
async fn finalizers(access: &Access) -> Result<String> {
    access.kubectl(&["get", INSTANCE_TYPE, "--output=jsonpath={.metadata.finalizers}"]).await
}

/// Creates an instance type, which gets a finalizer.
async fn protect_an_instance_type(access: &Access) -> anyhow::Result<()> {
    let object = json!({
        "apiVersion": "instancetype.kubevirt.io/v1beta1",
        "kind": "VirtualMachineClusterInstancetype",
        "metadata": { "name": "small" },
        "spec": { "cpu": { "guest": 1 }, "memory": { "guest": "1Gi" } },
    });
    apply_manifests(&access.client, &[object], None).await?;
    let finalizers = finalizers(access).await?;
    ensure!(finalizers.contains("vmpool.dev/instancetype-protection"), "it has {finalizers:?}");
    Ok(())
}

/// The namespace with a pool of KubeVirt.
const STUDIO: &str = "studio";
/// The machines of that pool, as kubectl names them.
const MACHINES: [&str; 2] = ["virtualmachines.kubevirt.io/render-0", "virtualmachines.kubevirt.io/render-1"];
/// That pool.
const POOL: &str = "virtualmachinepools.pool.kubevirt.io/render";

/// The definitions that KubeVirt and CDI install.
fn definitions_of_kubevirt() -> Result<Vec<Value>> {
    let [_, platform] = kubevirt_definitions();
    read_yaml_documents(&platform)
}

/// The machines in that namespace.
async fn machines(access: &Access) -> Result<String> {
    access.kubectl(&["get", "virtualmachines.kubevirt.io", "-n", STUDIO, "--output=name"]).await
}

/// Creates a pool of KubeVirt whose machines use the instance type. No KubeVirt runs, so they do not start.
async fn create_a_pool_of_kubevirt(access: &Access) -> anyhow::Result<()> {
    apply_manifests(&access.client, &definitions_of_kubevirt()?, None).await?;
    let labels = json!({ "app": "render" });
    let pool = json!({
        "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "metadata": { "name": "render" },
        "spec": {
            "replicas": MACHINES.len(),
            "selector": { "matchLabels": labels },
            "instancetypePolicy": "Pin",
            "virtualMachineTemplate": {
                "metadata": { "labels": labels },
                "spec": {
                    "runStrategy": "Always",
                    "instancetype": { "name": "small" },
                    "template": {
                        "metadata": { "labels": labels },
                        "spec": { "domain": { "devices": {} } },
                    },
                },
            },
        },
    });
    create_pool_in_namespace(access, STUDIO, &pool).await?;
    let what = || "the pool of KubeVirt has its machines".to_owned();
    poll::poll_until(what, SETTLE * 6, async || {
        let listed = machines(access).await.unwrap_or_else(|error| error.to_string());
        Ok(if listed.lines().count() == MACHINES.len() { Ok(()) } else { Err(listed) })
    })
    .await?;
    for object in [&[POOL][..], &MACHINES].concat() {
        let finalizers = metadata(access, object, "finalizers").await?;
        ensure!(finalizers.contains("pool.kubevirt.io/finalizer"), "{object} has {finalizers:?}");
    }
    Ok(())
}

/// A field of the metadata of an object in that namespace.
async fn metadata(access: &Access, object: &str, field: &str) -> Result<String> {
    access.kubectl(&["get", object, "-n", STUDIO, &format!("--output=jsonpath={{.metadata.{field}}}")]).await
}

/// The Job of the chart removed the finalizers of the pool and its machines, and made the machines the owners
/// of their copy.
async fn the_pool_of_kubevirt_is_free(access: &Access) -> anyhow::Result<()> {
    for object in [&[POOL][..], &MACHINES].concat() {
        let finalizers = metadata(access, object, "finalizers").await?;
        ensure!(finalizers.is_empty(), "{object} has {finalizers:?}");
    }
    let copies = ["get", "controllerrevisions", "-n", STUDIO, "-l", "vmpool.dev/pool-uid"];
    let owners = "--output=jsonpath={.items[*].metadata.ownerReferences[*].name}";
    let owners = access.kubectl(&[&copies[..], &[owners]].concat()).await?;
    let mut owners: Vec<&str> = owners.split_whitespace().collect();
    owners.sort_unstable();
    ensure!(owners == ["render-0", "render-1"], "the copy has the owners {owners:?}");
    // A deleted pool takes its machines with it. The garbage collector knows their new definition only after
    // its next discovery, half a minute later at most, and can delete the pool before them.
    access.kubectl(&["delete", POOL, "-n", STUDIO, "--cascade=foreground", "--timeout=60s"]).await?;
    let what = || "the machines of the deleted pool are gone".to_owned();
    poll::poll_until(what, Duration::from_mins(2), async || {
        let left = machines(access).await?;
        Ok(if left.is_empty() { Ok(()) } else { Err(left) })
    })
    .await?;
    namespaces::delete(access, STUDIO).await?;
    namespaces::until_gone(access, STUDIO).await.map(drop)?;
    Ok(())
}

/// The Job of the chart removed the finalizer, so that objects and definitions can be deleted.
async fn nothing_is_protected(access: &Access) -> anyhow::Result<()> {
    let finalizers = finalizers(access).await?;
    ensure!(finalizers.is_empty(), "the instance type has {finalizers:?}");
    let definitions = definitions_of_kubevirt()?;
    let of_kubevirt = definitions.iter().filter_map(|definition| definition["metadata"]["name"].as_str());
    let mut delete = vec!["delete", "customresourcedefinition"];
    delete.extend(DEFINITIONS.into_iter().chain(of_kubevirt));
    access.kubectl(&delete).await?;
    Ok(())
}

pub(crate) fn uninstalling_the_chart_keeps_pools_and_machines_and_blocks_nothing() {
    const NAMESPACE: &str = "goes-with-its-pool";
    alone(async |stage| {
        let access = stage.access();
        stage
            .visit("the chart is uninstalled", async |world| {
                let kept = world.pool("kept").policy(PoolScaleDownPolicy::Explicit).replicas(2).ready().await?;
                let before = object_uids(&kept.machines().await?);
                let mut other = world.pool("other").replicas(1).object();
                other["metadata"].as_object_mut().map(|metadata| metadata.remove("namespace"));
                create_pool_in_namespace(access, NAMESPACE, &other).await?;
                stage.release().upgrade(&WITH_FINALIZERS).await?;
                protect_an_instance_type(access).await?;
                create_a_pool_of_kubevirt(access).await?;
                // When the chart is uninstalled and a namespace is deleted at the same time,
                let begin = Instant::now();
                stage.release().uninstall().await?;
                let uninstalled = begin.elapsed();
                namespaces::delete(access, NAMESPACE).await?;
                // then no object of the chart affects other requests,
                ensure_nothing_blocks(access).await?;
                the_pool_of_kubevirt_is_free(access).await?;
                nothing_is_protected(access).await?;
                // its own namespace can be deleted, too, including the certificates that the programs
                // created,
                namespaces::delete(access, SYSTEM_NAMESPACE).await?;
                // and pools and machines still exist.
                ensure!(object_uids(&kept.machines().await?) == before, "the machines were replaced");
                let (gone, own, ()) = futures::try_join!(
                    async { Ok(namespaces::until_gone(access, NAMESPACE).await?) },
                    async { Ok(namespaces::until_gone(access, SYSTEM_NAMESPACE).await?) },
                    pools_are_free(world, &kept),
                )?;
                println!(
                    "uninstalled after {uninstalled:.1?}; a namespace with a pool went in {gone:.1?}, its own in {own:.1?}"
                );
                // After a new installation, the controller continues with the existing pools.
                stage.release().reinstall().await?;
                let machine = kept.machine(0).await?;
                kept.remove(std::slice::from_ref(&machine)).await?;
                kept.until(ready_replicas(1)).await?;
                let after = object_uids(&kept.machines().await?);
                ensure!(after == before[1..], "of {before:?} only {after:?} remain");
                Ok(())
            })
            .await?;
        pods::until_all_ready(access).await?;
        let calm = stage.load().mark();
        tokio::time::sleep(SETTLE).await;
        stage.load().ensure_served_since(calm)
    });
}
