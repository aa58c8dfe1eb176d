//! What an image reports if the cluster or the storage lacks something, and that it recovers by itself.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_api::kubevirt::{DATA_VOLUME_API_VERSION, SNAPSHOT_API_VERSION};
use vmpool_e2e::wait::eventually;
use vmpool_installation::installation::cluster_options;
use vmpool_installation::programs::{Accounts, Chart, ControllerOptions, ControllerProgram};
use vmpool_installation::workspace_root;
use vmpool_test_cluster::control_plane::{ControlPlane, apply_manifests, read_yaml_documents};

use super::{Images, blank, condition, image, with_images};
use crate::{TestNamespace, run_to_end};

const SOURCE: (&str, &str) = (DATA_VOLUME_API_VERSION, "DataSource");
const SNAPSHOT: (&str, &str) = (SNAPSHOT_API_VERSION, "VolumeSnapshot");
const VOLUME: (&str, &str) = (DATA_VOLUME_API_VERSION, "DataVolume");

/// The definitions of other programs that contain one of these names.
async fn define(cluster: &ControlPlane, names: &[&str]) -> Result<()> {
    let all = read_yaml_documents(&workspace_root().join("api/crds/kubevirt/platform"))?;
    let is_named = |definition: &&Value| {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        names.iter().any(|wanted| name.contains(wanted))
    };
    let chosen: Vec<Value> = all.iter().filter(is_named).cloned().collect();
    ensure!(!chosen.is_empty(), "no definition has a name with {names:?}");
    Ok(apply_manifests(&cluster.admin(), &chosen, None).await?)
}

/// What the DataSource of the image points to.
async fn until_source(world: &Images<'_>, wanted: Value) -> Result<Value> {
    world.place.until_object(SOURCE.0, SOURCE.1, "debian", |source| source["spec"]["source"] == wanted).await
}

#[test]
fn an_image_waits_for_cdi_and_uses_its_claim_until_the_cluster_has_snapshots() {
    run_to_end(async {
        let mut options = cluster_options("image-without-cdi");
        options.manifests.push(workspace_root().join("api/crds/diskimage"));
        let cluster = Arc::new(ControlPlane::start(options).await?);
        let values = ["platforms.kubevirt.enabled=true", "featureGates.DiskImages=true"];
        let chart = Chart::render(&values.map(str::to_owned)).await?;
        let granted = Accounts::of(&chart, &cluster).await?;
        cluster.kubectl(&["create", "namespace", "images"]).await?;
        granted.grant_in(&cluster, "images").await?;
        let mut options = ControllerOptions::new("images", "one");
        options.extra.push("--feature-gates=VirtualMachinePool=false,DiskImages=true".to_owned());
        let controller = ControllerProgram::start(&cluster, options).await?;
        let place = TestNamespace { cluster: &cluster, namespace: "images" };
        let since = cluster.audit_mark();
        let mut world = Images { place, controller, simulator: None, since };
        // Without CDI the image says what is missing, and this is no failed attempt.
        world.place.put(blank("debian")).await?;
        let waiting = world.until_phase("debian", "Queued", "ResourceCreationFailed").await?;
        let message = waiting["status"]["message"].as_str().unwrap_or_default();
        ensure!(message.contains("DataVolume") && message.contains("cdi.kubevirt.io"), "{message}");
        ensure!(waiting["status"]["failureCount"] == 0, "{waiting}");
        world.is_settled().await?;
        // With CDI it is imported, and without snapshots machines clone the claim.
        define(&cluster, &["kubevirt.io"]).await?;
        world.simulate().await?;
        let ready = world.until_ready("debian").await?;
        let message = ready["status"]["message"].as_str().unwrap_or_default();
        ensure!(message.contains("does not serve snapshots"), "{message}");
        ensure!(ready["status"]["snapshot"].is_null(), "{ready}");
        until_source(&world, json!({ "pvc": { "namespace": "images", "name": "debian" } })).await?;
        world.is_settled().await?;
        // When the cluster has snapshots, then the image gets one of its claim.
        define(&cluster, &["snapshot.storage.k8s.io"]).await?;
        until_source(&world, json!({ "snapshot": { "namespace": "images", "name": "debian" } })).await?;
        let with_snapshot = |image: &Value| {
            image["status"]["phase"] == "Ready" && image["status"]["snapshot"]["readyToUse"] == true
        };
        let image = world.until("debian", with_snapshot).await?;
        ensure!(image["status"]["healCount"] == 0, "no data was lost: {image}");
        world.is_settled().await?;
        ensure!(world.count("create datavolumes")? == 1, "{:#?}", world.requests()?);
        Ok(())
    });
}

