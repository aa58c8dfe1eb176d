//! What a wrapper does if its image, its machine or its disk is lost, and if another client has taken its
//! name.

use super::super::references::machine;
use super::*;

const VOLUME: (&str, &str) = (DATA_VOLUME_API_VERSION, "DataVolume");

#[test]
fn a_deleted_machine_is_created_again_and_a_foreign_one_is_left_alone() {
    with_images("wrapper-heals", &WITH_WRAPPERS, async |world| {
        world.place.put(blank("debian")).await?;
        world.place.put(machine("taken", "debian", world.place.namespace)).await?;
        world.place.put(wrapper("taken", "debian")).await?;
        world.place.put(wrapper("web", "debian")).await?;
        let first = world.until_wrapped("web").await?;
        world.place.delete(MACHINE.0, MACHINE.1, "web").await?;
        let former = &first["status"]["virtualMachine"]["uid"];
        world
            .until_wrapper("web", |wrapper| {
                let now = &wrapper["status"]["virtualMachine"]["uid"];
                now.is_string() && now != former && condition(wrapper, "Ready")["status"] == "True"
            })
            .await?;
        let conflict = world
            .until_wrapper("taken", |wrapper| {
                condition(wrapper, "VirtualMachineReady")["reason"] == "NameConflict"
            })
            .await?;
        ensure!(conflict["status"]["phase"] == "Failed", "{conflict}");
        world.until_reasons("taken", &["NameConflict"]).await?;
        let foreign = world.machine("taken").await?.context("the foreign machine is gone")?;
        ensure!(foreign["metadata"]["ownerReferences"].is_null(), "{foreign}");
        ensure!(foreign["metadata"]["annotations"]["vmpool.dev/applied-template"].is_null(), "{foreign}");
        world.place.delete(MACHINE.0, MACHINE.1, "taken").await?;
        world.until_wrapped("taken").await.map(drop)
    });
}

#[test]
fn a_wrapper_holds_its_image_and_does_not_use_one_that_is_being_deleted() {
    with_images("wrapper-holds", &WITH_WRAPPERS, async |world| {
        world.place.put(blank("debian")).await?;
        world.place.put(wrapper("first", "debian")).await?;
        let first = world.until_wrapped("first").await?;
        world.place.delete(API_VERSION, "VMDiskImage", "debian").await?;
        let blocked = |image: &Value| condition(image, "DeletionBlocked")["reason"] == "InUse";
        world.until("debian", blocked).await?;
        // The bound one still gets a machine from it,
        world.place.delete(MACHINE.0, MACHINE.1, "first").await?;
        let former = first["status"]["virtualMachine"]["uid"].clone();
        world.until_machine("first", |machine| machine["metadata"]["uid"] != former).await?;
        world.until_wrapped("first").await?;
        // and a new one does not.
        world.place.put(creating("second", "debian", "1Gi")).await?;
        let waiting = world.until_image_reason("second", "ImageTerminating").await?;
        ensure!(waiting["status"]["vmDiskImage"].is_null(), "{waiting}");
        world.until_reasons("second", &["ImageTerminating"]).await?;
        world.is_settled().await?;
        ensure!(world.machine("second").await?.is_none());
        // When the last reference is gone, then the image is deleted, and the other wrapper creates its
        // successor.
        world.place.delete(WRAPPER.0, WRAPPER.1, "first").await?;
        let second = world.until_wrapped("second").await?;
        let uid = |wrapper: &Value| wrapper["status"]["vmDiskImage"]["uid"].clone();
        ensure!(uid(&second) != uid(&first), "{second}");
        Ok(())
    });
}

