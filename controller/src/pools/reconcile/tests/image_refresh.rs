//! Machines with disks from earlier content of their image.

use std::time::Duration;

use serde_json::{Value, json};
use vmpool_engine::image_refresh::{DISK_SOURCES, SETTLING_TIME};

use super::rollouts::{MACHINES, edit};
use super::{SECOND, count};
use crate::process::options::PlatformName;
use crate::settings::ImageRefreshSettings;
use crate::testing::{LeaderWorld, Verb, machine_names, pool_manifest};

const IMAGES: &str = "clustervirtualimages";
const DVP: &[PlatformName] = &[PlatformName::Dvp];

/// Creates the image that disks of the pool are created from.
fn create_image(world: &LeaderWorld) -> String {
    let image = json!({
        "apiVersion": "virtualization.deckhouse.io/v1alpha2",
        "kind": "ClusterVirtualImage",
        "metadata": { "name": "alpine" },
        "spec": { "dataSource": { "type": "HTTP", "http": { "url": "https://images.example/alpine" } } },
    });
    let image = world.server.create(IMAGES, image);
    world.server.edit_of_cluster(IMAGES, "alpine", |image| image["status"] = json!({ "phase": "Ready" }));
    image["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// Replaces the image by one with other content.
fn replace_image(world: &LeaderWorld) -> String {
    world.server.delete_of_cluster(IMAGES, "alpine");
    create_image(world)
}

/// A pool with two running machines whose image has the returned UID.
async fn refreshing(refresh: &str, settings: Option<ImageRefreshSettings>) -> (LeaderWorld, String) {
    let mut world = LeaderWorld::new();
    world.image_refresh = settings;
    let image = create_image(&world);
    world.lead_all(DVP);
    world.calm().await;
    let mut pool = pool_manifest("web", 2);
    pool["spec"]["imageRefresh"] = json!(refresh);
    world.server.create("virtualmachinepools", pool);
    world.calm().await;
    world.run_machines();
    world.calm().await;
    world.take_writes();
    (world, image)
}

/// The records of all machines.
fn records(world: &LeaderWorld) -> Vec<Value> {
    world.machines().iter().map(|machine| machine["metadata"]["annotations"][DISK_SOURCES].clone()).collect()
}

fn record(image: &str) -> Value {
    json!(format!(r#"{{"root":"ClusterVirtualImage/alpine@{image}"}}"#))
}

#[tokio::test]
async fn machines_record_their_image_in_their_create_and_are_reported_after_a_minute() {
    let (world, old) = refreshing("Report", Some(ImageRefreshSettings::default())).await;
    assert_eq!(records(&world), [record(&old), record(&old)]);
    assert!(world.condition("ImageOutdated").is_none());
    replace_image(&world);
    world.advance(SETTLING_TIME.saturating_sub(SECOND * 5)).await;
    assert_eq!(world.take_writes().len(), 0, "content that may change again reports nothing");
    world.advance(SECOND * 10).await;
    assert_eq!(world.status()["imageOutdatedReplicas"], 2);
    let shown = world.condition("ImageOutdated").expect("the pool reports its machines");
    assert_eq!((&shown["status"], &shown["reason"]), (&json!("True"), &json!("SourceChanged")));
    assert!(shown["message"].as_str().unwrap().contains("ClusterVirtualImage/alpine"), "{shown}");
    assert!(world.metrics.page().contains("vmpool_pool_image_outdated{"));
    assert_eq!(world.take_writes().len(), 1, "one status");
    world.advance(Duration::from_mins(20)).await;
    assert_eq!(world.take_writes().len(), 0);
}

#[tokio::test]
async fn the_record_costs_no_write_and_new_machines_have_the_new_content() {
    let (world, old) = refreshing("Report", Some(ImageRefreshSettings::default())).await;
    let new = replace_image(&world);
    world.advance(SETTLING_TIME * 2).await;
    world.take_writes();
    world.scale(3);
    world.calm().await;
    let writes = world.take_writes();
    assert_eq!(
        (count(&writes, Verb::Create, MACHINES), count(&writes, Verb::Create, "virtualdisks")),
        (1, 1)
    );
    let is_machine_patch = |call: &&crate::testing::Call| super::is_patch(call, MACHINES);
    assert_eq!(writes.iter().filter(is_machine_patch).count(), 0);
    assert_eq!(records(&world).iter().filter(|found| **found == record(&new)).count(), 1);
    assert_eq!(records(&world).iter().filter(|found| **found == record(&old)).count(), 2);
    assert_eq!(world.status()["imageOutdatedReplicas"], 2, "the new machine is not outdated");
}

#[tokio::test]
async fn an_image_that_is_missing_or_not_ready_makes_nothing_outdated() {
    let (world, _) = refreshing("Report", Some(ImageRefreshSettings::default())).await;
    world.server.delete_of_cluster(IMAGES, "alpine");
    world.advance(SETTLING_TIME * 2).await;
    assert!(world.condition("ImageOutdated").is_none());
    create_image(&world);
    world.server.edit_of_cluster(IMAGES, "alpine", |image| image["status"]["phase"] = json!("Provisioning"));
    world.advance(SETTLING_TIME * 2).await;
    assert!(world.condition("ImageOutdated").is_none());
    world.server.edit_of_cluster(IMAGES, "alpine", |image| image["status"]["phase"] = json!("Ready"));
    world.advance(SETTLING_TIME * 2).await;
    assert!(world.condition("ImageOutdated").is_some());
    edit(&world, |pool| pool["spec"]["imageRefresh"] = json!("Off"));
    world.calm().await;
    assert!(world.condition("ImageOutdated").is_none());
    assert!(world.status()["imageOutdatedReplicas"].is_null(), "absent when it is zero");
}

#[tokio::test]
async fn without_the_feature_gate_nothing_is_watched_and_recorded() {
    let (world, _) = refreshing("Report", None).await;
    assert_eq!(records(&world), [Value::Null, Value::Null]);
    assert_eq!(world.server.watches(IMAGES), 0);
    replace_image(&world);
    world.advance(SETTLING_TIME * 2).await;
    assert!(world.condition("ImageOutdated").is_none());
}

#[tokio::test]
async fn a_report_deletes_no_machine() {
    let (world, _) = refreshing("Report", Some(ImageRefreshSettings::default())).await;
    let before = machine_names(&world.machines());
    replace_image(&world);
    world.advance(SETTLING_TIME * 5).await;
    assert_eq!(machine_names(&world.machines()), before);
}

#[tokio::test]
async fn machines_from_an_earlier_image_are_replaced_one_after_the_other() {
    let (world, _) = refreshing("Recreate", Some(ImageRefreshSettings::default())).await;
    let before = machine_names(&world.machines());
    let left = || machine_names(&world.machines()).iter().filter(|name| before.contains(name)).count();
    let new = replace_image(&world);
    world.advance(SETTLING_TIME / 2).await;
    assert_eq!(left(), 2);
    world.advance(SETTLING_TIME).await;
    assert_eq!((left(), world.machines().len()), (1, 2), "the budget is one machine");
    let is_told = |event: &Value| {
        event["reason"] == "SuccessfulDelete"
            && event["message"].as_str().is_some_and(|text| text.contains("its image has other content"))
    };
    assert!(world.server.all("events").iter().any(is_told), "the event says why");
    world.run_machines();
    world.calm().await;
    assert_eq!((left(), world.machines().len()), (0, 2));
    world.run_machines();
    world.calm().await;
    assert_eq!(records(&world), [record(&new), record(&new)]);
    assert!(world.condition("ImageOutdated").is_none());
    world.take_writes();
    world.advance(Duration::from_mins(20)).await;
    assert_eq!(world.take_writes().len(), 0, "nothing else is replaced");
}
