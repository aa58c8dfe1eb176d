//! Taking over a pool whose template has explicit zeros, which Go's encoder dropped from what virt-controller
//! stored.

use anyhow::{Result, anyhow, ensure};
use http::Method;
use serde_json::{Value, json};

use crate::Unknown;
use crate::pools::bare;
use crate::world::{KubeVirtWorld, alone, text};

const COLLECTION: &str = "/apis/kubevirt.io/v1/namespaces/kubevirt-zero-values/kubevirts";

/// The spec of an instance as Go's encoder writes it.
fn encoded_instance_spec() -> Value {
    json!({
        "domain": {
            "memory": { "guest": "1Gi" },
            "resources": {},
            "features": { "kvm": {}, "apic": {} },
            "devices": { "interfaces": [{ "name": "default", "masquerade": {} }] },
        },
        "networks": [{ "name": "default", "pod": {} }],
        "readinessProbe": { "tcpSocket": { "port": 22 } },
        "volumes": [],
    })
}

/// The same spec as its user wrote it.
fn explicit_instance_spec() -> Value {
    let mut spec = encoded_instance_spec();
    let domain = &mut spec["domain"];
    domain["resources"]["overcommitGuestOverhead"] = json!(false);
    domain["features"]["kvm"]["hidden"] = json!(false);
    domain["features"]["apic"]["endOfInterrupt"] = json!(false);
    domain["devices"]["disableHotplug"] = json!(false);
    domain["devices"]["interfaces"][0]["acpiIndex"] = json!(0);
    for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds"] {
        spec["readinessProbe"][field] = json!(0);
    }
    spec
}

/// The spec of the pool with this spec of an instance.
fn pool_spec(instance: Value) -> Value {
    let mut spec = bare("zeros", 2);
    let template = &mut spec["virtualMachineTemplate"]["spec"];
    template["template"]["spec"] = instance;
    if let Some(template) = template.as_object_mut() {
        template.remove("dataVolumeTemplates");
    }
    spec
}

/// The machine with this ordinal as virt-controller creates it.
fn encoded_machine(pool: &Value, ordinal: usize) -> Value {
    let mut machine = pool_spec(encoded_instance_spec())["virtualMachineTemplate"].clone();
    let revision = "kubevirt.io/vm-pool-revision-name";
    machine["apiVersion"] = json!("kubevirt.io/v1");
    machine["kind"] = json!("VirtualMachine");
    machine["metadata"]["name"] = json!(format!("zeros-{ordinal}"));
    machine["metadata"]["labels"][revision] = json!("zeros-1");
    machine["metadata"]["finalizers"] = json!(["pool.kubevirt.io/finalizer"]);
    machine["metadata"]["ownerReferences"] = json!([owner(pool)]);
    machine["spec"]["template"]["metadata"]["labels"][revision] = json!("zeros-1");
    machine
}

fn owner(pool: &Value) -> Value {
    json!({
        "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "name": "zeros",
        "uid": pool["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    })
}

/// Stores what virt-controller has made of the pool.
async fn leave_behind(world: &KubeVirtWorld<'_>) -> Result<()> {
    let write = async |object: &Value| -> Result<()> {
        let stored = world.place.write(object, Unknown::Refused).await?;
        stored.map(drop).map_err(|status| anyhow!("{}", status.message))
    };
    write(&json!({
        "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool",
        "metadata": { "name": "zeros", "finalizers": ["pool.kubevirt.io/finalizer"] },
        "spec": pool_spec(explicit_instance_spec()),
    }))
    .await?;
    let pool = world.pool("zeros").await?;
    ensure!(pool["metadata"]["generation"] == 1, "the revision has the number of the generation");
    write(&json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
        "metadata": { "name": "zeros-1", "ownerReferences": [owner(&pool)] },
        "data": pool_spec(encoded_instance_spec()),
    }))
    .await?;
    for ordinal in [0, 1] {
        write(&encoded_machine(&pool, ordinal)).await?;
    }
    world.until_ordinals("zeros", &[0, 1]).await.map(drop)
}

/// Tells the controller whether the pool loop of virt-controller is off.
async fn install_kubevirt(world: &KubeVirtWorld<'_>, threads: Value) -> Result<()> {
    let spec = json!({ "spec": {
        "customizeComponents": { "flags": { "controller": { "pool-controller-threads": threads } } },
    } });
    let path = format!("{COLLECTION}/kubevirt");
    let stored = world.place.ask(Method::PATCH, &path, &spec).await?;
    let status = json!({ "status": {
        "phase": "Deployed", "observedGeneration": stored["metadata"]["generation"],
        "observedKubeVirtVersion": "v1.9.0",
    } });
    world.place.ask(Method::PATCH, &format!("{path}/status"), &status).await.map(drop)
}

async fn take_over(world: &KubeVirtWorld<'_>) -> Result<()> {
    // Given a pool with explicit zeros, of which virt-controller has stored none,
    install_kubevirt(world, json!("3")).await?;
    leave_behind(world).await?;
    world.is_settled().await?;
    ensure!(world.writes()?.is_empty(), "the controller is blocked: {:#?}", world.writes()?);
    let instances = world.instances().await?;

    // when vmpool takes it over, then it writes no machine, stores no revision and restarts no guest,
    install_kubevirt(world, json!("0")).await?;
    world.until_status("zeros", 2).await?;
    world.until_condition("zeros", "Ready", "2 machines are ready and up to date").await?;
    world.is_settled().await?;
    let resources = ["virtualmachines", "virtualmachineinstances", "controllerrevisions"];
    let writes = world.writes()?;
    ensure!(writes.iter().all(|entry| !resources.contains(&entry.resource.as_str())), "{writes:#?}");

    // and a further machine gets the template, and stays as Go's encoder leaves it.
    world.patch("zeros", &json!({ "spec": { "replicas": 3 } })).await?;
    let machines = world.until_ordinals("zeros", &[0, 1, 2]).await?;
    world.until_condition("zeros", "Ready", "3 machines are ready and up to date").await?;
    world.is_settled().await?;
    let devices = "/spec/template/spec/domain/devices/disableHotplug";
    ensure!(machines["zeros-2"].pointer(devices).is_none(), "{:#}", machines["zeros-2"]);
    ensure!(world.requested("zeros", "patch", "virtualmachines")?.is_empty(), "{:#?}", world.writes()?);
    let after = world.instances().await?;
    for (name, instance) in &instances {
        ensure!(
            text(&after[name], "/metadata/uid") == text(instance, "/metadata/uid"),
            "{name} was restarted"
        );
    }
    ensure!(instances.len() == 2 && after.len() == 3);
    Ok(())
}

#[test]
fn a_pool_with_explicit_zeros_is_taken_over_without_a_write_to_a_machine() {
    alone("kubevirt-zero-values", async |world| {
        let knobs = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "simulator-knobs" },
            "data": { "go-encoding": "true" },
        });
        let maps = format!("/api/v1/namespaces/{}/configmaps", world.place.namespace);
        world.place.ask(Method::POST, &maps, &knobs).await?;
        let kubevirt = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": { "name": "kubevirt" }, "spec": {},
        });
        world.place.ask(Method::POST, COLLECTION, &kubevirt).await?;
        let taken_over = take_over(&world).await;
        // It would stop the controllers of other tests.
        world.place.ask(Method::DELETE, &format!("{COLLECTION}/kubevirt"), &Value::Null).await?;
        taken_over
    });
}
