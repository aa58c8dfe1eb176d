//! What a wrapper does if its image, its machine or its disk is lost, and if another client has taken its name.

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
        world.delete(MACHINE.0, MACHINE.1, "web").await?;
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
        world.delete(MACHINE.0, MACHINE.1, "taken").await?;
        world.until_wrapped("taken").await.map(drop)
    });
}

#[test]
fn a_wrapper_holds_its_image_and_does_not_use_one_that_is_being_deleted() {
    with_images("wrapper-holds", &WITH_WRAPPERS, async |world| {
        world.place.put(blank("debian")).await?;
        world.place.put(wrapper("first", "debian")).await?;
        let first = world.until_wrapped("first").await?;
        world.delete(API_VERSION, "VMDiskImage", "debian").await?;
        let blocked = |image: &Value| condition(image, "DeletionBlocked")["reason"] == "InUse";
        world.until("debian", blocked).await?;
        // The bound one still gets a machine from it,
        world.delete(MACHINE.0, MACHINE.1, "first").await?;
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
        // When the last reference is gone, then the image is deleted, and the other wrapper creates its successor.
        world.delete(WRAPPER.0, WRAPPER.1, "first").await?;
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
        world.patch(API_VERSION, "VMDiskImage", "debian", &release).await?;
        world.delete(API_VERSION, "VMDiskImage", "debian").await?;
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
        world.patch(VOLUME.0, VOLUME.1, "web-root", &fails).await?;
        let kicked = world.until_wrapper("web", |wrapper| wrapper["status"]["kicks"] == 1).await?;
        ensure!(kicked["status"]["machineStarted"] == false, "{kicked}");
        world.until_reasons("web", &["Kicked"]).await?;
        world.hold(None).await?;
        world.until_wrapped("web").await?;
        let second = disk().await?.context("no disk")?;
        ensure!(second["metadata"]["uid"] != first["metadata"]["uid"], "{second}");
        world.is_settled().await?;
        // From now on the disk contains data of the guest, and the controller never deletes it.
        world.patch(VOLUME.0, VOLUME.1, "web-root", &fails).await?;
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
        world.delete(VOLUME.0, VOLUME.1, "web-root").await?;
        world.until_reasons("web", &["DiskRecreated"]).await?;
        world.until_wrapped("web").await.map(drop)
    });
}
