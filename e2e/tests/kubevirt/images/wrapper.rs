//! Wrappers: machines that are created after the data of their image is there.

mod healing;
mod held;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use vmpool_api::diskimage::API_VERSION;
use vmpool_api::kubevirt::{self, DATA_VOLUME_API_VERSION};

use super::{Images, blank, condition, with_images};

/// The flag that enables wrappers.
const WITH_WRAPPERS: [&str; 1] =
    ["--feature-gates=VirtualMachinePool=false,DiskImages=true,MachineWrapper=true"];

const WRAPPER: (&str, &str) = (API_VERSION, "VirtualMachine");
const MACHINE: (&str, &str) = (kubevirt::API_VERSION, "VirtualMachine");

/// A wrapper of an image, whose machine runs.
fn wrapper(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": WRAPPER.0, "kind": WRAPPER.1, "metadata": { "name": name },
        "spec": {
            "vmDiskImageRef": { "name": image },
            "virtualMachineTemplate": {
                "metadata": { "labels": { "app": name } },
                "spec": { "runStrategy": "Always", "template": { "spec": { "domain": { "devices": {} } } } },
            },
        },
    })
}

/// A wrapper that creates an empty image of this size, if the image does not exist.
fn creating(name: &str, image: &str, size: &str) -> Value {
    let mut wrapper = wrapper(name, image);
    wrapper["spec"]["vmDiskImageTemplate"] = json!({ "sourceType": "blank", "diskSize": size });
    wrapper
}

impl Images<'_> {
    /// Waits until the wrapper is as wanted.
    async fn until_wrapper(&self, name: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let found = self.place.until_object(WRAPPER.0, WRAPPER.1, name, wanted).await;
        found.map_err(|error| anyhow::anyhow!("{error}\n{}", self.controller.log_tail(40)))
    }

    async fn until_wrapped(&self, name: &str) -> Result<Value> {
        self.until_wrapper(name, |wrapper| {
            wrapper["status"]["phase"] == "Ready" && condition(wrapper, "Ready")["status"] == "True"
        })
        .await
    }

    /// Waits until the image has this reason for the wrapper.
    async fn until_image_reason(&self, name: &str, reason: &str) -> Result<Value> {
        self.until_wrapper(name, |wrapper| condition(wrapper, "ImageReady")["reason"] == reason).await
    }

    /// Waits until the machine is as wanted.
    async fn until_machine(&self, name: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let found = self.place.until_object(MACHINE.0, MACHINE.1, name, wanted).await;
        found.map_err(|error| anyhow::anyhow!("{error}\n{}", self.controller.log_tail(40)))
    }

    async fn machine(&self, name: &str) -> Result<Option<Value>> {
        self.place.object(MACHINE.0, MACHINE.1, name).await
    }

    async fn patch_wrapper(&self, name: &str, patch: Value) -> Result<Value> {
        self.place.patch(WRAPPER.0, WRAPPER.1, name, &patch).await
    }
}

#[test]
fn a_wrapper_creates_its_image_and_after_the_data_is_there_its_machine() {
    with_images("wrapper-creates", &WITH_WRAPPERS, async |world| {
        world.hold(Some("never")).await?;
        world.place.put(creating("web", "debian", "1Gi")).await?;
        world.until_phase("debian", "Syncing", "Syncing").await?;
        let bound = |wrapper: &Value| {
            condition(wrapper, "ImageReady")["reason"] == "ImageSyncing"
                && wrapper["status"]["vmDiskImage"]["bound"] == true
        };
        let waiting = world.until_wrapper("web", bound).await?;
        ensure!(waiting["status"]["phase"] == "Provisioning", "{waiting}");
        // The wrapper counts before its machine exists.
        world.until("debian", |image| image["status"]["referenceCount"] == 1).await?;
        world.is_settled().await?;
        ensure!(world.machine("web").await?.is_none(), "no machine is created before its image is ready");
        // A restart changes nothing.
        world.controller.restart().await?;
        world.hold(None).await?;
        let ready = world.until_wrapped("web").await?;
        let machine = world.machine("web").await?.context("no machine")?;
        let owner = &machine["metadata"]["ownerReferences"][0];
        ensure!(owner["uid"] == ready["metadata"]["uid"] && owner["controller"] == true, "{machine}");
        let disk = world.place.object(DATA_VOLUME_API_VERSION, "DataVolume", "web-root").await?;
        let disk = disk.context("no disk")?;
        ensure!(disk["spec"]["source"]["snapshot"]["name"] == "debian", "{disk}");
        ensure!(ready["status"]["machineStarted"] == true, "{ready}");
        let image = world.until("debian", |image| image["status"]["referenceCount"] == 1).await?;
        let reference = &image["status"]["references"][0];
        ensure!(reference["apiGroup"] == "vmpool.dev" && reference["name"] == "web", "{image}");
        world.until_reasons("web", &["ImageCreated", "ImageBound", "VirtualMachineCreated"]).await?;
        world.is_settled().await?;
        ensure!(world.count("create virtualmachines")? == 1 && world.count("create vmdiskimages")? == 1);
        // The machine is deleted with its wrapper, and the image stays.
        world.place.delete(WRAPPER.0, WRAPPER.1, "web").await?;
        world.until_gone(MACHINE.0, MACHINE.1, "web").await?;
        world.until("debian", |image| image["status"]["referenceCount"] == 0).await.map(drop)
    });
}

