//! Wrappers, their machines and the disks of these.

use std::sync::Arc;

use parking_lot::Mutex;
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_model::RequestOutcome;

use super::*;

fn with_wrappers() -> LeaderWorld {
    let mut world = with_images();
    world.images.as_mut().unwrap().wrappers = true;
    world
}

impl LeaderWorld {
    /// A user creates a wrapper, whose image the controller creates if it is missing.
    fn create_wrapper(&self, name: &str, image: &str, disk: &str) {
        let template = imported();
        let instance = json!({ "template": { "spec": { "domain": { "devices": {} } } } });
        self.server.create(
            WRAPPERS,
            json!({
                "metadata": { "name": name, "namespace": NAMESPACE },
                "spec": {
                    "vmDiskImageRef": { "name": image }, "vmDiskImageTemplate": template,
                    "diskName": disk, "virtualMachineTemplate": { "spec": instance },
                },
            }),
        );
    }

    /// The reason of a condition of a wrapper.
    fn wrapper_reason(&self, name: &str, kind: &str) -> Value {
        let status = self.wrapper_status(name);
        let conditions = status["conditions"].as_array().unwrap();
        let found = conditions.iter().find(|condition| condition["type"] == kind);
        found.map(|condition| condition["reason"].clone()).unwrap_or_default()
    }

    /// Whether the machine exists.
    fn has_machine(&self, name: &str) -> bool {
        self.server.get(MACHINES, name).is_some()
    }
}

#[rstest]
#[case::a_data_volume(VOLUMES)]
#[case::a_claim("persistentvolumeclaims")]
#[tokio::test]
async fn no_machine_is_created_over_the_data_of_a_user(#[case] resource: &str) {
    let mut world = with_wrappers();
    let metadata = json!({ "name": "web-root", "namespace": NAMESPACE });
    world.server.create(resource, json!({ "metadata": metadata, "spec": {} }));
    world.lead_with_image("debian").await;
    world.create_wrapper("web", "debian", "root");
    world.advance(10 * SECOND).await;
    assert!(!world.has_machine("web"));
    assert_eq!(world.wrapper_reason("web", "VirtualMachineReady"), "NameConflict");
    assert_eq!(world.wrapper_status("web")["phase"], "Failed");
    assert!(world.server.all("events").iter().any(|event| event["reason"] == "NameConflict"));
    world.server.take_log();
    world.advance(Duration::from_mins(4)).await;
    assert_eq!(world.server.take_log().len(), 0, "a conflict that waits causes requests");
    world.server.delete(resource, "web-root");
    world.advance(SECOND).await;
    assert!(world.has_machine("web"));
    assert_eq!(world.wrapper_reason("web", "VirtualMachineReady"), "DiskNotReady");
}

/// A field with this many levels of lists.
fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!([inner]))
}

#[rstest]
#[case::that_the_first_list_shows(true)]
#[case::that_the_watch_shows(false)]
#[tokio::test]
async fn a_template_that_no_decoder_reads_stops_only_its_wrapper(#[case] is_listed: bool) {
    let mut world = with_wrappers();
    let deep = |world: &LeaderWorld| {
        world.create_wrapper("deep", "debian", "root");
        world.server.edit(WRAPPERS, "deep", |wrapper| {
            wrapper["spec"]["virtualMachineTemplate"]["spec"]["unknown"] = nested(150);
        });
    };
    if is_listed {
        deep(&world);
    }
    world.lead_with_image("debian").await;
    if !is_listed {
        deep(&world);
    }
    world.create_wrapper("web", "debian", "root");
    world.advance(10 * SECOND).await;
    assert!(world.has_machine("web") && !world.has_machine("deep"));
    let status = world.wrapper_status("deep");
    assert_eq!(status["phase"], "Failed");
    assert!(status["message"].as_str().unwrap().contains("nested more than"), "{status}");
    let page = world.metrics.page();
    let unconfirmed = page.lines().find(|line| line.contains("outcome=\"lost\"") && !line.ends_with(" 0"));
    assert_eq!(unconfirmed, None, "the responses are read, too");
    // It refers to the image, so a deletion waits for it.
    world.server.delete(WRAPPERS, "web");
    world.server.delete(MACHINES, "web");
    world.server.delete(IMAGES, "debian");
    world.advance(10 * SECOND).await;
    assert_eq!(world.server.get(IMAGES, "debian").unwrap()["status"]["referenceCount"], 1);
    world.server.delete(WRAPPERS, "deep");
    for _ in 0..5 {
        world.advance(SECOND).await;
        world.server.collect_garbage();
    }
    assert_eq!(world.server.get(IMAGES, "debian"), None);
}

