//! Pools that are deleted with `--cascade=orphan`.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_api::kubevirt::{API_VERSION, POOL_API_VERSION};

use crate::pools::spec;
use crate::world::{KubeVirtWorld, has_finalizer, with_world};

/// Waits until the garbage collector watches the kinds of KubeVirt. It looks for new kinds every 30 seconds,
/// and until then no deletion of a pool completes that it must process.
pub(crate) async fn until_garbage_is_collected(world: &KubeVirtWorld<'_>) -> Result<()> {
    let collection = world.place.path(API_VERSION, "VirtualMachine")?;
    let mut machine = spec(1)["virtualMachineTemplate"].clone();
    machine["apiVersion"] = json!(API_VERSION);
    machine["kind"] = json!("VirtualMachine");
    machine["spec"]["runStrategy"] = json!("Halted");
    machine["metadata"] = json!({
        "name": "probe",
        "ownerReferences": [{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "absent",
            "uid": "00000000-0000-4000-8000-000000000000",
        }],
    });
    world.place.ask(Method::POST, &collection, &machine).await?;
    world
        .until("the garbage collector has deleted a machine whose owner does not exist", async || {
            Ok((!world.machines().await?.contains_key("probe")).then_some(()))
        })
        .await
}

#[test]
fn the_machines_of_an_orphaned_pool_stay_and_can_be_deleted() {
    with_world("kubevirt-orphan", async |world| {
        until_garbage_is_collected(&world).await?;
        world.create("p", &spec(2)).await?;
        let before = world.until_ready(&["p-0", "p-1"]).await?;
        let instances = world.instances().await?;

        world.delete_pool("p", "Orphan").await?;
        world
            .until("the pool is gone", async || {
                let pools = world.all(POOL_API_VERSION, "VirtualMachinePool").await?;
                Ok(pools.is_empty().then_some(()))
            })
            .await?;
        let after = world.until_ready(&["p-0", "p-1"]).await?;
        for (name, machine) in &after {
            ensure!(machine["metadata"]["uid"] == before[name]["metadata"]["uid"], "{name} was replaced");
            ensure!(machine["metadata"]["ownerReferences"].is_null(), "{name} has an owner: {machine:#}");
            ensure!(!has_finalizer(machine), "{name} has the finalizer of a pool: {machine:#}");
        }
        let uid = |object: &Value| object["metadata"]["uid"].clone();
        let now = world.instances().await?;
        ensure!(now.values().map(uid).eq(instances.values().map(uid)), "a guest was restarted");
        ensure!(world.count("delete virtualmachines")? == 0, "{:#?}", world.writes()?);

        world.delete_machine("p-0").await?;
        world.until_ready(&["p-1"]).await?;
        world.is_settled().await
    });
}

#[test]
fn a_machine_of_a_pool_that_does_not_exist_loses_the_finalizer_and_can_be_deleted() {
    with_world("kubevirt-restored", async |world| {
        // As if a backup was restored without the pool.
        let collection = world.place.path(API_VERSION, "VirtualMachine")?;
        let mut machine = spec(1)["virtualMachineTemplate"].clone();
        machine["apiVersion"] = json!(API_VERSION);
        machine["kind"] = json!("VirtualMachine");
        machine["metadata"] = json!({
            "name": "restored-0",
            "labels": { "kubevirt.io/vm-pool-revision-name": "restored-3" },
            "finalizers": ["pool.kubevirt.io/finalizer"],
        });
        world.place.ask(Method::POST, &collection, &machine).await?;
        world
            .until("the machine has no finalizer of a pool", async || {
                Ok((!has_finalizer(&world.machines().await?["restored-0"])).then_some(()))
            })
            .await?;
        world.is_settled().await?;
        world.delete_machine("restored-0").await?;
        world
            .until("the machine is gone", async || Ok(world.machines().await?.is_empty().then_some(())))
            .await
    });
}
