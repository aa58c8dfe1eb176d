//! Objects with which one tenant tries to exhaust memory that all pools share.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use vmpool_api::labels;
use vmpool_api::v1alpha2::API_VERSION;
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::condition::ready_replicas;
use vmpool_e2e::world::{PoolHandle, ScenarioWorld};
use vmpool_installation::installation::{GuardOptions, UNGUARDED};
use vmpool_installation::programs::{Component, ControllerOptions};
use vmpool_test_cluster::{Error, poll, usage};

const POOL_CRD: &str = "virtualmachinepools.virtualization.deckhouse.io";
const MACHINE_CRD: &str = "virtualmachines.virtualization.deckhouse.io";

/// Timeout for one hostile pool; it only limits failures.
const DEADLINE: Duration = Duration::from_secs(30);

/// Memory that the chart gives a controller, in MiB.
const LIMIT: f64 = 256.0;

/// Part of it that must remain free, in MiB.
const MARGIN: f64 = 96.0;

/// Number of hostile pools, each in its own namespace: `VMPOOL_HOSTILE_POOLS`, or 20.
fn hostile_pools() -> Result<usize> {
    match std::env::var("VMPOOL_HOSTILE_POOLS") {
        Ok(count) => count.parse().with_context(|| format!("VMPOOL_HOSTILE_POOLS={count} is not a number")),
        Err(_unset) => Ok(20),
    }
}

fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// Removes the limit of tolerations from a CRD, like a CRD that another project has installed. `path` leads
/// to the spec of the machine. Shortly afterwards, the API server accepts more tolerations.
async fn remove_limit(world: &ScenarioWorld, definition: &str, path: &str) -> Result<()> {
    let path = format!(
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/{path}tolerations/maxItems"
    );
    let patch = json!([{ "op": "remove", "path": path }]).to_string();
    world.cluster().kubectl(&["patch", "crd", definition, "--type=json", "-p", &patch]).await?;
    Ok(())
}

async fn remove_limit_of_pools(world: &ScenarioWorld) -> Result<()> {
    remove_limit(world, POOL_CRD, "virtualMachineTemplate/properties/spec/properties/").await
}

/// A pool of the largest size that etcd stores, or nearly. The first ones consist of small objects, which
/// take the most memory as a tree; the API server needs seconds for each of them. The others consist of long
/// texts.
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
        _ => long_tolerations(),
    };
    object["spec"]["virtualMachineTemplate"]["spec"]["tolerations"] = tolerations.into();
    object
}

/// More than a megabyte of long texts.
fn long_tolerations() -> Vec<Value> {
    vec![json!({ "key": "k".repeat(1000), "value": "v".repeat(1000) }); 600]
}

async fn store(client: &Client, number: usize) -> Result<()> {
    let name = format!("hostile-{number}");
    create_namespace(client, &name).await?;
    store_in(client, &name, number).await
}

async fn create_namespace(client: &Client, name: &str) -> Result<()> {
    let namespaces: Api<DynamicObject> = Api::all_with(client.clone(), &resource("", "v1", "Namespace"));
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    namespaces.create(&PostParams::default(), &serde_json::from_value(namespace)?).await?;
    Ok(())
}

async fn store_in(client: &Client, namespace: &str, number: usize) -> Result<()> {
    let pools = resource("virtualization.deckhouse.io", "v1alpha2", "VirtualMachinePool");
    let pools: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &pools);
    let object: DynamicObject = serde_json::from_value(hostile(namespace, number))?;
    // The changed CRD is not in effect immediately.
    let create = async || {
        let created = pools.create(&PostParams::default(), &object).await;
        Ok(created.map(drop).map_err(|error| error.to_string()))
    };
    Ok(poll::poll_until(|| format!("hostile pool {number} is stored"), DEADLINE, create).await?)
}