#[rstest]
#[case::a_machine(MACHINES, machine("deep", "debian"), "/spec/template/spec", "referenceCount")]
#[case::a_pool(POOLS, pool("deep", "debian"), "/spec/virtualMachineTemplate/spec", "poolReferenceCount")]
#[tokio::test]
async fn a_reference_counts_although_no_decoder_reads_its_object(
    #[case] resource: &str,
    #[case] mut object: Value,
    #[case] place: &str,
    #[case] count: &str,
) {
    object.pointer_mut(place).unwrap()["unknown"] = nested(150);
    let mut world = with_wrappers();
    world.server.create(resource, object);
    world.lead_with_image("debian").await;
    world.advance(10 * SECOND).await;
    let status = || world.server.get(IMAGES, "debian").unwrap()["status"].clone();
    assert_eq!((&status()["phase"], &status()[count]), (&json!("Ready"), &json!(1)));
    world.server.delete(IMAGES, "debian");
    world.advance(10 * SECOND).await;
    assert_eq!(status()[count], 1, "the deletion waits");
    world.server.delete(resource, "deep");
    for _ in 0..5 {
        world.advance(SECOND).await;
        world.server.collect_garbage();
    }
    assert_eq!(world.server.get(IMAGES, "debian"), None);
}

#[tokio::test]
async fn an_object_that_the_cache_does_not_show_is_not_used_either() {
    let mut world = with_wrappers();
    world.lead_with_image("debian").await;
    world.server.hold(VOLUMES);
    let metadata = json!({ "name": "web-root", "namespace": NAMESPACE });
    world.server.create(VOLUMES, json!({ "metadata": metadata, "spec": {} }));
    world.create_wrapper("web", "debian", "root");
    world.advance(10 * SECOND).await;
    assert!(!world.has_machine("web"));
    assert_eq!(world.wrapper_reason("web", "VirtualMachineReady"), "NameConflict");
}

#[tokio::test]
async fn no_machine_is_created_over_the_data_of_an_image() {
    let mut world = with_wrappers();
    world.lead_with_image("debian").await;
    // The import of the other image has not begun.
    world.images.as_mut().unwrap().limits.max_concurrent_syncs = 0;
    world.kill_leader().await;
    world.lead_all(&[PlatformName::Kubevirt]);
    world.create_image("ubuntu-root");
    world.create_wrapper("ubuntu", "debian", "root");
    world.advance(10 * SECOND).await;
    assert!(!world.has_machine("ubuntu"));
    assert_eq!(world.wrapper_reason("ubuntu", "VirtualMachineReady"), "NameConflict");
}

#[tokio::test]
async fn of_two_wrappers_with_one_disk_name_the_first_one_gets_a_machine() {
    let mut world = with_wrappers();
    world.lead_with_image("debian").await;
    world.create_wrapper("a", "debian", "b-c");
    world.clock.advance(SECOND).await;
    world.create_wrapper("a-b", "debian", "c");
    world.advance(10 * SECOND).await;
    assert_eq!((world.has_machine("a"), world.has_machine("a-b")), (true, false));
    assert_eq!(world.wrapper_reason("a-b", "VirtualMachineReady"), "NameConflict");
    world.create_disk("a", &Value::Null);
    world.server.delete(WRAPPERS, "a");
    for _ in 0..3 {
        world.server.collect_garbage();
        world.advance(SECOND).await;
    }
    assert_eq!((world.has_machine("a"), world.has_machine("a-b")), (false, true));
}