#[test]
fn a_provisioned_wrapper_stays_ready_without_its_image_and_creates_it_again() {
    with_images("wrapper-image-lost", &WITH_WRAPPERS, async |world| {
        world.place.put(blank("debian")).await?;
        world.place.put(wrapper("waits", "debian")).await?;
        world.until_wrapped("waits").await?;
        let release = json!({ "metadata": { "annotations": { "vmpool.dev/force-release": "true" } } });
        world.place.patch(API_VERSION, "VMDiskImage", "debian", &release).await?;
        world.place.delete(API_VERSION, "VMDiskImage", "debian").await?;
        let lost = world.until_image_reason("waits", "ImageNotFound").await?;
        ensure!(lost["status"]["phase"] == "Ready", "{lost}");
        ensure!(lost["status"]["vmDiskImage"].is_null(), "{lost}");
        ensure!(world.machine("waits").await?.is_some());
        let template = json!({ "spec": {
            "mode": "CreateIfNotExist",
            "vmDiskImageTemplate": { "sourceType": "blank", "diskSize": "1Gi" },
        } });
        world.patch_wrapper("waits", template).await?;
        world.until_ready("debian").await?;
        world.until_wrapped("waits").await?;
        world.is_settled().await
    });
}

#[test]
fn a_disk_whose_clone_failed_is_made_again_before_the_machine_has_started() {
    with_images("wrapper-kick", &WITH_WRAPPERS, async |world| {
        world.place.put(blank("debian")).await?;
        world.until_ready("debian").await?;
        world.hold(Some("never")).await?;
        world.place.put(wrapper("web", "debian")).await?;
        let disk = async || world.place.object(VOLUME.0, VOLUME.1, "web-root").await;
        let first = world.place.until_object(VOLUME.0, VOLUME.1, "web-root", |_| true).await?;
        let fails = json!({ "metadata": { "annotations": { "simulator.vmpool.dev/hold-phase": "Failed" } } });
        world.place.patch(VOLUME.0, VOLUME.1, "web-root", &fails).await?;
        let kicked = world.until_wrapper("web", |wrapper| wrapper["status"]["kicks"] == 1).await?;
        ensure!(kicked["status"]["machineStarted"] == false, "{kicked}");
        world.until_reasons("web", &["Kicked"]).await?;
        world.hold(None).await?;
        world.until_wrapped("web").await?;
        let second = disk().await?.context("no disk")?;
        ensure!(second["metadata"]["uid"] != first["metadata"]["uid"], "{second}");
        world.is_settled().await?;
        // From now on the disk contains data of the guest, and the controller never deletes it, also when the
        // time between two deletions has passed.
        let past = jiff::Timestamp::now().checked_sub(jiff::SignedDuration::from_hours(1))?;
        let status = json!({ "status": { "lastKickTime": past.to_string() } });
        world.place.patch(WRAPPER.0, WRAPPER.1, "web/status", &status).await?;
        world.place.patch(VOLUME.0, VOLUME.1, "web-root", &fails).await?;
        world
            .place
            .until_object(VOLUME.0, VOLUME.1, "web-root", |disk| disk["status"]["phase"] == "Failed")
            .await?;
        world.is_settled().await?;
        let kept = disk().await?.context("the disk is gone")?;
        ensure!(kept["metadata"]["uid"] == second["metadata"]["uid"], "{kept}");
        ensure!(world.count("delete datavolumes")? == 1);
        Ok(())
    });
}