/// Waits until a condition of the hostile pool with this number reports that the pool is invalid.
async fn until_refused(client: &Client, number: usize) -> Result<()> {
    let pools = resource("virtualization.deckhouse.io", "v1alpha2", "VirtualMachinePool");
    let pools: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &format!("hostile-{number}"), &pools);
    let is_refused = async || {
        let pool = pools.get("hostile").await.map_err(Error::api("reading a hostile pool"))?;
        let conditions = pool.data["status"]["conditions"].to_string();
        Ok(if conditions.contains("more than the limit of 131072") { Ok(()) } else { Err(conditions) })
    };
    Ok(poll::poll_until(|| format!("hostile pool {number} has a condition"), DEADLINE, is_refused).await?)
}

/// Duration of a scale-down of the pool to zero and a scale-up to two machines.
async fn scale_down_and_up(pool: &PoolHandle<'_>) -> Result<Duration> {
    let begin = Instant::now();
    pool.scale(0).await?;
    pool.until(ready_replicas(0)).await?;
    pool.scale(2).await?;
    pool.until(ready_replicas(2)).await?;
    Ok(begin.elapsed())
}

#[test]
fn pools_of_the_largest_size_do_not_affect_other_pools() {
    define_scenario("pools of the largest size do not affect other pools")
        .on_its_own_cluster()
        .controllers(0)
        .ends_unsettled()
        .run(async |world| {
            let controller = world.add_controller_with(ControllerOptions::everywhere("leader")).await?;
            let pid = || controller.pid().context("the controller has no process");
            // Given a pool that converges,
            let pool = world.pool("web").replicas(2).ready().await?;
            let alone = scale_down_and_up(&pool).await?;
            let before = usage::resident_memory(pid()?)?;
            // when a tenant stores pools of the largest size,
            remove_limit_of_pools(world).await?;
            let client = world.client();
            let count = hostile_pools()?;
            for number in 0..count {
                store(&client, number).await?;
            }
            // then the controller sets a condition of each of them,
            for number in 0..count {
                until_refused(&client, number).await?;
            }
            // the other pool converges as before,
            let among = scale_down_and_up(&pool).await?;
            // and the memory of the controller is sufficient, also after a restart, when it lists all of
            // them.
            let after = usage::resident_memory(pid()?)?;
            controller.restart().await?;
            pool.scale(3).await?;
            pool.until(ready_replicas(3)).await?;
            let listed = usage::resident_memory(pid()?)?;
            println!(
                "{count} hostile pools: {before:?} before, {after:?} after, {listed:?} after a restart; scaling a pool took {alone:?} \
                 alone, and {among:?} with them"
            );
            // The API server is also slower.
            ensure!(among < alone * 2 + Duration::from_secs(5), "{among:?}, and {alone:?} alone");
            for memory in [after, listed] {
                ensure!(memory.peak < LIMIT - MARGIN, "{memory:?} of {LIMIT} MiB");
            }
            Ok::<_, anyhow::Error>(())
        });
}

/// Number of copies of each hostile object.
const COPIES: usize = 8;

/// A megabyte of small objects, for each of which a decoder to a tree allocates memory.
fn small_objects() -> Value {
    vec![json!({ "a": 0 }); 130_000].into()
}

/// Metadata with as many annotations as Kubernetes stores, and with the label of a
/// pool.
fn claimed_metadata(name: &str, pool_uid: &str) -> Value {
    let annotations: serde_json::Map<String, Value> =
        (0..20_000).map(|number| (format!("k{number}"), json!("v"))).collect();
    json!({
        "name": name,
        "labels": { labels::POOL_UID: pool_uid },
        "annotations": annotations,
    })
}