#[test]
fn a_wrapper_without_a_template_fails_until_its_image_exists() {
    with_images("wrapper-fails", &WITH_WRAPPERS, async |world| {
        world.place.put(wrapper("web", "debian")).await?;
        let mut forbidding = creating("db", "debian", "1Gi");
        forbidding["spec"]["mode"] = json!("FailIfNotExist");
        world.place.put(forbidding).await?;
        for name in ["web", "db"] {
            let failed = world.until_image_reason(name, "ImageNotFound").await?;
            ensure!(failed["status"]["phase"] == "Failed", "{failed}");
            world.until_reasons(name, &["ImageNotFound"]).await?;
        }
        world.is_settled().await?;
        ensure!(world.count("create vmdiskimages")? == 0);
        world.place.put(blank("debian")).await?;
        world.until_wrapped("web").await?;
        world.until_wrapped("db").await.map(drop)
    });
}

#[test]
fn wrappers_that_create_one_image_at_the_same_time_share_it() {
    with_images("wrapper-shares", &WITH_WRAPPERS, async |world| {
        for name in ["a", "b", "c"] {
            world.place.put(creating(name, "debian", "1Gi")).await?;
        }
        let mut uids = Vec::new();
        for name in ["a", "b", "c"] {
            let ready = world.until_wrapped(name).await?;
            uids.push(ready["status"]["vmDiskImage"]["uid"].clone());
        }
        ensure!(uids.iter().all(|uid| *uid == uids[0]), "{uids:?}");
        world.until("debian", |image| image["status"]["referenceCount"] == 3).await?;
        ensure!(world.count("create datavolumes")? == 1);
        world.is_settled().await
    });
}

#[test]
fn an_existing_image_wins_over_the_template_of_a_wrapper() {
    with_images("wrapper-mismatch", &WITH_WRAPPERS, async |world| {
        world.place.put(blank("debian")).await?;
        world.until_ready("debian").await?;
        world.place.put(creating("web", "debian", "2Gi")).await?;
        let ready = world.until_wrapped("web").await?;
        let matches = condition(&ready, "TemplateMatches");
        ensure!(matches["reason"] == "TemplateMismatch", "{ready}");
        ensure!(matches["message"].as_str().is_some_and(|text| text.contains("diskSize")), "{ready}");
        world.until_reasons("web", &["TemplateMismatch"]).await?;
        let machine = world.machine("web").await?.context("no machine")?;
        let storage = &machine["spec"]["dataVolumeTemplates"][0]["spec"]["storage"];
        ensure!(storage["resources"]["requests"]["storage"] == "1Gi", "{machine}");
        world.is_settled().await?;
        // A disk that is too small is a failure.
        let mut small = wrapper("small", "debian");
        small["spec"]["resources"] = json!({ "diskSize": "512Mi" });
        world.place.put(small).await?;
        let failed = world.until_wrapper("small", |wrapper| wrapper["status"]["phase"] == "Failed").await?;
        ensure!(failed["status"]["message"].as_str().is_some_and(|text| text.contains("512Mi")), "{failed}");
        ensure!(world.machine("small").await?.is_none());
        Ok(())
    });
}

#[test]
fn a_changed_template_is_written_to_the_machine_and_changes_of_others_stay() {
    with_images("wrapper-update", &WITH_WRAPPERS, async |world| {
        world.place.put(blank("debian")).await?;
        world.place.put(wrapper("web", "debian")).await?;
        world.until_wrapped("web").await?;
        let other = json!({ "metadata": { "labels": { "owner": "eve" } } });
        let before = world.place.patch(MACHINE.0, MACHINE.1, "web", &other).await?;
        let change = json!({ "spec": {
            "virtualMachineTemplate": {
                "metadata": { "labels": { "app": null, "tier": "gold" } },
                "spec": { "runStrategy": "Halted" },
            },
        } });
        world.patch_wrapper("web", change).await?;
        let after = world.until_machine("web", |machine| machine["spec"]["runStrategy"] == "Halted").await?;
        let labels = &after["metadata"]["labels"];
        ensure!(labels["tier"] == "gold" && labels["owner"] == "eve" && labels["app"].is_null(), "{after}");
        let volumes = |machine: &Value| machine["spec"]["dataVolumeTemplates"].clone();
        ensure!(volumes(&after) == volumes(&before), "{after}");
        ensure!(after["metadata"]["uid"] == before["metadata"]["uid"]);
        // A machine that is off is ready with its disk.
        let ready =
            world.until_wrapper("web", |wrapper| wrapper["status"]["observedGeneration"] == 2).await?;
        ensure!(ready["status"]["phase"] == "Ready", "{ready}");
        world.until_wrapped("web").await?;
        world.is_settled().await?;
        ensure!(world.count("patch virtualmachines")? == 1, "{:?}", world.requests()?);
        Ok(())
    });
}
