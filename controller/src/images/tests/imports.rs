//! Imports, snapshots, and what one tenant can do to the imports of another one.

use std::sync::Arc;

use jiff::SignedDuration;
use parking_lot::Mutex;
use serde_json::json;
use vmpool_model::{ApiError, RequestOutcome};
use vmpool_runtime::testing::test_env;

use super::*;

impl LeaderWorld {
    fn phase(&self, image: &str) -> String {
        let image = self.server.get(IMAGES, image).unwrap();
        image["status"]["phase"].as_str().unwrap_or_default().to_owned()
    }
}

#[tokio::test]
async fn a_long_annotation_does_not_keep_a_place_among_the_imports() {
    let mut world = with_images();
    world.images.as_mut().unwrap().limits.max_concurrent_syncs = 1;
    world.create_image("debian");
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    assert_eq!(world.phase("debian"), "Syncing");
    // The schema refuses a status with a longer value, as it refuses the values of other objects that are
    // copied.
    world.server.intercept(|call| {
        let status = &call.body["status"];
        let is_too_long = |field: &str, limit| status[field].as_str().is_some_and(|text| text.len() > limit);
        if is_too_long("retryToken", 1024) || is_too_long("progress", 64) || is_too_long("message", 32768) {
            return RequestOutcome::Refuse(ApiError::new(422, "Invalid", "the status is too long"));
        }
        RequestOutcome::Serve
    });
    world.server.edit(IMAGES, "debian", |image| {
        image["metadata"]["annotations"] = json!({ "vmpool.dev/retry": "x".repeat(2000) });
    });
    world.server.edit(VOLUMES, "debian", |volume| {
        let condition = json!({ "type": "Running", "status": "False", "message": "y".repeat(32768) });
        volume["status"] = json!({ "phase": "ImportInProgress", "progress": "z".repeat(100),
            "conditions": [condition] });
    });
    world.create_image("fedora");
    world.advance(10 * SECOND).await;
    world.server.edit(VOLUMES, "debian", |volume| volume["status"] = json!({ "phase": "Failed" }));
    world.advance(10 * SECOND).await;
    assert_eq!((world.phase("debian"), world.phase("fedora")), ("RetryableFailure".into(), "Syncing".into()));
    world.server.take_log();
    world.advance(Duration::from_mins(1)).await;
    assert!(world.server.take_log().len() < 3, "a status is refused again and again");
}

#[tokio::test]
async fn an_empty_disk_does_not_wait_for_imports_that_hang() {
    let mut world = with_images();
    world.images.as_mut().unwrap().limits.max_concurrent_syncs = 1;
    world.create_image("hangs");
    world.create_image("waits");
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    world.create_image_of("empty", &json!({ "sourceType": "blank", "diskSize": "1Gi" }));
    world.advance(SECOND).await;
    assert_eq!((world.phase("hangs"), world.phase("waits")), ("Syncing".into(), "Queued".into()));
    assert_eq!(world.phase("empty"), "Syncing");
    world.finish_import("empty").await;
    assert_eq!((world.phase("waits"), world.phase("empty")), ("Queued".into(), "Ready".into()));
}

#[tokio::test]
async fn imports_of_a_namespace_that_hang_keep_no_other_namespace_waiting() {
    let mut world = with_images();
    let limits = &mut world.images.as_mut().unwrap().limits;
    (limits.max_concurrent_syncs, limits.max_concurrent_syncs_per_namespace) = (3, 2);
    for number in 0..12 {
        world.create_image(&format!("hangs-{number:02}"));
    }
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    world.server.create(
        IMAGES,
        json!({ "metadata": { "name": "debian", "namespace": "team-b" }, "spec": imported() }),
    );
    world.advance(SECOND).await;
    let images = world.server.all(IMAGES);
    let importing = images.iter().filter(|image| image["status"]["phase"] == "Syncing");
    let names: Vec<&str> = importing.filter_map(|image| image["metadata"]["name"].as_str()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names.contains(&"debian"), "{names:?}");
}

#[tokio::test]
async fn the_turn_of_an_image_that_cannot_start_goes_to_the_next_one() {
    let mut world = with_images();
    world.images.as_mut().unwrap().limits.max_concurrent_syncs = 1;
    world.lead_with_image("debian").await;
    // Given an image whose data is lost, and whose former DataVolume another finalizer holds,
    world
        .server
        .edit(VOLUMES, "debian", |volume| volume["metadata"]["finalizers"] = json!(["example.com/hold"]));
    world.server.delete(VOLUMES, "debian");
    world.server.delete("persistentvolumeclaims", "debian");
    world.server.delete(SNAPSHOTS, "debian");
    world.advance(10 * SECOND).await;
    assert_eq!(world.phase("debian"), "Queued");
    // then another image is imported at once.
    world.create_image("fedora");
    world.advance(5 * SECOND).await;
    assert_eq!(world.phase("fedora"), "Syncing");
    // The first one follows when it can.
    world.server.edit(VOLUMES, "debian", |volume| volume["metadata"]["finalizers"] = json!([]));
    world.advance(5 * SECOND).await;
    assert_eq!(world.phase("debian"), "Queued");
    world.finish_import("fedora").await;
    world.advance(5 * SECOND).await;
    assert_eq!((world.phase("debian"), world.phase("fedora")), ("Syncing".into(), "Ready".into()));
}

