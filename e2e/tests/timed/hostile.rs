//! Pools that one tenant stores to take the memory that all pools share.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::api::PostParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use vmpool_e2e::programs::ControllerOptions;
use vmpool_e2e::scenario::scenario;
use vmpool_e2e::world::condition::ready_replicas;
use vmpool_e2e::world::{Pool, World};
use vmpool_e2e::{Error, poll, usage};

const POOL_CRD: &str = "virtualmachinepools.virtualization.deckhouse.io";

/// For one hostile pool; it only bounds a failure.
const DEADLINE: Duration = Duration::from_secs(30);

/// Memory that the chart gives a controller, in MiB.
const LIMIT: f64 = 256.0;

/// What of it stays free, in MiB.
const MARGIN: f64 = 96.0;

/// How many hostile pools there are, and in as many namespaces: `VMPOOL_HOSTILE_POOLS`, or a few.
fn hostile_pools() -> Result<usize> {
    match std::env::var("VMPOOL_HOSTILE_POOLS") {
        Ok(count) => count.parse().with_context(|| format!("VMPOOL_HOSTILE_POOLS {count:?} is no count")),
        Err(_unset) => Ok(20),
    }
}

fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// Takes the limit of tolerations out of the definition of pools, as in a definition that is not ours, and waits until
/// the API server stores more than it.
async fn forget_the_limit(world: &World) -> Result<()> {
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/virtualMachineTemplate/properties/\
                spec/properties/tolerations/maxItems";
    let patch = json!([{ "op": "remove", "path": path }]).to_string();
    world.cluster().kubectl(&["patch", "crd", POOL_CRD, "--type=json", "-p", &patch]).await?;
    Ok(())
}

/// A pool of the largest size that etcd stores, or nearly. The first ones consist of small objects, which take the most
/// memory as a tree; the API server needs seconds for each of them. The others consist of long texts.
fn hostile(namespace: &str, number: usize) -> Value {
    let mut object = json!({
        "apiVersion": "virtualization.deckhouse.io/v1alpha2",
        "kind": "VirtualMachinePool",
        "metadata": { "name": "hostile", "namespace": namespace },
        "spec": {
            "replicas": 0,
            "scaleDownPolicy": "NewestFirst",
            "virtualMachineTemplate": { "spec": {
                "virtualMachineClassName": "generic",
                "cpu": { "cores": 1 },
                "memory": { "size": "512Mi" },
                "blockDeviceRefs": [{ "kind": "VirtualDisk", "name": "root" }],
            }},
            "virtualDiskTemplates": [{ "name": "root", "spec": { "persistentVolumeClaim": { "size": "1Gi" } } }],
        },
    });
    let tolerations = match number {
        0..3 => vec![json!({ "key": "abc" }); 85_000],
        _ => vec![json!({ "key": "k".repeat(1000), "value": "v".repeat(1000) }); 600],
    };
    object["spec"]["virtualMachineTemplate"]["spec"]["tolerations"] = tolerations.into();
    object
}

async fn store(client: &Client, number: usize) -> Result<()> {
    let name = format!("hostile-{number}");
    let namespaces: Api<DynamicObject> = Api::all_with(client.clone(), &resource("", "v1", "Namespace"));
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    namespaces.create(&PostParams::default(), &serde_json::from_value(namespace)?).await?;
    let pools = resource("virtualization.deckhouse.io", "v1alpha2", "VirtualMachinePool");
    let pools: Api<DynamicObject> = Api::namespaced_with(client.clone(), &name, &pools);
    let object: DynamicObject = serde_json::from_value(hostile(&name, number))?;
    // The changed definition takes a moment.
    let create = async || {
        let created = pools.create(&PostParams::default(), &object).await;
        Ok(created.map(drop).map_err(|error| error.to_string()))
    };
    Ok(poll::until(|| format!("hostile pool {number} is stored"), DEADLINE, create).await?)
}

/// Waits until the hostile pool of this number says that it is invalid.
async fn until_refused(client: &Client, number: usize) -> Result<()> {
    let pools = resource("virtualization.deckhouse.io", "v1alpha2", "VirtualMachinePool");
    let pools: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &format!("hostile-{number}"), &pools);
    let is_refused = async || {
        let pool = pools.get("hostile").await.map_err(Error::api("reading a hostile pool"))?;
        let conditions = pool.data["status"]["conditions"].to_string();
        Ok(if conditions.contains("more than the limit of 131072") { Ok(()) } else { Err(conditions) })
    };
    Ok(poll::until(|| format!("hostile pool {number} has a condition"), DEADLINE, is_refused).await?)
}

/// How long a pool takes to remove its machines and to make them again.
async fn shrink_and_grow(pool: &Pool<'_>) -> Result<Duration> {
    let begin = Instant::now();
    pool.scale(0).await?;
    pool.until(ready_replicas(0)).await?;
    pool.scale(2).await?;
    pool.until(ready_replicas(2)).await?;
    Ok(begin.elapsed())
}

#[test]
fn pools_of_the_largest_size_cost_no_other_pool_anything() {
    scenario("pools of the largest size cost no other pool anything")
        .on_its_own_cluster()
        .controllers(0)
        .ends_unsettled()
        .run(async |world| {
            let controller = world.add_controller_with(ControllerOptions::everywhere("leader")).await?;
            let pid = || controller.pid().context("the controller has no process");
            // Given a pool that converges,
            let pool = world.pool("web").replicas(2).ready().await?;
            let alone = shrink_and_grow(&pool).await?;
            let before = usage::memory(pid()?)?;
            // when a tenant stores pools of the largest size,
            forget_the_limit(world).await?;
            let client = world.client();
            let count = hostile_pools()?;
            for number in 0..count {
                store(&client, number).await?;
            }
            // then each of them gets a condition,
            for number in 0..count {
                until_refused(&client, number).await?;
            }
            // the other pool converges as before,
            let among = shrink_and_grow(&pool).await?;
            // and the controller has the memory that it needs; a successor, which lists all of them, too.
            let after = usage::memory(pid()?)?;
            controller.restart().await?;
            pool.scale(3).await?;
            pool.until(ready_replicas(3)).await?;
            let listed = usage::memory(pid()?)?;
            println!(
                "{count} hostile pools: {before:?} before, {after:?} after, {listed:?} in a successor; a pool took {alone:?} \
                 to shrink and grow alone, and {among:?} among them"
            );
            // The API server is slower now, too.
            ensure!(among < alone * 2 + Duration::from_secs(5), "{among:?}, and {alone:?} alone");
            for memory in [after, listed] {
                ensure!(memory.peak < LIMIT - MARGIN, "{memory:?} of {LIMIT} MiB");
            }
            Ok::<_, anyhow::Error>(())
        });
}
