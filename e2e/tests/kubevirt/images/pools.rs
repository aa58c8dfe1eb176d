//! Pools whose machines are clones of an image.

use std::time::Duration;

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_api::diskimage::API_VERSION as IMAGE_API_VERSION;
use vmpool_api::instancetype::API_VERSION as INSTANCETYPE_API_VERSION;
use vmpool_api::kubevirt::{API_VERSION, DATA_VOLUME_API_VERSION, POOL_API_VERSION, SNAPSHOT_API_VERSION};
use vmpool_e2e::wait::eventually;

use super::{Images, blank, condition, image, with_images};

const FLAGS: [&str; 2] = ["--feature-gates=VirtualMachinePool=true,DiskImages=true", "--platforms=kubevirt"];

fn pool(replicas: usize, image: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": POOL_API_VERSION, "kind": "VirtualMachinePool", "metadata": { "name": "farm" },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "farm": "render" } },
            "virtualMachineTemplate": {
                "metadata": { "labels": { "farm": "render" } },
                "spec": {
                    "runStrategy": "Always",
                    "dataVolumeTemplates": [{
                        "metadata": { "name": "root" },
                        "spec": {
                            "storage": {},
                            "sourceRef": { "kind": "DataSource", "name": image, "namespace": namespace },
                        },
                    }],
                    "template": {
                        "metadata": { "labels": { "farm": "render" } },
                        "spec": {
                            "domain": { "devices": { "disks": [{ "name": "root" }] } },
                            "volumes": [{ "name": "root", "dataVolume": { "name": "root" } }],
                        },
                    },
                },
            },
        },
    })
}

impl Images<'_> {
    /// The knob that holds imports.
    pub(super) async fn hold(&self, delay: Option<&str>) -> Result<()> {
        let config = format!("/api/v1/namespaces/{}/configmaps/simulator-knobs", self.place.namespace);
        let knobs = json!({ "data": { "provisioning-delay": delay } });
        self.place.ask(Method::PATCH, &config, &knobs).await.map(drop)
    }

    async fn until_pool(&self, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let found = self.place.until_object(POOL_API_VERSION, "VirtualMachinePool", "farm", wanted).await;
        found.map_err(|error| anyhow::anyhow!("{error}\n{}", self.controller.log_tail(40)))
    }

    /// The images of the machines, by machine.
    async fn machines(&self) -> Result<Vec<(String, String)>> {
        let path = self.place.path(API_VERSION, "VirtualMachine")?;
        let list = self.place.ask(Method::GET, &path, &Value::Null).await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        Ok(items
            .iter()
            .map(|item| {
                let source = &item["spec"]["dataVolumeTemplates"][0]["spec"]["sourceRef"]["name"];
                (text(&item["metadata"]["name"]), text(source))
            })
            .collect())
    }
}

fn waits(pool: &Value) -> bool {
    condition(pool, "ImagesReady")["reason"] == "ImageSyncing"
}

#[test]
fn a_pool_waits_for_its_image_and_rolls_out_another_one_when_that_is_ready() {
    with_images("image-pool", &FLAGS, async |world| {
        // Given an image that is still imported, then a pool of it has no machine, and says why.
        world.hold(Some("never")).await?;
        world.place.put(blank("debian")).await?;
        world.until_phase("debian", "Syncing", "Syncing").await?;
        world.place.put(pool(2, "debian", world.place.namespace)).await?;
        let waiting = world.until_pool(waits).await?;
        ensure!(condition(&waiting, "ImagesReady")["status"] == "False", "{waiting}");
        world.is_settled().await?;
        ensure!(world.machines().await?.is_empty());
        // When the image is ready, then the machines are created, and the pool counts as a reference.
        world.hold(None).await?;
        world.until_ready("debian").await?;
        let ready = |pool: &Value| pool["status"]["readyReplicas"] == 2;
        let done = world.until_pool(ready).await?;
        ensure!(condition(&done, "ImagesReady").is_null(), "{done}");
        world
            .until("debian", |image| {
                image["status"]["poolReferenceCount"] == 1 && image["status"]["referenceCount"] == 2
            })
            .await?;
        // When the template names an image that is not ready yet, then no machine is replaced.
        world.hold(Some("never")).await?;
        world.place.put(blank("fedora")).await?;
        world.until_phase("fedora", "Syncing", "Syncing").await?;
        let changed = pool(2, "fedora", world.place.namespace);
        world
            .place
            .patch(POOL_API_VERSION, "VirtualMachinePool", "farm", &json!({ "spec": changed["spec"] }))
            .await?;
        world.until_pool(waits).await?;
        world.is_settled().await?;
        ensure!(world.machines().await?.iter().all(|(_, image)| image == "debian"));
        // When it is ready, then the rollout replaces them all.
        world.hold(None).await?;
        world.until_ready("fedora").await?;
        eventually("both machines have the image", Duration::from_mins(1), async || {
            let machines = world.machines().await?;
            let have_it = machines.len() == 2 && machines.iter().all(|(_, image)| image == "fedora");
            let state = || format!("{machines:?}\n{}", world.controller.log_tail(60));
            Ok(if have_it { Ok(()) } else { Err(state()) })
        })
        .await?;
        world.until_pool(ready).await.map(drop)
    });
}

