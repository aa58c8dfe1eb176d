//! Hot-plugs: a changed template that KubeVirt applies to running guests, of which one cannot be migrated.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};

use crate::pools::{bare, memory};
use crate::world::{KubeVirtWorld, alone, text};

/// The label with the name of the revision.
const REVISION: &str = "/metadata/labels/kubevirt.io~1vm-pool-revision-name";
const COLLECTION: &str = "/apis/kubevirt.io/v1/namespaces/kubevirt-hot-plugs/kubevirts";

/// Installs KubeVirt, with its pool loop off, so that it updates running guests.
async fn install_kubevirt(world: &KubeVirtWorld<'_>) -> Result<()> {
    let kubevirt = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": { "name": "kubevirt" },
        "spec": {
            "configuration": { "vmRolloutStrategy": "LiveUpdate" },
            "customizeComponents": { "flags": { "controller": { "pool-controller-threads": "0" } } },
        },
    });
    let created = world.place.ask(Method::POST, COLLECTION, &kubevirt).await?;
    let deployed = json!({ "status": {
        "phase": "Deployed",
        "observedGeneration": created["metadata"]["generation"],
        "observedKubeVirtVersion": "v1.9.0",
    } });
    world.place.ask(Method::PATCH, &format!("{COLLECTION}/kubevirt/status"), &deployed).await.map(drop)
}

/// Sets or removes the knob that keeps the guest of `p-0` from being migrated.
async fn hold_hot_plug(world: &KubeVirtWorld<'_>, held: Value) -> Result<()> {
    let knob = json!({ "metadata": { "annotations": { "simulator.vmpool.dev/hold-hot-plug": held } } });
    world.patch_machine("p-0", &knob).await
}

/// Waits until the instance of a machine has this revision.
async fn until_recorded(world: &KubeVirtWorld<'_>, machine: &str, revision: &str) -> Result<()> {
    world
        .until(&format!("the instance of {machine} has revision {revision}"), async || {
            let instances = world.instances().await?;
            Ok(instances.get(machine).filter(|found| text(found, REVISION) == revision).map(drop))
        })
        .await
}

#[test]
fn a_revision_is_recorded_when_the_guest_has_its_hot_plug() {
    alone("kubevirt-hot-plugs", async |world| {
        // Given a pool whose guests KubeVirt updates while they run, except one that it cannot migrate,
        install_kubevirt(&world).await?;
        world.create("p", &bare("p", 2)).await?;
        world.until_ready(&["p-0", "p-1"]).await?;
        hold_hot_plug(&world, json!("true")).await?;
        world.is_settled().await?;
        let before = world.instances().await?;

        // when the memory of the template changes, then the instances of both have it, and the guest of one.
        let pool = world.patch("p", &memory("2Gi")).await?;
        let revision = format!("p-{}", pool["metadata"]["generation"]);
        until_recorded(&world, "p-1", &revision).await?;
        let named = "machine p-0 waits for a live update: HotMemoryChange: the guest cannot be migrated";
        world.until_condition("p", "Reconciling", named).await?;
        world.until_condition("p", "Ready", "1 of 2 machines are up to date").await?;
        let waiting = world.instances().await?;
        ensure!(waiting["p-0"]["spec"]["domain"]["memory"]["guest"] == "2Gi", "{:#}", waiting["p-0"]);
        ensure!(waiting["p-0"]["status"]["memory"]["guestCurrent"] == "1Gi", "{:#}", waiting["p-0"]);
        ensure!(text(&waiting["p-0"], REVISION) != revision, "the guest does not have it yet");
        world.is_settled().await?;

        // When the guest can be migrated again, then it has the revision, and no guest was restarted.
        hold_hot_plug(&world, Value::Null).await?;
        until_recorded(&world, "p-0", &revision).await?;
        world.until_condition("p", "Ready", "2 machines are ready and up to date").await?;
        let after = world.instances().await?;
        for (name, instance) in &before {
            ensure!(after[name]["metadata"]["uid"] == instance["metadata"]["uid"], "{name} was restarted");
        }
        world.is_settled().await?;
        world.place.ask(Method::DELETE, &format!("{COLLECTION}/kubevirt"), &Value::Null).await.map(drop)
    });
}