#[test]
fn a_disk_whose_clone_never_begins_is_made_again_three_times() {
    with_images("wrapper-kicks", &WITH_WRAPPERS, async |world| {
        world.place.put(blank("debian")).await?;
        world.until_ready("debian").await?;
        world.hold(Some("never")).await?;
        world.place.put(wrapper("web", "debian")).await?;
        let stuck = json!({ "metadata": { "annotations": {
            "simulator.vmpool.dev/hold-phase": "CloneScheduled",
            "simulator.vmpool.dev/import-message": "The source snapshot debian doesn't exist",
        } } });
        let past = |minutes: i64| -> Result<String> {
            let past = jiff::Timestamp::now().checked_sub(jiff::SignedDuration::from_mins(minutes))?;
            Ok(past.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
        };
        let status = async |(api_version, kind): (&str, &str), name: &str, status: &Value| {
            world
                .place
                .patch(api_version, kind, &format!("{name}/status"), &json!({ "status": status }))
                .await
        };
        let running =
            |disk: &Value| condition(disk, "Running")["message"].to_string().contains("doesn't exist");
        let mut former = Value::Null;
        for kicks in 1..=4 {
            // Given a disk whose source CDI does not find,
            let is_other = |disk: &Value| {
                disk["metadata"]["uid"] != former && disk["status"]["phase"] == "CloneScheduled"
            };
            world.place.until_object(VOLUME.0, VOLUME.1, "web-root", is_other).await?;
            world.place.patch(VOLUME.0, VOLUME.1, "web-root", &stuck).await?;
            let disk = world.place.until_object(VOLUME.0, VOLUME.1, "web-root", running).await?;
            former = disk["metadata"]["uid"].clone();
            // then nothing happens before five minutes are over,
            world.is_settled().await?;
            let mut conditions = disk["status"]["conditions"].clone();
            for condition in conditions.as_array_mut().into_iter().flatten() {
                condition["lastHeartbeatTime"] = json!(past(6)?);
            }
            status(VOLUME, "web-root", &json!({ "conditions": conditions })).await?;
            if kicks > 1 {
                // nor before ten minutes since the former time,
                world.is_settled().await?;
                let kicked =
                    world.until_wrapper("web", |wrapper| wrapper["status"]["kicks"] == kicks - 1).await?;
                ensure!(kicked["status"]["phase"] == "Provisioning", "{kicked}");
                status(WRAPPER, "web", &json!({ "lastKickTime": past(11)? })).await?;
            }
            if kicks <= 3 {
                // and then it is made again,
                world.until_wrapper("web", |wrapper| wrapper["status"]["kicks"] == kicks).await?;
            }
        }
        // but not more than three times.
        let failed = world.until_wrapper("web", |wrapper| wrapper["status"]["phase"] == "Failed").await?;
        ensure!(
            failed["status"]["message"].as_str().is_some_and(|text| text.contains("deleted 3 disks")),
            "{failed}"
        );
        ensure!(failed["status"]["kicks"] == 3 && failed["status"]["machineStarted"] == false, "{failed}");
        world.is_settled().await?;
        ensure!(world.count("delete datavolumes")? == 3, "{:#?}", world.requests()?);
        // When CDI finds it, then the wrapper recovers.
        world.hold(None).await?;
        let goes_on = json!({ "metadata": { "annotations": {
            "simulator.vmpool.dev/hold-phase": null, "simulator.vmpool.dev/import-message": null,
        } } });
        world.place.patch(VOLUME.0, VOLUME.1, "web-root", &goes_on).await?;
        world.until_wrapped("web").await?;
        world.is_settled().await
    });
}

#[test]
fn a_lost_disk_of_a_started_machine_is_reported() {
    with_images("wrapper-disk-lost", &WITH_WRAPPERS, async |world| {
        world.place.put(blank("debian")).await?;
        world.place.put(wrapper("web", "debian")).await?;
        world.until_wrapped("web").await?;
        // While an instance uses the claim, it would stay.
        let off = json!({ "spec": { "virtualMachineTemplate": { "spec": { "runStrategy": "Halted" } } } });
        world.patch_wrapper("web", off).await?;
        world.until_machine("web", |machine| machine["status"]["printableStatus"] == "Stopped").await?;
        world.is_settled().await?;
        // A leader that has never seen the former disk reports it, too.
        world.controller.kill();
        let former = world.place.object(VOLUME.0, VOLUME.1, "web-root").await?.context("no disk")?;
        world.place.delete(VOLUME.0, VOLUME.1, "web-root").await?;
        let is_other = |disk: &Value| disk["metadata"]["uid"] != former["metadata"]["uid"];
        world.place.until_object(VOLUME.0, VOLUME.1, "web-root", is_other).await?;
        world.controller.restart().await?;
        world.until_reasons("web", &["DiskRecreated"]).await?;
        world.until_wrapped("web").await.map(drop)
    });
}