#[test]
fn images_are_imported_from_object_storage_and_from_registries() {
    with_images("image-sources", &[], async |world| {
        let place = &world.place;
        let bucket = json!({
            "sourceType": "s3", "url": "https://s3.example.com/images/debian.qcow2", "diskSize": "1Gi",
            "secretRef": "bucket", "certConfigMap": "authority",
        });
        let registry = json!({
            "sourceType": "registry", "url": "docker://registry.example.com/debian:13", "diskSize": "1Gi",
            "secretRef": "registry",
        });
        place.put(image("bucket", &bucket)).await?;
        place.put(image("registry", &registry)).await?;
        let with = |from: &Value, fields: &[&str]| -> Value {
            fields.iter().map(|field| ((*field).to_owned(), from[field].clone())).collect()
        };
        for (name, source) in [
            ("bucket", json!({ "s3": with(&bucket, &["url", "secretRef", "certConfigMap"]) })),
            ("registry", json!({ "registry": with(&registry, &["url", "secretRef"]) })),
        ] {
            world.until_ready(name).await?;
            let volume = place.object(VOLUME.0, VOLUME.1, name).await?.context("no DataVolume")?;
            ensure!(volume["spec"]["source"] == source, "{volume}");
            let requested = &volume["spec"]["storage"]["resources"]["requests"]["storage"];
            ensure!(requested == "1Gi", "{volume}");
        }
        world.is_settled().await
    });
}

#[test]
fn an_import_whose_artifact_is_missing_succeeds_when_it_is_published() {
    with_images("image-artifact", &["--disk-image-backoff-unit=500ms"], async |world| {
        let knobs = format!("/api/v1/namespaces/{}/configmaps/simulator-knobs", world.place.namespace);
        let message = "unable to pull: reading manifest 13 in registry.example.com/debian: manifest unknown";
        let missing = json!({ "data": { "import-message": message } });
        world.place.ask(Method::PATCH, &knobs, &missing).await?;
        let spec = json!({ "sourceType": "registry", "url": "docker://registry.example.com/debian:13", "diskSize": "1Gi" });
        world.place.put(image("debian", &spec)).await?;
        let failed = world.until_phase("debian", "RetryableFailure", "MissingSourceArtifact").await?;
        ensure!(
            failed["status"]["message"].as_str().is_some_and(|text| text.contains("manifest unknown")),
            "{failed}"
        );
        ensure!(failed["status"]["failureCount"].as_i64() >= Some(1), "{failed}");
        let published = json!({ "data": { "import-message": null } });
        world.place.ask(Method::PATCH, &knobs, &published).await?;
        let ready = world.until_ready("debian").await?;
        ensure!(ready["status"]["failureCount"] == 0, "{ready}");
        Ok(())
    });
}

#[test]
fn an_import_into_a_missing_storage_class_succeeds_when_the_class_exists() {
    let flags = ["--disk-image-max-attempt-duration=3s", "--disk-image-backoff-unit=500ms"];
    with_images("image-class", &flags, async |world| {
        let spec = json!({ "sourceType": "blank", "diskSize": "1Gi", "storageClass": "image-class-missing" });
        world.place.put(image("debian", &spec)).await?;
        world.until_phase("debian", "RetryableFailure", "SyncAttemptDurationExceeded").await?;
        world.until_reasons("debian", &["SyncErrorOccurred"]).await?;
        let class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "image-class-missing" },
            "provisioner": "simulator.vmpool.dev",
        });
        apply_manifests(&world.place.cluster.admin(), &[class], None).await?;
        let ready = world.until_ready("debian").await?;
        ensure!(ready["status"]["failureCount"] == 0, "{ready}");
        let volume = world.place.object(VOLUME.0, VOLUME.1, "debian").await?.context("no DataVolume")?;
        ensure!(volume["spec"]["storage"]["storageClassName"] == "image-class-missing", "{volume}");
        Ok(())
    });
}

#[test]
fn an_import_that_a_quota_refuses_says_so_and_succeeds_when_there_is_room() {
    let flags = ["--disk-image-max-attempt-duration=6s", "--disk-image-backoff-unit=500ms"];
    with_images("image-quota", &flags, async |world| {
        let quotas = format!("/api/v1/namespaces/{}/resourcequotas", world.place.namespace);
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "storage" },
            "spec": { "hard": { "requests.storage": "10Mi" } },
        });
        world.place.ask(Method::POST, &quotas, &quota).await?;
        let path = format!("{quotas}/storage");
        eventually("the quota is in effect", std::time::Duration::from_mins(1), async || {
            let quota = world.place.ask(Method::GET, &path, &Value::Null).await?;
            Ok(if quota["status"]["used"].is_null() { Err(quota.to_string()) } else { Ok(()) })
        })
        .await?;
        world.place.put(blank("debian")).await?;
        let full = |image: &Value| {
            let message = image["status"]["message"].as_str().unwrap_or_default();
            image["status"]["phase"] == "Syncing" && message.contains("exceeded quota: storage")
        };
        world.until("debian", full).await?;
        let failed = world.until_phase("debian", "RetryableFailure", "SyncAttemptDurationExceeded").await?;
        ensure!(
            failed["status"]["message"].as_str().is_some_and(|text| text.contains("exceeded quota")),
            "{failed}"
        );
        world.place.ask(Method::DELETE, &path, &Value::Null).await?;
        world.until_ready("debian").await.map(drop)
    });
}