#[tokio::test]
async fn a_machine_is_created_again_after_the_disk_of_the_former_one_is_gone() {
    let mut world = with_wrappers();
    world.lead_with_image("debian").await;
    world.create_wrapper("web", "debian", "root");
    world.calm().await;
    world.create_disk("web", &Value::Null);
    world.server.delete(MACHINES, "web");
    world.calm().await;
    assert!(!world.has_machine("web"));
    assert_eq!(world.wrapper_reason("web", "VirtualMachineReady"), "NotCreated");
    world.server.collect_garbage();
    world.calm().await;
    assert!(world.has_machine("web"));
}

#[tokio::test]
async fn a_wrapper_without_a_machine_does_not_hold_an_image_that_is_never_ready() {
    let mut world = with_wrappers();
    world.create_wrapper("web", "debian", "root");
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    let image = world.server.get(IMAGES, "debian").unwrap();
    assert_eq!(world.wrapper_status("web")["vmDiskImage"]["bound"], true);
    world.server.delete(IMAGES, "debian");
    for _ in 0..5 {
        world.advance(5 * SECOND).await;
        world.server.collect_garbage();
    }
    let successor = world.server.get(IMAGES, "debian").unwrap();
    assert_ne!(successor["metadata"]["uid"], image["metadata"]["uid"]);
    assert_eq!(world.wrapper_status("web")["vmDiskImage"]["uid"], successor["metadata"]["uid"]);
}

#[tokio::test]
async fn an_image_that_a_wrapper_creates_has_the_finalizer_from_the_beginning() {
    let mut world = with_wrappers();
    world.create_wrapper("web", "debian", "root");
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    let log = world.server.take_log();
    let create =
        log.iter().find(|call| call.verb == Verb::Create && call.resource == "vmdiskimages").unwrap();
    assert_eq!(create.body["metadata"]["finalizers"], json!(["vmpool.dev/vmdiskimage-protection"]));
}

#[rstest]
#[case::of_the_machine(MACHINES)]
#[case::of_the_disk(VOLUMES)]
#[tokio::test]
async fn a_disk_that_is_used_meanwhile_is_not_deleted_because_the_cache_is_behind(#[case] behind: &str) {
    let mut world = with_wrappers();
    world.lead_with_image("debian").await;
    world.create_wrapper("web", "debian", "root");
    world.calm().await;
    world.create_disk("web", &Value::Null);
    let pending = json!({ "phase": "Pending", "conditions":
        [{ "type": "Bound", "status": "False", "message": "source not found" }] });
    world.server.edit(VOLUMES, "web-root", |disk| disk["status"] = pending);
    world.advance(Duration::from_mins(4)).await;
    // The clone succeeds and the machine starts, and one of the watches is behind.
    world.server.hold(behind);
    world.server.edit(VOLUMES, "web-root", |disk| {
        disk["status"] =
            if behind == VOLUMES { json!({ "phase": "Succeeded" }) } else { json!({ "phase": "Failed" }) };
    });
    if behind == MACHINES {
        world
            .server
            .edit(MACHINES, "web", |machine| machine["status"] = json!({ "created": true, "ready": true }));
    }
    world.advance(Duration::from_mins(3)).await;
    assert!(world.server.get(VOLUMES, "web-root").is_some(), "the data of the guest is deleted");
}