/// An image whose import can fail.
fn imported(name: &str) -> Value {
    let url = "docker://registry.example.com/debian:13";
    image(name, &json!({ "sourceType": "registry", "url": url, "diskSize": "1Gi" }))
}

fn waits_for(reason: &str) -> impl Fn(&Value) -> bool {
    move |pool| {
        let condition = condition(pool, "ImagesReady");
        condition["status"] == "False" && condition["reason"] == reason
    }
}

fn replicas_ready(count: usize) -> impl Fn(&Value) -> bool {
    move |pool| pool["status"]["readyReplicas"] == count && condition(pool, "ImagesReady").is_null()
}

impl Images<'_> {
    /// Machine UIDs, in the order of their names.
    async fn machine_uids(&self) -> Result<Vec<Value>> {
        let path = self.place.path(API_VERSION, "VirtualMachine")?;
        let list = self.place.ask(Method::GET, &path, &Value::Null).await?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        Ok(items.iter().map(|item| item["metadata"]["uid"].clone()).collect())
    }

    async fn scale(&self, replicas: usize) -> Result<()> {
        let scaled = json!({ "spec": { "replicas": replicas } });
        self.place.patch(POOL_API_VERSION, "VirtualMachinePool", "farm", &scaled).await.map(drop)
    }

    /// Scales the pool of these machines up. It creates none, and they stay.
    async fn scale_without_effect(&self, machines: &[Value]) -> Result<()> {
        let (count, wanted) = (machines.len(), machines.len() + 1);
        self.scale(wanted).await?;
        let is_short =
            |pool: &Value| pool["status"]["replicas"] == count && pool["spec"]["replicas"] == wanted;
        self.until_pool(is_short).await?;
        self.is_settled().await?;
        ensure!(self.machine_uids().await? == machines, "machines that exist are left alone");
        Ok(())
    }

    /// When the image is ready, the pool of these machines creates one more.
    async fn until_one_more_machine(&self, machines: &[Value]) -> Result<()> {
        self.until_ready("debian").await?;
        self.until_pool(replicas_ready(machines.len() + 1)).await?;
        let now = self.machine_uids().await?;
        ensure!(machines.iter().all(|uid| now.contains(uid)), "machines that exist are left alone");
        self.is_settled().await
    }
}

#[test]
fn a_pool_of_a_failed_image_keeps_its_machines_and_creates_none_before_the_image_recovers() {
    // An import must complete within this time, also on a slow machine.
    let flags = [FLAGS[0], FLAGS[1], "--disk-image-max-sync-duration=15s", "--disk-image-backoff-unit=100ms"];
    with_images("image-pool-failed", &flags, async |world| {
        let place = &world.place;
        place.put(imported("debian")).await?;
        world.until_ready("debian").await?;
        place.put(pool(2, "debian", place.namespace)).await?;
        world.until_pool(replicas_ready(2)).await?;
        let machines = world.machine_uids().await?;
        // Given an image that lost its data, and whose source has disappeared,
        let knobs = format!("/api/v1/namespaces/{}/configmaps/simulator-knobs", place.namespace);
        let message = json!({ "data": { "import-message": "manifest unknown" } });
        place.ask(Method::PATCH, &knobs, &message).await?;
        world.place.delete(DATA_VOLUME_API_VERSION, "DataVolume", "debian").await?;
        let lost = |image: &Value| condition(image, "SourceVolumeHealthy")["reason"] == "SourceVolumeLost";
        world.until("debian", lost).await?;
        world.place.delete(SNAPSHOT_API_VERSION, "VolumeSnapshot", "debian").await?;
        world.until_phase("debian", "Failed", "SyncDeadlineExceeded").await?;
        // then its pool says so, keeps the machines that exist, and creates none,
        let failed = world.until_pool(waits_for("ImageFailed")).await?;
        let message = condition(&failed, "ImagesReady")["message"].as_str().unwrap_or_default();
        ensure!(message.contains("debian") && message.contains("manifest unknown"), "{message}");
        world.scale_without_effect(&machines).await?;
        // and when the image is imported again, it continues.
        place.ask(Method::PATCH, &knobs, &json!({ "data": { "import-message": null } })).await?;
        let retry = json!({ "metadata": { "annotations": { "vmpool.dev/retry": "1" } } });
        world.place.patch(IMAGE_API_VERSION, "VMDiskImage", "debian", &retry).await?;
        world.until_one_more_machine(&machines).await
    });
}

