//! Machines whose owner does not exist.

use anyhow::Result;
use http::Method;
use serde_json::json;
use vmpool_api::kubevirt::API_VERSION;

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
    world.until_no_machine("probe").await
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
        world.until_no_machine("restored-0").await
    });
}
