//! A bound wrapper and an image whose deletion waits for it, with the webhook.

use http::Method;
use vmpool_installation::programs::{ControllerOptions, ControllerProgram};

use super::*;
use crate::{TestNamespace, guarded, run_to_end};

const NAMESPACE: &str = "wrapper-held";

/// A machine with a clone of the image that names a wrapper as its controller.
fn machine_of(name: &str, wrapper: &Value) -> Value {
    let disk = format!("{name}-root");
    json!({
        "apiVersion": MACHINE.0, "kind": MACHINE.1,
        "metadata": { "name": name, "ownerReferences": [{
            "apiVersion": WRAPPER.0, "kind": WRAPPER.1, "name": wrapper["metadata"]["name"],
            "uid": wrapper["metadata"]["uid"], "controller": true,
        }] },
        "spec": {
            "runStrategy": "Halted",
            "dataVolumeTemplates": [{
                "metadata": { "name": disk },
                "spec": { "storage": {}, "sourceRef": { "kind": "DataSource", "name": "debian" } },
            }],
            "template": { "spec": { "domain": { "devices": {} } } },
        },
    })
}

#[test]
fn a_bound_wrapper_and_a_terminating_image_do_not_wait_for_each_other() {
    run_to_end(async {
        let values = ["featureGates.DiskImages=true", "featureGates.MachineWrapper=true"];
        let (cluster, installation) = guarded::start(NAMESPACE, "diskimage", &values).await?;
        cluster.kubectl(&["create", "namespace", NAMESPACE]).await?;
        installation.accounts().grant_in(&cluster, NAMESPACE).await?;
        let mut options = ControllerOptions::new(NAMESPACE, "one");
        options.extra.extend(WITH_WRAPPERS.map(str::to_owned));
        let controller = ControllerProgram::start(&cluster, options).await?;
        let place = TestNamespace { cluster: &cluster, namespace: NAMESPACE };
        let mut world = Images { place, controller, simulator: None, since: cluster.audit_mark() };
        world.simulate().await?;
        // Given a wrapper that holds an image whose deletion is requested,
        place.put(blank("debian")).await?;
        place.put(wrapper("web", "debian")).await?;
        let first = world.until_wrapped("web").await?;
        world.place.delete(API_VERSION, "VMDiskImage", "debian").await?;
        let blocked = |image: &Value| condition(image, "DeletionBlocked")["reason"] == "InUse";
        world.until("debian", blocked).await?;
        // when the webhook refuses new references, also with a copied owner reference,
        let machines = place.path(MACHINE.0, MACHINE.1)?;
        let mut forged = first.clone();
        forged["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
        let attempt = place.send(Method::POST, &machines, &machine_of("forged", &forged)).await?;
        let refusal = attempt.err().context("a copied owner reference makes a new reference")?;
        ensure!(refusal.message.contains("rule V5"), "{}", refusal.message);
        // then the controller still creates a machine that a user deletes.
        world.place.delete(MACHINE.0, MACHINE.1, "web").await?;
        let former = first["status"]["virtualMachine"]["uid"].clone();
        world.until_machine("web", |machine| machine["metadata"]["uid"] != former).await?;
        world.until_wrapped("web").await?;
        // When the wrapper is deleted, the image goes, too.
        world.place.delete(WRAPPER.0, WRAPPER.1, "web").await?;
        world.until_gone(API_VERSION, "VMDiskImage", "debian").await?;
        drop(world);
        installation.stop().await?;
        drop(cluster);
        Ok(())
    });
}