#[test]
fn a_snapshot_without_its_content_is_taken_again() {
    with_images("image-content", &[], async |world| {
        world.place.put(blank("debian")).await?;
        world.until_ready("debian").await?;
        let snapshot = world.place.object(SNAPSHOT.0, SNAPSHOT.1, "debian").await?.context("no snapshot")?;
        let content = snapshot["status"]["boundVolumeSnapshotContentName"].as_str().unwrap_or_default();
        world.place.delete(SNAPSHOT.0, "VolumeSnapshotContent", content).await?;
        let healed = |image: &Value| image["status"]["phase"] == "Ready" && image["status"]["healCount"] == 1;
        world.until("debian", healed).await?;
        let other = world.place.object(SNAPSHOT.0, SNAPSHOT.1, "debian").await?.context("no snapshot")?;
        ensure!(other["metadata"]["uid"] != snapshot["metadata"]["uid"], "{other}");
        world.until_reasons("debian", &["Healing", "Healed"]).await?;
        world.is_settled().await?;
        ensure!(world.count("create datavolumes")? == 1, "nothing is downloaded again");
        Ok(())
    });
}

#[test]
fn a_snapshot_may_be_unready_for_the_grace_and_is_then_taken_again() {
    with_images("image-unready", &["--disk-image-snapshot-unready-grace=6s"], async |world| {
        world.place.put(blank("debian")).await?;
        world.until_ready("debian").await?;
        let snapshot = world.place.object(SNAPSHOT.0, SNAPSHOT.1, "debian").await?.context("no snapshot")?;
        let holds =
            json!({ "metadata": { "annotations": { "simulator.vmpool.dev/hold-snapshot": "true" } } });
        world.place.patch(SNAPSHOT.0, SNAPSHOT.1, "debian", &holds).await?;
        let unready = |image: &Value| image["status"]["snapshot"]["readyToUse"] == false;
        let image = world.until("debian", unready).await?;
        ensure!(image["status"]["phase"] == "Ready" && image["status"]["healCount"] == 0, "{image}");
        // After the grace there is another snapshot, without the annotation.
        let healed = |image: &Value| image["status"]["phase"] == "Ready" && image["status"]["healCount"] == 1;
        world.until("debian", healed).await?;
        let other = world.place.object(SNAPSHOT.0, SNAPSHOT.1, "debian").await?.context("no snapshot")?;
        ensure!(other["metadata"]["uid"] != snapshot["metadata"]["uid"], "{other}");
        ensure!(world.count("create datavolumes")? == 1, "nothing is downloaded again");
        Ok(())
    });
}

#[test]
fn a_claim_whose_volume_is_lost_counts_as_gone() {
    with_images("image-claim-lost", &[], async |world| {
        world.place.put(blank("debian")).await?;
        world.until_ready("debian").await?;
        world.until("debian", |image| condition(image, "SourceVolumeHealthy")["status"] == "True").await?;
        let volume = world.place.object(VOLUME.0, VOLUME.1, "debian").await?.context("no DataVolume")?;
        let claim =
            format!("/api/v1/namespaces/{}/persistentvolumeclaims/debian/status", world.place.namespace);
        let lost = json!({ "status": { "phase": "Lost" } });
        world.place.ask(Method::PATCH, &claim, &lost).await?;
        // Machines still clone the snapshot.
        let lost = |image: &Value| condition(image, "SourceVolumeHealthy")["reason"] == "SourceVolumeLost";
        let image = world.until("debian", lost).await?;
        ensure!(image["status"]["phase"] == "Ready", "{image}");
        world.is_settled().await?;
        // Without it the image is imported again.
        world.place.delete(SNAPSHOT.0, SNAPSHOT.1, "debian").await?;
        let healed = |image: &Value| image["status"]["phase"] == "Ready" && image["status"]["healCount"] == 1;
        let image = world.until("debian", healed).await?;
        ensure!(image["status"]["dataVolume"]["uid"] != volume["metadata"]["uid"], "{image}");
        world.until("debian", |image| condition(image, "SourceVolumeHealthy")["status"] == "True").await?;
        world.is_settled().await
    });
}