/// The hostile objects except pools, all of which a user of the namespace can create.
fn hostile_objects(pool_uid: &str, number: usize) -> Vec<Value> {
    let revision = |name: &str| claimed_metadata(&format!("{name}-{number}"), pool_uid);
    // The pool must not adopt these, because it would remove them as a surplus.
    let metadata = |name: &str| claimed_metadata(&format!("{name}-{number}"), "a-pool-that-was-deleted");
    let text = "x".repeat(1 << 20);
    let nested = (0..400).fold(json!(0), |inner, _| json!([inner]));
    vec![
        json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number,
            "metadata": revision("small"), "data": { "spec": small_objects() },
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number,
            "metadata": revision("long"), "data": { "spec": text },
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number,
            "metadata": revision("nested"), "data": { "spec": nested },
        }),
        json!({
            "apiVersion": API_VERSION, "kind": "VirtualMachine", "metadata": metadata("machine"),
            "spec": {
                "virtualMachineClassName": "generic",
                "cpu": { "cores": 1 },
                "memory": { "size": "512Mi" },
                "blockDeviceRefs": [{ "kind": "VirtualDisk", "name": format!("disk-{number}") }],
                "tolerations": long_tolerations(),
            },
        }),
        json!({
            "apiVersion": API_VERSION, "kind": "VirtualDisk", "metadata": metadata("disk"),
            "spec": { "persistentVolumeClaim": { "size": "1Gi" } },
        }),
        json!({
            "apiVersion": API_VERSION, "kind": "VirtualMachineBlockDeviceAttachment", "metadata": metadata("attachment"),
            "spec": {
                "virtualMachineName": format!("machine-{number}"),
                "blockDeviceRef": { "kind": "VirtualDisk", "name": format!("disk-{number}") },
            },
        }),
    ]
}

/// Creates an object. The response is not decoded, because decoders refuse deep nesting.
async fn create(client: &Client, namespace: &str, object: &Value) -> Result<()> {
    let [api_version, kind] = ["apiVersion", "kind"].map(|field| object[field].as_str().unwrap_or_default());
    let (group, version) = api_version.split_once('/').context("an object has no group")?;
    let path =
        Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource(group, version, kind));
    let request = kube::core::Request::new(path.resource_url());
    let request = request.create(&PostParams::default(), serde_json::to_vec(object)?)?;
    client.request_text(request).await.with_context(|| format!("creating {}", object["metadata"]["name"]))?;
    Ok(())
}

#[test]
fn objects_of_the_largest_size_do_not_affect_pools() {
    define_scenario("objects of the largest size do not affect pools")
        .on_its_own_cluster()
        .controllers(0)
        .ends_unsettled()
        .run(async |world| {
            let controller = world.add_controller_with(ControllerOptions::everywhere("leader")).await?;
            let pid = || controller.pid().context("the controller has no process");
            let pool = world.pool("web").replicas(2).ready().await?;
            let uid = pool.get().await?.uid().to_owned();
            let before = usage::resident_memory(pid()?)?;
            // When a tenant stores machines, disks, attachments and revisions of the largest size with the
            // labels of the pool,
            remove_limit(world, MACHINE_CRD, "").await?;
            for number in 0..COPIES {
                for object in hostile_objects(&uid, number) {
                    // The changed CRD is not in effect immediately.
                    let create = async || {
                        let created = create(&world.client(), world.namespace(), &object).await;
                        Ok(created.map_err(|error| format!("{error:#}")))
                    };
                    poll::poll_until(|| "a hostile object is stored".to_owned(), DEADLINE, create).await?;
                }
            }
            // then the pool converges as before, also after a restart of the controller, which lists all of
            // them,
            pool.scale(3).await?;
            pool.until(ready_replicas(3)).await?;
            let after = usage::resident_memory(pid()?)?;
            controller.restart().await?;
            pool.scale(2).await?;
            pool.until(ready_replicas(2)).await?;
            let listed = usage::resident_memory(pid()?)?;
            println!("{COPIES} hostile objects of each kind: {before:?} before, {after:?} after, {listed:?} after a restart");
            // and the memory of the controller is sufficient.
            for memory in [after, listed] {
                ensure!(memory.peak < LIMIT - MARGIN, "{memory:?} of {LIMIT} MiB");
            }
            Ok::<_, anyhow::Error>(())
        });
}

