//! References to images: what counts, and deletions that wait for it.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_api::diskimage::API_VERSION;
use vmpool_api::kubevirt::{self, DATA_VOLUME_API_VERSION, SNAPSHOT_API_VERSION};
use vmpool_e2e::wait::throughout;

use super::{Images, blank, condition, with_images};

const MACHINE: (&str, &str) = (kubevirt::API_VERSION, "VirtualMachine");
const VOLUME: (&str, &str) = (DATA_VOLUME_API_VERSION, "DataVolume");
const POOL: (&str, &str) = (kubevirt::POOL_API_VERSION, "VirtualMachinePool");

/// A stopped machine whose disk is a clone of this image.
pub(super) fn machine(name: &str, image: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": MACHINE.0, "kind": MACHINE.1, "metadata": { "name": name },
        "spec": machine_spec(&format!("{name}-root"), image, namespace),
    })
}

fn machine_spec(disk: &str, image: &str, namespace: &str) -> Value {
    json!({
        "runStrategy": "Halted",
        "dataVolumeTemplates": [{
            "metadata": { "name": disk },
            "spec": { "storage": {}, "sourceRef": { "kind": "DataSource", "name": image, "namespace": namespace } },
        }],
        "template": {
            "metadata": { "labels": { "farm": "render" } },
            "spec": {
                "domain": { "devices": { "disks": [{ "name": "root" }] } },
                "volumes": [{ "name": "root", "dataVolume": { "name": disk } }],
            },
        },
    })
}

/// A pool without machines whose template names this image.
fn pool(name: &str, image: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": POOL.0, "kind": POOL.1, "metadata": { "name": name },
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": { "farm": "render" } },
            "virtualMachineTemplate": {
                "metadata": { "labels": { "farm": "render" } },
                "spec": machine_spec("root", image, namespace),
            },
        },
    })
}

/// A clone that a user made, whose image cannot be read yet.
fn clone(name: &str, image: &str, namespace: &str) -> Value {
    let source = json!({ "snapshot": { "name": image, "namespace": namespace } });
    json!({
        "apiVersion": VOLUME.0, "kind": VOLUME.1,
        "metadata": { "name": name, "annotations": { "simulator.vmpool.dev/provisioning-delay": "never" } },
        "spec": { "source": source, "storage": { "resources": { "requests": { "storage": "1Gi" } } } },
    })
}

impl Images<'_> {
    async fn delete_image(&self, name: &str) -> Result<()> {
        self.place.delete(API_VERSION, "VMDiskImage", name).await
    }

    /// Waits until the image has these counts of machines, pools and clones.
    async fn until_counts(&self, name: &str, counts: (i64, i64, i64)) -> Result<Value> {
        let has = |image: &Value| {
            let count = |field: &str| image["status"][field].as_i64();
            let (machines, pools, clones) = counts;
            count("referenceCount") == Some(machines)
                && count("poolReferenceCount") == Some(pools)
                && count("cloneReferenceCount") == Some(clones)
        };
        self.until(name, has).await.with_context(|| format!("{counts:?}"))
    }

    /// Waits until the image and all its objects are gone.
    async fn until_nothing_is_left(&self, name: &str) -> Result<()> {
        self.until_gone(API_VERSION, "VMDiskImage", name).await?;
        for (api_version, kind) in
            [VOLUME, (DATA_VOLUME_API_VERSION, "DataSource"), (SNAPSHOT_API_VERSION, "VolumeSnapshot")]
        {
            self.until_gone(api_version, kind, name).await?;
        }
        Ok(())
    }
}

