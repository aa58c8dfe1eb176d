//! Lost data and objects of a ready image.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use vmpool_api::kubevirt::{DATA_VOLUME_API_VERSION, SNAPSHOT_API_VERSION};

use super::{Images, blank, condition, with_images};

const SOURCE: (&str, &str) = (DATA_VOLUME_API_VERSION, "DataSource");
const SNAPSHOT: (&str, &str) = (SNAPSHOT_API_VERSION, "VolumeSnapshot");
const VOLUME: (&str, &str) = (DATA_VOLUME_API_VERSION, "DataVolume");

async fn uid(world: &Images<'_>, (api_version, kind): (&str, &str)) -> Result<String> {
    let object = world.place.object(api_version, kind, "debian").await?.unwrap_or_default();
    Ok(object["metadata"]["uid"].as_str().unwrap_or_default().to_owned())
}

/// Waits until another object of this name exists.
async fn until_another(world: &Images<'_>, (api_version, kind): (&str, &str), former: &str) -> Result<Value> {
    let is_other = |object: &Value| object["metadata"]["uid"] != former;
    world.place.until_object(api_version, kind, "debian", is_other).await
}

#[test]
fn a_lost_or_edited_data_source_is_written_again() {
    with_images("image-source", &[], async |world| {
        world.place.put(blank("debian")).await?;
        world.until_ready("debian").await?;
        let former = uid(&world, SOURCE).await?;
        let edit =
            json!({ "spec": { "source": { "snapshot": null, "pvc": { "namespace": "a", "name": "b" } } } });
        world.place.patch(SOURCE.0, SOURCE.1, "debian", &edit).await?;
        let wanted = json!({ "snapshot": { "namespace": world.place.namespace, "name": "debian" } });
        let source = world
            .place
            .until_object(SOURCE.0, SOURCE.1, "debian", |source| source["spec"]["source"] == wanted)
            .await?;
        ensure!(source["metadata"]["uid"] == former, "{source}");
        world.place.delete(SOURCE.0, SOURCE.1, "debian").await?;
        until_another(&world, SOURCE, &former).await?;
        let image = world.until_ready("debian").await?;
        ensure!(image["status"]["healCount"] == 0, "{image}");
        world.is_settled().await?;
        ensure!(world.count("create datavolumes")? == 1);
        Ok(())
    });
}

#[test]
fn a_lost_snapshot_is_taken_again_without_a_download() {
    with_images("image-snapshot", &[], async |world| {
        world.place.put(blank("debian")).await?;
        world.until_ready("debian").await?;
        let former = uid(&world, SNAPSHOT).await?;
        world.place.delete(SNAPSHOT.0, SNAPSHOT.1, "debian").await?;
        until_another(&world, SNAPSHOT, &former).await?;
        let healed = |image: &Value| image["status"]["phase"] == "Ready" && image["status"]["healCount"] == 1;
        world.until("debian", healed).await?;
        world.until_reasons("debian", &["Healing", "Healed"]).await?;
        world.is_settled().await?;
        ensure!(world.count("create datavolumes")? == 1, "nothing is downloaded again");
        Ok(())
    });
}

#[test]
fn a_lost_claim_leaves_the_image_usable_and_with_the_snapshot_it_is_imported_again() {
    with_images("image-data", &[], async |world| {
        world.place.put(blank("debian")).await?;
        world.until_ready("debian").await?;
        world.until("debian", |image| condition(image, "SourceVolumeHealthy")["status"] == "True").await?;
        let former = uid(&world, VOLUME).await?;
        world.place.delete(VOLUME.0, VOLUME.1, "debian").await?;
        let lost = |image: &Value| condition(image, "SourceVolumeHealthy")["reason"] == "SourceVolumeLost";
        let image = world.until("debian", lost).await?;
        ensure!(image["status"]["phase"] == "Ready", "{image}");
        world.is_settled().await?;
        ensure!(world.count("create datavolumes")? == 1, "nothing is rebuilt");
        world.place.delete(SNAPSHOT.0, SNAPSHOT.1, "debian").await?;
        until_another(&world, VOLUME, &former).await?;
        let healed = |image: &Value| image["status"]["phase"] == "Ready" && image["status"]["healCount"] == 1;
        world.until("debian", healed).await?;
        world.until_reasons("debian", &["Healing", "Healed"]).await?;
        world.is_settled().await
    });
}
