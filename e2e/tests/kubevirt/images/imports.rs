//! The import of images: attempts, the queue, and what machines clone.

use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};
use vmpool_api::diskimage::{API_VERSION, finalizers::IMAGE_PROTECTION, labels::IMAGE_UID};
use vmpool_api::kubevirt::{DATA_VOLUME_API_VERSION, SNAPSHOT_API_VERSION};
use vmpool_e2e::wait::eventually;

use super::{HOST, blank, condition, image, with_images};
use crate::image_platform::CHECKSUM;

/// An image of this file.
fn http(name: &str, file: &str) -> Value {
    let url = format!("{HOST}/{file}?signature=hidden");
    image(name, &json!({ "sourceType": "http", "url": url, "checksum": CHECKSUM, "diskSize": "1Mi" }))
}

#[test]
fn an_image_is_downloaded_verified_and_published() {
    with_images("image-import", &[], async |world| {
        let place = &world.place;
        let mut object = http("debian", "disk.raw");
        object["metadata"]["labels"] =
            json!({ "instancetype.kubevirt.io/default-preference": "linux", "example.com/team": "a" });
        place.put(object).await?;
        let ready = world.until_ready("debian").await?;
        // The data was downloaded, and has the checksum.
        let volume = place.object(DATA_VOLUME_API_VERSION, "DataVolume", "debian").await?.unwrap_or_default();
        ensure!(volume["metadata"]["annotations"]["simulator.vmpool.dev/content"] == CHECKSUM, "{volume}");
        ensure!(volume["metadata"]["labels"][IMAGE_UID] == ready["metadata"]["uid"], "{volume}");
        // With an owner, the garbage collector would delete it with an image that is deleted in the
        // foreground.
        ensure!(volume["metadata"]["ownerReferences"].is_null(), "{volume}");
        ensure!(volume["metadata"]["labels"]["example.com/team"].is_null(), "{volume}");
        let label = &volume["metadata"]["labels"]["instancetype.kubevirt.io/default-preference"];
        ensure!(label == "linux", "{volume}");
        // Machines find it through the DataSource and the snapshot.
        let source = place.object(DATA_VOLUME_API_VERSION, "DataSource", "debian").await?.unwrap_or_default();
        let named = json!({ "snapshot": { "namespace": place.namespace, "name": "debian" } });
        ensure!(source["spec"]["source"] == named, "{source}");
        let snapshot =
            place.object(SNAPSHOT_API_VERSION, "VolumeSnapshot", "debian").await?.unwrap_or_default();
        ensure!(snapshot["status"]["readyToUse"] == true, "{snapshot}");
        // The status shows the evidence,
        let with_objects = |image: &Value| {
            let status = &image["status"];
            status["snapshot"]["readyToUse"] == true
                && status["dataVolume"]["uid"] == volume["metadata"]["uid"]
                && status["snapshot"]["uid"] == snapshot["metadata"]["uid"]
                && status["dataSource"]["uid"] == source["metadata"]["uid"]
                && condition(image, "SourceVolumeHealthy")["status"] == "True"
        };
        let ready = world.until("debian", with_objects).await?;
        ensure!(condition(&ready, "Ready")["status"] == "True", "{ready}");
        ensure!(condition(&ready, "InUse")["reason"] == "Unreferenced", "{ready}");
        ensure!(ready["status"]["failureCount"] == 0, "{ready}");
        ensure!(ready["metadata"]["finalizers"][0] == IMAGE_PROTECTION, "{ready}");
        ensure!(!ready["status"].to_string().contains("hidden"), "{ready}");
        let volume = place
            .until_object(DATA_VOLUME_API_VERSION, "DataVolume", "debian", |volume| {
                !volume["metadata"]["annotations"]["cdi.kubevirt.io/storage.prePopulated"].is_null()
            })
            .await;
        volume?;
        // each object was created once, and then nothing is sent.
        world.until_reasons("debian", &["Queued", "SyncStarted", "SyncCompleted"]).await?;
        world.is_settled().await?;
        for what in ["create datavolumes", "create volumesnapshots", "create datasources"] {
            ensure!(world.count(what)? == 1, "{what}: {:#?}", world.requests()?);
        }
        Ok(())
    });
}