/// Memory that the chart gives a replica of the webhook, in MiB.
const WEBHOOK_LIMIT: f64 = 128.0;

/// Part of it that must remain free, in MiB.
const WEBHOOK_MARGIN: f64 = 32.0;

/// An AdmissionReview of 1.5 MB with small objects, which any Pod can send.
fn hostile_review() -> String {
    let object = json!({ "spec": vec![json!({ "a": 0 }); 190_000] });
    let request =
        json!({ "uid": "u", "operation": "CREATE", "namespace": "a", "name": "b", "object": object });
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request }).to_string()
}

/// Sends a body to the webhook without a client certificate. Returns the response.
async fn post_to_webhook(port: u16, body: String) -> Result<String> {
    let mut config = kube::Config::new(format!("https://127.0.0.1:{port}").parse()?);
    config.accept_invalid_certs = true;
    let request = http::Request::post(vmpool_platforms::dvp::admission::POOL_PATH)
        .header("Content-Type", "application/json");
    Ok(Client::try_from(config)?.request_text(request.body(body.into_bytes())?).await?)
}

#[test]
fn reviews_of_the_largest_size_do_not_exhaust_the_memory_of_the_webhook() {
    define_scenario("reviews of the largest size").guarded_by(GuardOptions::default()).ends_unsettled().run(
        async |world| {
            let webhook = world.installation().guard()?.service(Component::Webhook)?;
            remove_limit_of_pools(world).await?;
            // Given a hostile pool that was stored before the webhook was enabled for its namespace,
            let client = world.client();
            let name = "hostile-0";
            world.cluster().kubectl(&["create", "namespace", name]).await?;
            let label = |text: String| async move {
                world.cluster().kubectl(&["label", "namespace", name, &text]).await
            };
            label(format!("{UNGUARDED}=true")).await?;
            store_in(&client, name, 0).await?;
            label(format!("{UNGUARDED}-")).await?;
            // when users change its replicas repeatedly,
            let pools = resource("virtualization.deckhouse.io", "v1alpha2", "VirtualMachinePool");
            let pools: Api<DynamicObject> = Api::namespaced_with(client.clone(), name, &pools);
            let patch = Patch::Merge(json!({ "spec": { "replicas": 1 } }));
            let refused = || async {
                let result = pools.patch("hostile", &PatchParams::default(), &patch).await;
                match result {
                    Err(kube::Error::Api(status)) if status.code == 413 => Ok(()),
                    other => Err(format!("{:?}", other.map(|pool| pool.metadata.generation))),
                }
            };
            poll::poll_until(
                || "the webhook refuses changes of the hostile pool".to_owned(),
                DEADLINE,
                async || Ok(refused().await),
            )
            .await?;
            for _ in 0..4 {
                refused().await.map_err(anyhow::Error::msg)?;
            }
            // and a Pod without a client certificate sends large reviews,
            for _ in 0..3 {
                let posts = webhook
                    .ports()
                    .iter()
                    .flat_map(|port| [*port; 4])
                    .map(|port| post_to_webhook(port, hostile_review()));
                // The API server of this cluster has a client certificate, so the webhook requires one.
                let results = futures::future::join_all(posts).await;
                let answers: Vec<&String> = results.iter().flatten().collect();
                ensure!(answers.is_empty(), "without a client certificate: {answers:?}");
            }
            // then the memory of every replica is sufficient, and the webhook responds for other pools as
            // before.
            for replica in webhook.replicas() {
                let memory = usage::resident_memory(replica.pid().context("a replica has no process")?)?;
                println!("a replica of the webhook: {memory:?}");
                ensure!(memory.peak < WEBHOOK_LIMIT - WEBHOOK_MARGIN, "{memory:?} of {WEBHOOK_LIMIT} MiB");
            }
            world.pool("web").replicas(1).ready().await?;
            Ok::<_, anyhow::Error>(())
        },
    );
}