#[test]
fn machines_pools_and_clones_hold_an_image_until_the_last_of_them_is_gone() {
    with_images("image-references", &[], async |world| {
        let (place, namespace) = (&world.place, world.place.namespace);
        place.put(blank("debian")).await?;
        world.until_ready("debian").await?;
        place.put(machine("web", "debian", namespace)).await?;
        place.put(pool("farm", "debian", namespace)).await?;
        place.put(clone("copy", "debian", namespace)).await?;
        let image = world.until_counts("debian", (1, 1, 1)).await?;
        let names: Vec<&str> = image["status"]["references"]
            .as_array()
            .map(|all| all.iter().filter_map(|one| one["name"].as_str()).collect())
            .unwrap_or_default();
        ensure!(names == ["copy", "farm", "web"], "{image}");
        ensure!(condition(&image, "InUse")["status"] == "True", "{image}");
        // Given a deletion that waits, then the status says for what, and machines can still be cloned.
        let before = world.requests()?.len();
        world.delete_image("debian").await?;
        let blocked = |image: &Value| condition(image, "DeletionBlocked")["reason"] == "InUse";
        let image = world.until("debian", blocked).await?;
        let message = condition(&image, "DeletionBlocked")["message"].as_str().unwrap_or_default();
        for name in ["VirtualMachine image-references/web", "VirtualMachinePool image-references/farm"] {
            ensure!(message.contains(name), "{message}");
        }
        ensure!(condition(&image, "Ready")["reason"] == "Terminating", "{image}");
        ensure!(place.object(DATA_VOLUME_API_VERSION, "DataSource", "debian").await?.is_some());
        world.until_reasons("debian", &["DeletionBlocked"]).await?;
        // While the caches show a reference, nothing is listed.
        let since = world.requests()?.split_off(before);
        ensure!(since.iter().all(|request| request.verb != "list"), "{since:#?}");
        // When they leave one after the other,
        world.place.delete(POOL.0, POOL.1, "farm").await?;
        world.until_counts("debian", (1, 0, 1)).await?;
        world.place.delete(VOLUME.0, VOLUME.1, "copy").await?;
        world.until_counts("debian", (1, 0, 0)).await?;
        ensure!(place.object(SNAPSHOT_API_VERSION, "VolumeSnapshot", "debian").await?.is_some());
        let kinds = [
            "wrappedvirtualmachines",
            "virtualmachines",
            "virtualmachinepools",
            "controllerrevisions",
            "datavolumes",
        ];
        let lists =
            || kinds.iter().map(|kind| world.count(&format!("list {kind}"))).collect::<Result<Vec<_>>>();
        let before = lists()?;
        world.place.delete(MACHINE.0, MACHINE.1, "web").await?;
        // then the image is deleted with all its objects, after one list of every kind that can refer to it.
        world.until_nothing_is_left("debian").await?;
        world.until_reasons("debian", &["DeletionUnblocked"]).await?;
        let since: Vec<usize> = lists()?.iter().zip(before).map(|(now, before)| now - before).collect();
        ensure!(since == [1; 5], "{kinds:?} were listed {since:?} times");
        // A successor of the same name meets no leftovers.
        place.put(blank("debian")).await?;
        world.until_ready("debian").await.map(drop)
    });
}

/// The object with this source of its disk instead of the DataSource.
fn cloning(mut object: Value, source: &str, image: &str, namespace: &str) -> Value {
    let pointer = match object.pointer("/spec/virtualMachineTemplate") {
        Some(_) => "/spec/virtualMachineTemplate/spec/dataVolumeTemplates/0/spec",
        None => "/spec/dataVolumeTemplates/0/spec",
    };
    if let Some(disk) = object.pointer_mut(pointer) {
        let mut named = json!({});
        named[source] = json!({ "name": image, "namespace": namespace });
        *disk = json!({ "storage": {}, "source": named });
    }
    object
}

#[test]
fn machines_and_pools_that_name_the_snapshot_or_the_claim_hold_an_image() {
    with_images("image-clones", &[], async |world| {
        let (place, namespace) = (&world.place, world.place.namespace);
        place.put(blank("debian")).await?;
        world.until_ready("debian").await?;
        let of_machine = |name, source| cloning(machine(name, "", ""), source, "debian", namespace);
        place.put(of_machine("by-snapshot", "snapshot")).await?;
        world.until_counts("debian", (1, 0, 0)).await?;
        place.put(of_machine("by-claim", "pvc")).await?;
        world.until_counts("debian", (2, 0, 0)).await?;
        place.put(cloning(pool("of-claims", "", ""), "pvc", "debian", namespace)).await?;
        // An empty namespace is that of the object.
        place.put(cloning(pool("of-snapshots", "", ""), "snapshot", "debian", "")).await?;
        world.until_counts("debian", (2, 2, 0)).await?;
        world.delete_image("debian").await?;
        world.until("debian", |image| condition(image, "DeletionBlocked")["reason"] == "InUse").await?;
        world.place.delete(POOL.0, POOL.1, "of-claims").await?;
        world.place.delete(MACHINE.0, MACHINE.1, "by-snapshot").await?;
        world.until_counts("debian", (1, 1, 0)).await?;
        world.place.delete(MACHINE.0, MACHINE.1, "by-claim").await?;
        world.until_counts("debian", (0, 1, 0)).await?;
        ensure!(place.object(SNAPSHOT_API_VERSION, "VolumeSnapshot", "debian").await?.is_some());
        world.place.delete(POOL.0, POOL.1, "of-snapshots").await?;
        world.until_nothing_is_left("debian").await
    });
}