#[tokio::test]
async fn metrics_describe_how_long_wrappers_wait_and_whether_they_match_their_image() {
    let count = |existed: bool| {
        format!(r#"vmpool_wrapper_provisioning_duration_seconds_count{{image_preexisting="{existed}"}}"#)
    };
    let mismatch = r#"vmpool_wrapper_template_mismatch{namespace="team-a"}"#;
    let mut world = with_wrappers();
    world.lead_with_image("debian").await;
    world.create_wrapper("web", "debian", "root");
    world.calm().await;
    assert_eq!(world.series(mismatch), 0);
    world.clock.advance(Duration::from_mins(1)).await;
    let starts = async |world: &LeaderWorld, name: &str| {
        world.create_disk(name, &json!({ "phase": "Succeeded" }));
        world
            .server
            .edit(MACHINES, name, |machine| machine["status"] = json!({ "created": true, "ready": true }));
        world.calm().await;
        assert_eq!(world.wrapper_status(name)["phase"], "Ready");
    };
    starts(&world, "web").await;
    assert_eq!(world.series(&count(true)), 1);
    let bucket = |le: &str| {
        let labels = format!(r#"{{le="{le}",image_preexisting="true"}}"#);
        world.series(&format!("vmpool_wrapper_provisioning_duration_seconds_bucket{labels}"))
    };
    assert_eq!((bucket("60.0"), bucket("120.0")), (0, 1));
    // This wrapper creates its image.
    world.create_wrapper("db", "fedora", "root");
    world.calm().await;
    world.finish_import("fedora").await;
    starts(&world, "db").await;
    // A wrapper that was ready once does not start again.
    for ready in [false, true] {
        world.server.edit(MACHINES, "web", |machine| machine["status"]["ready"] = json!(ready));
        world.calm().await;
    }
    assert_eq!((world.series(&count(true)), world.series(&count(false))), (1, 1));
    world.server.edit(WRAPPERS, "web", |wrapper| {
        wrapper["spec"]["vmDiskImageTemplate"]["diskSize"] = json!("2Gi");
    });
    world.calm().await;
    assert_eq!(world.series(mismatch), 1);
    world.server.delete(WRAPPERS, "web");
    world.calm().await;
    assert_eq!(world.series(mismatch), 0);
}

#[tokio::test]
async fn a_disk_whose_clone_failed_is_deleted() {
    let mut world = with_wrappers();
    world.lead_with_image("debian").await;
    world.create_wrapper("web", "debian", "root");
    world.calm().await;
    world.create_disk("web", &Value::Null);
    world.server.edit(VOLUMES, "web-root", |disk| disk["status"] = json!({ "phase": "Failed" }));
    world.advance(SECOND).await;
    assert!(world.server.get(VOLUMES, "web-root").is_none());
    assert_eq!(world.wrapper_status("web")["kicks"], 1);
}

/// A former leader that is still alive, or a user, writes the status between the read and the write of this
/// controller.
#[tokio::test]
async fn the_mark_that_another_leader_has_stored_meanwhile_is_not_overwritten() {
    let mut world = with_wrappers();
    world.lead_with_image("debian").await;
    let marks: Arc<Mutex<Vec<Value>>> = Arc::default();
    let (server, seen) = (world.server.clone(), marks.clone());
    world.server.intercept(move |call| {
        if &*call.resource == "wrappedvirtualmachines" && call.subresource == "status" {
            if seen.lock().is_empty() {
                let mark = json!({ "namespace": NAMESPACE, "name": "debian", "uid": "uid-of-another-leader", "bound": true });
                server.edit(WRAPPERS, "web", |wrapper| wrapper["status"] = json!({ "vmDiskImage": mark }));
            }
            let stored = server.get(WRAPPERS, "web").unwrap();
            seen.lock().push(stored["status"]["vmDiskImage"]["uid"].clone());
        }
        RequestOutcome::Serve
    });
    world.create_wrapper("web", "debian", "root");
    world.advance(10 * SECOND).await;
    let marks = marks.lock().clone();
    assert_eq!(marks.get(1), Some(&json!("uid-of-another-leader")), "{marks:?}");
}