#[tokio::test]
async fn a_new_leader_heals_a_snapshot_that_is_not_ready_anymore() {
    let mut world = with_images();
    world.lead_with_image("debian").await;
    world.server.edit(SNAPSHOTS, "debian", |snapshot| snapshot["status"]["readyToUse"] = json!(false));
    world.advance(SECOND).await;
    world.kill_leader().await;
    world.lead_all(&[PlatformName::Kubevirt]);
    world.advance(Duration::from_mins(4)).await;
    assert_eq!(world.phase("debian"), "Ready", "the grace");
    world.advance(Duration::from_mins(2)).await;
    let image = world.server.get(IMAGES, "debian").unwrap();
    assert_eq!((&image["status"]["phase"], &image["status"]["healCount"]), (&json!("Syncing"), &json!(1)));
}

/// The clock of the API server is another one.
#[rstest]
#[case::ahead(1)]
#[case::behind(-1)]
#[tokio::test]
async fn a_snapshot_has_the_same_time_by_a_clock_that_is_an_hour_off(#[case] hours: i64) {
    let mut world = with_images();
    let clock = world.clock.with_separate_wall_clock();
    world.env = test_env(&clock, 7);
    clock.step_wall(SignedDuration::from_hours(hours));
    world.create_image("debian");
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    world.finish_transfer("debian").await;
    let failures =
        |world: &LeaderWorld| world.server.get(IMAGES, "debian").unwrap()["status"]["failureCount"].clone();
    world.advance(Duration::from_mins(29)).await;
    assert_eq!((world.phase("debian").as_str(), failures(&world)), ("Syncing", json!(0)));
    world.advance(Duration::from_mins(2)).await;
    assert_eq!((world.phase("debian").as_str(), failures(&world)), ("RetryableFailure", json!(1)));
}

#[rstest]
#[case::forward(1)]
#[case::back(-1)]
#[tokio::test]
async fn a_jump_of_the_wall_clock_does_not_change_the_time_that_a_snapshot_has_to_recover(
    #[case] hours: i64,
) {
    let mut world = with_images();
    world.lead_with_image("debian").await;
    world.server.edit(SNAPSHOTS, "debian", |snapshot| snapshot["status"]["readyToUse"] = json!(false));
    world.advance(SECOND).await;
    world.clock.step_wall(SignedDuration::from_hours(hours));
    // An event causes a pass at once.
    world.server.edit(SNAPSHOTS, "debian", |snapshot| snapshot["status"]["restoreSize"] = json!("1Gi"));
    world.advance(Duration::from_mins(4)).await;
    assert_eq!(world.phase("debian"), "Ready", "the grace");
    world.advance(Duration::from_mins(2)).await;
    assert_eq!(world.phase("debian"), "Syncing");
}

#[tokio::test]
async fn a_content_that_the_cache_does_not_show_yet_is_not_lost() {
    let mut world = with_images();
    world.create_image("debian");
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    world.server.hold(CONTENTS);
    world.finish_import("debian").await;
    let snapshot = world.server.get(SNAPSHOTS, "debian");
    assert!(snapshot.is_some(), "the snapshot was deleted");
    assert_eq!(world.phase("debian"), "Ready");
    world.advance(10 * SECOND).await;
    world.server.release();
    world.advance(10 * SECOND).await;
    assert_eq!(world.server.get(SNAPSHOTS, "debian"), snapshot);
    assert_eq!(world.server.get(IMAGES, "debian").unwrap()["status"]["failureCount"], 0);
}

/// A machine of another namespace that clones an image.
fn guest(name: &str, namespace: &str, account: &str) -> Value {
    let mut guest = machine(name, "debian");
    guest["metadata"]["namespace"] = json!(namespace);
    guest["spec"]["dataVolumeTemplates"][0]["spec"]["sourceRef"]["namespace"] = json!(NAMESPACE);
    guest["spec"]["template"]["spec"]["serviceAccountName"] = json!(account);
    guest
}