#[test]
fn an_image_is_cloned_from_a_snapshot_and_a_claim_of_its_namespace() {
    with_images("image-copies", &[], async |world| {
        let place = &world.place;
        place.put(http("debian", "disk.raw")).await?;
        world.until_ready("debian").await?;
        for (name, source) in [("from-a-snapshot", "snapshot"), ("from-a-claim", "pvc")] {
            let spec = json!({ "sourceType": source, "sourceName": "debian", "diskSize": "1Mi" });
            place.put(image(name, &spec)).await?;
            world.until_ready(name).await?;
            let volume = place.object(DATA_VOLUME_API_VERSION, "DataVolume", name).await?.unwrap_or_default();
            let named = json!({ "namespace": place.namespace, "name": "debian" });
            ensure!(volume["spec"]["source"][source] == named, "{volume}");
        }
        // A copy that is complete does not hold its source.
        place.delete(API_VERSION, "VMDiskImage", "debian").await?;
        world.until_gone(API_VERSION, "VMDiskImage", "debian").await?;
        for name in ["from-a-snapshot", "from-a-claim"] {
            world.until_ready(name).await?;
        }
        Ok(())
    });
}

#[test]
fn an_image_waits_for_the_upload_of_a_user_and_keeps_no_other_image_waiting() {
    with_images("image-upload", &["--disk-image-max-concurrent-syncs=1"], async |world| {
        let place = &world.place;
        place.put(image("from-a-user", &json!({ "sourceType": "upload", "diskSize": "1Mi" }))).await?;
        let waits = |image: &Value| {
            image["status"]["phase"] == "Syncing"
                && image["status"]["message"].to_string().contains("virtctl image-upload dv from-a-user")
        };
        world.until("from-a-user", waits).await?;
        let volume =
            place.object(DATA_VOLUME_API_VERSION, "DataVolume", "from-a-user").await?.unwrap_or_default();
        ensure!(volume["spec"]["source"] == json!({ "upload": {} }), "{volume}");
        place.put(http("debian", "disk.raw")).await?;
        world.until_ready("debian").await?;
        let uploaded = json!({ "metadata": { "annotations": { "simulator.vmpool.dev/uploaded": "true" } } });
        place.patch(DATA_VOLUME_API_VERSION, "DataVolume", "from-a-user", &uploaded).await?;
        world.until_ready("from-a-user").await?;
        Ok(())
    });
}

#[test]
fn a_corrupt_image_fails_and_a_new_value_of_the_annotation_starts_it_again() {
    let flags = [
        "--disk-image-backoff-unit=200ms",
        "--disk-image-max-attempt-restarts=1",
        "--disk-image-max-sync-duration=8s",
    ];
    with_images("image-corrupt", &flags, async |world| {
        let place = &world.place;
        place.put(http("corrupt", "corrupt.raw")).await?;
        let failed = world.until_phase("corrupt", "RetryableFailure", "RetryLimitExceeded").await?;
        ensure!(failed["status"]["message"].to_string().contains("checksum mismatch"), "{failed}");
        ensure!(!failed["status"].to_string().contains("hidden"), "{failed}");
        ensure!(failed["metadata"]["finalizers"][0] == IMAGE_PROTECTION, "{failed}");
        // Nothing of it can be cloned, and after the deadline the controller does not try again.
        let failed = world.until_phase("corrupt", "Failed", "SyncDeadlineExceeded").await?;
        ensure!(failed["status"]["failureCount"].as_i64() > Some(1), "{failed}");
        for (api_version, kind) in [
            (DATA_VOLUME_API_VERSION, "DataVolume"),
            (DATA_VOLUME_API_VERSION, "DataSource"),
            (SNAPSHOT_API_VERSION, "VolumeSnapshot"),
        ] {
            world.until_gone(api_version, kind, "corrupt").await?;
        }
        world.until_reasons("corrupt", &["SyncErrorOccurred", "SyncFailed"]).await?;
        world.is_settled().await?;
        let retry = json!({ "metadata": { "annotations": { "vmpool.dev/retry": "1" } } });
        world.place.patch(API_VERSION, "VMDiskImage", "corrupt", &retry).await?;
        let again = world.until("corrupt", |image| image["status"]["phase"] != "Failed").await?;
        ensure!(again["status"]["retryToken"] == "1", "{again}");
        ensure!(again["status"]["failureCount"] == 0, "{again}");
        Ok(())
    });
}