#[test]
fn a_deletion_with_any_propagation_policy_keeps_the_data_while_it_is_used() {
    with_images("image-cascade", &[], async |world| {
        let place = &world.place;
        for policy in ["Foreground", "Orphan"] {
            place.put(blank("debian")).await?;
            world.until_ready("debian").await?;
            place.put(machine("web", "debian", place.namespace)).await?;
            world.until_counts("debian", (1, 0, 0)).await?;
            let path = format!("{}/debian", place.path(API_VERSION, "VMDiskImage")?);
            place.ask(Method::DELETE, &path, &json!({ "propagationPolicy": policy })).await?;
            world.until("debian", |image| condition(image, "DeletionBlocked")["reason"] == "InUse").await?;
            // The garbage collector needs less than a second for what an object owns.
            throughout("the data stays", Duration::from_secs(5), async || {
                for (api_version, kind) in [
                    VOLUME,
                    (DATA_VOLUME_API_VERSION, "DataSource"),
                    (SNAPSHOT_API_VERSION, "VolumeSnapshot"),
                ] {
                    let object = place.object(api_version, kind, "debian").await?;
                    let stays = |object: &Value| object["metadata"]["deletionTimestamp"].is_null();
                    if !object.as_ref().is_some_and(stays) {
                        return Ok(Err(format!("{policy}: {kind} {object:?}")));
                    }
                }
                Ok(Ok(()))
            })
            .await?;
            world.place.delete(MACHINE.0, MACHINE.1, "web").await?;
            world.until_nothing_is_left("debian").await.context(policy)?;
        }
        Ok(())
    });
}

#[test]
fn a_deletion_during_the_import_cancels_it() {
    with_images("image-cancelled", &[], async |world| {
        let config = format!("/api/v1/namespaces/{}/configmaps/simulator-knobs", world.place.namespace);
        let slow = json!({ "data": { "provisioning-delay": "never" } });
        world.place.ask(Method::PATCH, &config, &slow).await?;
        world.place.put(blank("debian")).await?;
        world.until_phase("debian", "Syncing", "Syncing").await?;
        world.delete_image("debian").await?;
        world.until_nothing_is_left("debian").await?;
        ensure!(world.count("create volumesnapshots")? == 0);
        Ok(())
    });
}

#[test]
fn a_removed_finalizer_is_put_back_and_an_annotation_releases_an_image() {
    with_images("image-released", &[], async |world| {
        world.place.put(blank("debian")).await?;
        world.until_ready("debian").await?;
        let none = json!({ "metadata": { "finalizers": null } });
        world.place.patch(API_VERSION, "VMDiskImage", "debian", &none).await?;
        world
            .until("debian", |image| {
                image["metadata"]["finalizers"] == json!(["vmpool.dev/vmdiskimage-protection"])
            })
            .await?;
        world.place.put(machine("web", "debian", world.place.namespace)).await?;
        world.until_counts("debian", (1, 0, 0)).await?;
        world.delete_image("debian").await?;
        world.until("debian", |image| condition(image, "DeletionBlocked")["reason"] == "InUse").await?;
        let release = json!({ "metadata": { "annotations": { "vmpool.dev/force-release": "true" } } });
        world.place.patch(API_VERSION, "VMDiskImage", "debian", &release).await?;
        world.until_nothing_is_left("debian").await?;
        world.until_reasons("debian", &["ForcedRelease"]).await
    });
}

#[test]
fn an_image_without_references_is_removed_after_its_time_to_live() {
    with_images("image-ttl", &[], async |world| {
        let mut object = blank("debian");
        object["spec"]["ttlAfterUnreferenced"] = json!("60s");
        world.place.put(object).await?;
        world.place.put(machine("web", "debian", world.place.namespace)).await?;
        world.until_ready("debian").await?;
        // While an object refers to it, its time does not run.
        let image = world.until_counts("debian", (1, 0, 0)).await?;
        ensure!(image["status"]["expiresAt"].is_null(), "{image}");
        world.place.delete(MACHINE.0, MACHINE.1, "web").await?;
        let image = world.until("debian", |image| image["status"]["expiresAt"].is_string()).await?;
        let time = |field: &str| -> Result<jiff::Timestamp> {
            Ok(image["status"][field].as_str().unwrap_or_default().parse()?)
        };
        let left = time("expiresAt")?.duration_since(time("unreferencedSince")?);
        ensure!(left.as_secs() == 60, "{image}");
        // The clock is in the status, so a restart does not reset it.
        world.controller.restart().await?;
        let past = jiff::Timestamp::now().checked_sub(jiff::SignedDuration::from_secs(70))?;
        let status = json!({ "status": { "unreferencedSince": past.to_string() } });
        world.place.patch(API_VERSION, "VMDiskImage", "debian/status", &status).await?;
        world.until_nothing_is_left("debian").await?;
        world.until_reasons("debian", &["Expired"]).await
    });
}