#[tokio::test]
async fn an_invalid_account_takes_the_permission_to_clone_from_no_other_account() {
    const BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";
    let mut world = with_images();
    world.lead_with_image("debian").await;
    let grant = json!({ "metadata": { "name": "all", "namespace": NAMESPACE },
        "spec": { "from": [{ "namespace": "team-b" }] } });
    world.server.create("vmdiskimagegrants.vmpool.dev", grant);
    for (name, account) in [("a", ""), ("b", "Not Valid"), ("c", "builder")] {
        world.server.create(MACHINES, guest(name, "team-b", account));
    }
    world.advance(10 * SECOND).await;
    let bindings = world.server.all(BINDINGS);
    let subjects = bindings[0]["subjects"].as_array().unwrap();
    let names: Vec<&Value> = subjects.iter().map(|subject| &subject["name"]).collect();
    assert_eq!(names, ["builder", "default"]);
}

#[rstest]
#[case::and_no_image_has_the_name_of_a_data_source_of_a_user(false)]
#[case::also_if_an_image_has_the_name_of_a_data_source_of_a_user(true)]
#[tokio::test]
async fn the_answer_to_a_pool_does_not_tell_whether_an_image_of_another_namespace_exists(
    #[case] has_conflict: bool,
) {
    let mut world = with_images();
    world.create_image("debian");
    let foreign = json!({ "metadata": { "name": "golden", "namespace": NAMESPACE },
        "spec": { "source": { "pvc": { "name": "golden", "namespace": NAMESPACE } } } });
    world.server.create("datasources.cdi.kubevirt.io", foreign);
    if has_conflict {
        world.create_image("golden");
    }
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    for image in ["debian", "absent", "golden"] {
        let mut farm = pool(&format!("of-{image}"), image);
        farm["metadata"]["namespace"] = json!("team-b");
        let template = &mut farm["spec"]["virtualMachineTemplate"]["spec"]["dataVolumeTemplates"][0];
        template["spec"]["sourceRef"]["namespace"] = json!(NAMESPACE);
        world.server.create(POOLS, farm);
    }
    world.calm().await;
    let reason = |image: &str| {
        let pools = world.server.all(POOLS);
        let pool = pools.iter().find(|pool| pool["metadata"]["name"] == format!("of-{image}")).unwrap();
        let conditions = pool["status"]["conditions"].as_array().unwrap();
        let found = conditions.iter().find(|condition| condition["type"] == "ImagesReady");
        found.map(|found| (found["reason"].clone(), found["message"].to_string().replace(image, "IMAGE")))
    };
    assert_eq!(reason("debian").unwrap().0, "RefNotPermitted");
    assert_eq!(reason("debian"), reason("absent"));
    assert_eq!(reason("golden"), None, "a DataSource that is no image");
}

/// An image takes the name of objects that pools use already.
#[rstest]
#[case::of_the_same_data_source("DataSource", json!({ "sourceRef": { "kind": "DataSource", "name": "debian" } }), true)]
#[case::of_the_same_snapshot("VolumeSnapshot", json!({ "source": { "snapshot": { "name": "debian" } } }), true)]
#[case::of_the_same_claim("PersistentVolumeClaim", json!({ "source": { "pvc": { "name": "debian" } } }), true)]
#[case::of_the_data_source("PersistentVolumeClaim", json!({ "sourceRef": { "kind": "DataSource", "name": "debian" } }), false)]
#[case::of_the_claim("DataSource", json!({ "source": { "pvc": { "name": "debian" } } }), false)]
#[tokio::test]
async fn an_image_with_the_name_of_an_object_of_a_user_does_not_stop_the_pools_of_this_object(
    #[case] kind: &str,
    #[case] source: Value,
    #[case] continues: bool,
) {
    let mut world = with_images();
    let resource = match kind {
        "DataSource" => DATA[3],
        "VolumeSnapshot" => SNAPSHOTS,
        _ => "persistentvolumeclaims",
    };
    let foreign =
        json!({ "metadata": { "name": "debian", "namespace": NAMESPACE }, "spec": { "source": {} } });
    world.server.create(resource, foreign);
    world.create_image("debian");
    let mut farm = pool("web", "debian");
    let template = &mut farm["spec"]["virtualMachineTemplate"]["spec"]["dataVolumeTemplates"][0];
    template["spec"] = json!({ "storage": {} });
    for (field, value) in source.as_object().into_iter().flatten() {
        template["spec"][field] = value.clone();
    }
    world.server.create(POOLS, farm);
    world.lead_all(&[PlatformName::Kubevirt]);
    world.advance(10 * SECOND).await;
    let image = world.server.get(IMAGES, "debian").unwrap();
    assert!(image["status"]["conditions"].to_string().contains("NameConflict"), "{image}");
    assert_eq!(world.images_ready("web").is_none(), continues);
    assert_eq!(world.server.all(MACHINES).len(), if continues { 2 } else { 0 });
    // Without the object, the name is that of the image.
    world.server.delete(resource, "debian");
    world.advance(10 * SECOND).await;
    assert_eq!(world.images_ready("web").unwrap()["reason"], "ImageSyncing");
}