#[test]
fn a_pool_of_a_terminating_image_keeps_working_and_uses_the_successor() {
    with_images("image-pool-terminating", &FLAGS, async |world| {
        let place = &world.place;
        place.put(blank("debian")).await?;
        world.until_ready("debian").await?;
        place.put(pool(2, "debian", place.namespace)).await?;
        world.until_pool(replicas_ready(2)).await?;
        // Given an image whose deletion waits for the pool,
        world.place.delete(IMAGE_API_VERSION, "VMDiskImage", "debian").await?;
        world.until("debian", |image| condition(image, "DeletionBlocked")["reason"] == "InUse").await?;
        // then the pool replaces a machine that a user deletes, and scales up.
        let first = world.machine_uids().await?;
        world.place.delete(API_VERSION, "VirtualMachine", "farm-0").await?;
        world.scale(3).await?;
        world.until_pool(replicas_ready(3)).await?;
        let machines = world.machine_uids().await?;
        ensure!(
            machines.len() == 3 && machines.iter().filter(|uid| first.contains(uid)).count() == 1,
            "{machines:?}"
        );
        // When a user releases it and creates a successor that is not imported yet, then the pool waits for
        // that one,
        world.hold(Some("never")).await?;
        let release = json!({ "metadata": { "annotations": { "vmpool.dev/force-release": "true" } } });
        let paused = |paused: bool| json!({ "spec": { "paused": paused } });
        world.place.patch(POOL_API_VERSION, "VirtualMachinePool", "farm", &paused(true)).await?;
        world.place.patch(IMAGE_API_VERSION, "VMDiskImage", "debian", &release).await?;
        world.until_gone(IMAGE_API_VERSION, "VMDiskImage", "debian").await?;
        place.put(blank("debian")).await?;
        world.until_phase("debian", "Syncing", "Syncing").await?;
        world.place.patch(POOL_API_VERSION, "VirtualMachinePool", "farm", &paused(false)).await?;
        world.until_pool(waits_for("ImageSyncing")).await?;
        world.scale_without_effect(&machines).await?;
        world.hold(None).await?;
        world.until_one_more_machine(&machines).await
    });
}

#[test]
fn machines_of_a_pool_get_the_instance_type_that_their_image_names() {
    with_images("image-inferred", &FLAGS, async |world| {
        let place = &world.place;
        let small = json!({
            "apiVersion": INSTANCETYPE_API_VERSION, "kind": "VirtualMachineInstancetype",
            "metadata": { "name": "small" }, "spec": { "cpu": { "guest": 2 }, "memory": { "guest": "2Gi" } },
        });
        place.put(small).await?;
        // Given a pool that infers its instance type from an image that is still imported,
        world.hold(Some("never")).await?;
        let mut debian = blank("debian");
        debian["metadata"]["labels"] = json!({
            "instancetype.kubevirt.io/default-instancetype": "small",
            "instancetype.kubevirt.io/default-instancetype-kind": "VirtualMachineInstancetype",
        });
        place.put(debian).await?;
        world.until_phase("debian", "Syncing", "Syncing").await?;
        let mut inferring = pool(2, "debian", place.namespace);
        inferring["spec"]["virtualMachineTemplate"]["spec"]["instancetype"] =
            json!({ "inferFromVolume": "root" });
        place.put(inferring).await?;
        world.until_pool(waits).await?;
        ensure!(world.machines().await?.is_empty());
        // when the image is ready, then its labels name the instance type of the machines.
        world.hold(None).await?;
        world.until_ready("debian").await?;
        let done = world.until_pool(|pool| pool["status"]["readyReplicas"] == 2).await?;
        ensure!(condition(&done, "TemplateResolved").is_null(), "{done}");
        let path = place.path(API_VERSION, "VirtualMachine")?;
        let list = place.ask(Method::GET, &path, &Value::Null).await?;
        for machine in list["items"].as_array().into_iter().flatten() {
            let named = &machine["spec"]["instancetype"];
            ensure!(named["name"] == "small" && named["kind"] == "VirtualMachineInstancetype", "{machine}");
            ensure!(named["inferFromVolume"].is_null() && named["revisionName"].is_string(), "{machine}");
        }
        world.is_settled().await
    });
}
