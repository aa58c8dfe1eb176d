//! The labels of the objects with the data of an image.

use rstest::rstest;
use serde_json::{Value, json};
use vmpool_model::{ApiError, RequestOutcome};

use super::*;

const SOURCES: &str = "datasources.cdi.kubevirt.io";
const IMAGE_UID: &str = "vmpool.dev/vmdiskimage-uid";

#[rstest]
#[case::of_the_data_source(SOURCES)]
#[case::of_the_snapshot(SNAPSHOTS)]
#[case::of_the_data_volume(VOLUMES)]
#[tokio::test]
async fn a_label_that_a_user_removes_comes_back_and_the_image_stays_ready(#[case] resource: &str) {
    let mut world = with_images();
    world.lead_with_image("debian").await;
    let labels = || world.server.get(resource, "debian").unwrap()["metadata"]["labels"].clone();
    let before = labels();
    assert!(before[IMAGE_UID].is_string());
    world.server.edit(resource, "debian", |object| object["metadata"]["labels"] = json!({ "mine": "a" }));
    world.advance(SECOND).await;
    let mut expected = before;
    expected["mine"] = json!("a");
    assert_eq!(labels(), expected);
    let image = world.server.get(IMAGES, "debian").unwrap();
    assert_eq!(image["status"]["phase"], "Ready");
    assert!(!world.server.all("events").iter().any(|event| event["reason"] == "NameConflict"));
    world.server.take_log();
    world.advance(Duration::from_mins(4)).await;
    assert_eq!(world.server.take_log().len(), 0);
}

#[tokio::test]
async fn an_object_without_its_label_is_deleted_with_its_image() {
    let mut world = with_images();
    world.server.create(MACHINES, machine("web", "debian"));
    world.lead_with_image("debian").await;
    world.server.delete(IMAGES, "debian");
    world.advance(SECOND).await;
    for resource in [VOLUMES, SNAPSHOTS, SOURCES] {
        world.server.edit(resource, "debian", |object| object["metadata"]["labels"] = Value::Null);
    }
    world.server.delete(MACHINES, "web");
    for _ in 0..5 {
        world.advance(SECOND).await;
        world.server.collect_garbage();
    }
    assert_eq!(world.server.get(IMAGES, "debian"), None);
    for resource in [VOLUMES, SNAPSHOTS, SOURCES] {
        assert_eq!(world.server.get(resource, "debian"), None);
    }
}

#[tokio::test]
async fn the_objects_of_an_image_follow_its_labels() {
    const TYPE: &str = "instancetype.kubevirt.io/default-instancetype";
    let mut world = with_images();
    world.lead_with_image("debian").await;
    let data = [VOLUMES, SNAPSHOTS, SOURCES];
    let labels = || {
        data.map(|resource| world.server.get(resource, "debian").unwrap()["metadata"]["labels"][TYPE].clone())
    };
    assert_eq!(labels(), [Value::Null, Value::Null, Value::Null]);
    let label = |value: Value| {
        world.server.edit(IMAGES, "debian", |image| image["metadata"]["labels"][TYPE] = value);
    };
    for value in ["u1.small", "u1.large"] {
        label(json!(value));
        world.advance(SECOND).await;
        assert_eq!(labels(), [json!(value), json!(value), json!(value)]);
    }
    world.server.edit(SOURCES, "debian", |source| source["metadata"]["labels"][TYPE] = json!("o1.large"));
    world.advance(SECOND).await;
    assert_eq!(labels()[2], "u1.large");
    world.server.edit(IMAGES, "debian", |image| image["metadata"]["labels"] = json!({}));
    world.advance(SECOND).await;
    assert_eq!(labels(), [Value::Null, Value::Null, Value::Null]);
    world.server.take_log();
    world.advance(Duration::from_mins(4)).await;
    assert_eq!(world.server.take_log().len(), 0);
}

#[tokio::test]
async fn refused_labels_stop_nothing_else() {
    let mut world = with_images();
    world.lead_with_image("debian").await;
    world.server.intercept(|call| {
        let is_label = matches!(call.verb, Verb::Patch(_)) && call.resource == "datasources";
        let refused = ApiError::new(422, "Invalid", "a policy forbids the label");
        if is_label { RequestOutcome::Refuse(refused) } else { RequestOutcome::Serve }
    });
    world.server.edit(SOURCES, "debian", |source| source["metadata"]["labels"] = Value::Null);
    world.server.delete(SNAPSHOTS, "debian");
    world.advance(10 * SECOND).await;
    let status = world.server.get(IMAGES, "debian").unwrap()["status"].clone();
    assert_eq!(status["phase"], "Syncing", "{status}");
    assert!(status["conditions"].to_string().contains("SnapshotLost"), "{status}");
}