#[tokio::test]
async fn a_client_that_changes_the_data_source_back_causes_few_writes_and_no_wrong_readiness() {
    let mut world = with_images();
    world.lead_with_image("debian").await;
    let other = json!({ "pvc": { "namespace": NAMESPACE, "name": "golden" } });
    world.server.take_log();
    for _ in 0..600 {
        if world.server.get(DATA[3], "debian").unwrap()["spec"]["source"] != other {
            world.server.edit(DATA[3], "debian", |source| source["spec"]["source"] = other.clone());
        }
        world.advance(SECOND).await;
    }
    let log = world.server.take_log();
    let of = |resource: &str| log.iter().filter(|call| *call.resource == *resource).count();
    assert!((5..=13).contains(&of("datasources")), "{}", of("datasources"));
    assert!(log.len() <= 80, "{}", log.len());
    assert_eq!(world.phase("debian"), "Syncing");
    // The other client stops.
    world.advance(Duration::from_mins(11)).await;
    assert_eq!(world.phase("debian"), "Ready");
    let source = world.server.get(DATA[3], "debian").unwrap();
    assert_eq!(source["spec"]["source"]["snapshot"]["name"], "debian", "{source}");
}

/// A create that the API server carries out after the image is gone. No controller remembers it.
#[rstest]
#[case::of_a_data_volume(VOLUMES)]
#[case::of_a_snapshot(SNAPSHOTS)]
#[case::of_a_data_source(DATA[3])]
#[case::of_a_role(PERMISSION[1])]
#[case::of_a_role_binding(PERMISSION[0])]
#[tokio::test]
async fn an_object_that_is_created_after_its_image_is_gone_does_not_stop_the_next_image_of_this_name(
    #[case] resource: &'static str,
) {
    let mut world = with_images();
    let created = Arc::new(Mutex::new(None));
    let seen = created.clone();
    world.server.intercept(move |call| {
        if call.verb == Verb::Create && resource.starts_with(&*call.resource) {
            seen.lock().get_or_insert(call.body.clone());
        }
        RequestOutcome::Serve
    });
    world.with_guest().await;
    world.server.delete_in("team-b", MACHINES, "guest");
    world.server.delete(IMAGES, "debian");
    world.collect_for(50).await;
    assert_eq!((world.server.get(IMAGES, "debian"), world.server.all(resource)), (None, Vec::new()));
    let late = created.lock().take().unwrap();
    let late = world.server.create(resource, late)["metadata"]["uid"].clone();
    world.create_image("debian");
    world.advance(SECOND).await;
    world.server.collect_garbage();
    world.advance(Duration::from_mins(2)).await;
    assert!(world.server.all(resource).iter().all(|object| object["metadata"]["uid"] != late));
    assert_eq!(world.phase("debian"), "Syncing");
}

/// From the creation of an object until the removal of its owner, a deletion in the foreground can reach it.
#[rstest]
#[case::the_data_volume(VOLUMES)]
#[case::the_snapshot(SNAPSHOTS)]
#[case::the_data_source(DATA[3])]
#[tokio::test]
async fn an_image_is_ready_when_it_does_not_own_its_data_anymore(#[case] resource: &'static str) {
    let mut world = with_images();
    world.create_image("debian");
    world.lead_all(&[PlatformName::Kubevirt]);
    let owners = |world: &LeaderWorld| {
        let object = world.server.get(resource, "debian").unwrap();
        object["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len)
    };
    let is_removal = |call: &Call| {
        let removes = call.body.to_string().contains("ownerReferences");
        matches!(call.verb, Verb::Patch(_)) && resource.starts_with(&*call.resource) && removes
    };
    world.server.intercept(move |call| {
        let refused = ApiError::new(500, "InternalError", "later");
        if is_removal(call) { RequestOutcome::Refuse(refused) } else { RequestOutcome::Serve }
    });
    world.calm().await;
    world.finish_import("debian").await;
    assert_eq!((world.phase("debian").as_str() == "Ready", owners(&world)), (false, 1));
    world.server.behave();
    world.advance(Duration::from_mins(1)).await;
    world.server.edit(SNAPSHOTS, "debian", |snapshot| {
        snapshot["status"] =
            json!({ "readyToUse": true, "boundVolumeSnapshotContentName": "content-debian" });
    });
    world.advance(SECOND).await;
    assert_eq!((world.phase("debian").as_str(), owners(&world)), ("Ready", 0));
}