#[test]
fn the_wait_after_a_failure_the_copied_labels_and_the_resync_follow_their_flags() {
    let flags = [
        // Without the longest wait, the second attempt would begin after three hours.
        "--disk-image-backoff-unit=1h",
        "--disk-image-max-backoff=300ms",
        "--disk-image-max-attempt-restarts=1",
        "--disk-image-copy-label-prefixes=example.com/,team.example.com/",
        "--disk-image-resync-period=1s",
        "--feature-gates=VirtualMachinePool=false,DiskImages=true,MachineWrapper=true",
    ];
    with_images("image-flags", &flags, async |world| {
        let place = &world.place;
        let mut object = http("corrupt", "corrupt.raw");
        object["metadata"]["labels"] = json!({
            "example.com/a": "1", "team.example.com/b": "2", "instancetype.kubevirt.io/default-preference": "linux",
        });
        place.put(object).await?;
        let volume = place.until_object(DATA_VOLUME_API_VERSION, "DataVolume", "corrupt", |_| true).await?;
        let labels = &volume["metadata"]["labels"];
        ensure!(labels["example.com/a"] == "1" && labels["team.example.com/b"] == "2", "{volume}");
        ensure!(labels["instancetype.kubevirt.io/default-preference"].is_null(), "{volume}");
        world.until("corrupt", |image| image["status"]["failureCount"].as_i64() >= Some(3)).await?;
        world.place.delete(API_VERSION, "VMDiskImage", "corrupt").await?;
        // Each pass counts a reference that no grant permits. Nothing but the resync causes these passes.
        place
            .put(json!({
                "apiVersion": API_VERSION, "kind": "VirtualMachine", "metadata": { "name": "stranger" },
                "spec": {
                    "vmDiskImageRef": { "name": "debian", "namespace": "elsewhere" },
                    "virtualMachineTemplate": { "spec": { "template": { "spec": { "domain": { "devices": {} } } } } },
                },
            }))
            .await?;
        let denied = async || {
            let (_, page) = world.controller.probe("/metrics").await;
            let labels = r#"{image_namespace="elsewhere",from_namespace="image-flags"}"#;
            let series = format!("vmpool_vmdi_references_denied_total{labels} ");
            page.lines().find_map(|line| line.strip_prefix(series.as_str())?.parse::<u64>().ok())
        };
        eventually("six references are denied", Duration::from_mins(1), async || {
            let denied = denied().await;
            Ok(if denied >= Some(6) { Ok(()) } else { Err(format!("{denied:?}")) })
        })
        .await?;
        Ok(())
    });
}

#[test]
fn images_are_imported_in_their_order_and_no_more_than_the_limit_at_a_time() {
    with_images("image-queue", &["--disk-image-max-concurrent-syncs=2"], async |world| {
        let names = ["a", "b", "c", "d", "e"];
        // No import ends before the last image waits.
        world.hold(Some("never")).await?;
        for name in names {
            world.place.put(http(name, "disk.raw")).await?;
        }
        world.until_reasons("e", &["WaitingToSync"]).await?;
        world.hold(None).await?;
        let mut most = 0;
        loop {
            let mut phases = Vec::new();
            for name in names {
                let image = world.place.object(API_VERSION, "VMDiskImage", name).await?.unwrap_or_default();
                let transfers = condition(&image, "Ready")["reason"] == "Syncing";
                phases.push((image["status"]["phase"].as_str().unwrap_or_default().to_owned(), transfers));
            }
            most = most.max(phases.iter().filter(|(_, transfers)| *transfers).count());
            ensure!(most <= 2, "{phases:?}");
            if phases.iter().all(|(phase, _)| phase == "Ready") {
                break;
            }
        }
        ensure!(world.count("create datavolumes")? == names.len());
        world.is_settled().await
    });
}

#[test]
fn an_object_of_another_owner_is_not_touched() {
    with_images("image-conflict", &[], async |world| {
        let foreign = json!({
            "apiVersion": DATA_VOLUME_API_VERSION, "kind": "DataVolume", "metadata": { "name": "debian" },
            "spec": { "source": { "blank": {} }, "storage": { "resources": { "requests": { "storage": "1Gi" } } } },
        });
        world.place.put(foreign).await?;
        let place = &world.place;
        let is_done = |volume: &Value| volume["status"]["phase"] == "Succeeded";
        let before = place.until_object(DATA_VOLUME_API_VERSION, "DataVolume", "debian", is_done).await?;
        world.place.put(blank("debian")).await?;
        let image = world.until_phase("debian", "Queued", "NameConflict").await?;
        ensure!(image["status"]["message"].to_string().contains("DataVolume"), "{image}");
        world.is_settled().await?;
        let after = place.object(DATA_VOLUME_API_VERSION, "DataVolume", "debian").await?.unwrap_or_default();
        ensure!(without_platform(&before) == without_platform(&after), "{after}");
        // When it is gone, the image is imported.
        world.place.delete(DATA_VOLUME_API_VERSION, "DataVolume", "debian").await?;
        world.until_ready("debian").await.map(drop)
    });
}

/// An object without its status and the versions that each write of the status changes: the platform writes
/// the status of a volume once more after its phase is `Succeeded`, when the claim is bound.
fn without_platform(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|field, _| field != "resourceVersion" && field != "managedFields");
    }
    object
}
