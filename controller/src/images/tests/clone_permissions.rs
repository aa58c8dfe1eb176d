//! The Role and the RoleBinding with which accounts of other namespaces clone an image.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

#[rstest]
#[case::with_the_label_of_the_image(true)]
#[case::that_no_watch_shows(false)]
#[tokio::test]
async fn a_permission_to_clone_is_not_written_into_objects_of_another_owner(#[case] is_labeled: bool) {
    const BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";
    let mut world = with_images();
    world.lead_with_image("debian").await;
    // Given a RoleBinding with the name that the controller uses, which gives more,
    let uid = world.server.get(IMAGES, "debian").unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    let name = vmpool_diskimage::clone_permission::clone_permission_name(&uid);
    let labels = if is_labeled { json!({ "vmpool.dev/vmdiskimage-uid": uid }) } else { json!({}) };
    let metadata = json!({ "name": name, "namespace": NAMESPACE, "labels": labels });
    let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin" });
    world.server.create(BINDINGS, json!({ "metadata": metadata, "roleRef": role, "subjects": [] }));
    // when an account of another namespace may clone the image,
    let grant = json!({ "metadata": { "name": "team-b", "namespace": NAMESPACE },
        "spec": { "from": [{ "namespace": "team-b" }] } });
    world.server.create("vmdiskimagegrants.vmpool.dev", grant);
    let mut guest = machine("guest", "debian");
    guest["metadata"]["namespace"] = json!("team-b");
    guest["spec"]["dataVolumeTemplates"][0]["spec"]["sourceRef"]["namespace"] = json!(NAMESPACE);
    world.server.create(MACHINES, guest);
    world.advance(10 * SECOND).await;
    assert_eq!(world.server.get(IMAGES, "debian").unwrap()["status"]["referenceCount"], 1);
    // then it does not become a subject of it.
    assert_eq!(world.server.get(BINDINGS, &name).unwrap()["subjects"], json!([]));
    // The image says so, once.
    let clone_permitted = |world: &LeaderWorld| {
        let image = world.server.get(IMAGES, "debian").unwrap();
        let conditions = image["status"]["conditions"].as_array().cloned().unwrap();
        conditions.into_iter().find(|condition| condition["type"] == "ClonePermitted")
    };
    let conflict = clone_permitted(&world).unwrap();
    assert_eq!((&conflict["status"], &conflict["reason"]), (&json!("False"), &json!("NameConflict")));
    assert!(conflict["message"].as_str().unwrap().contains(&name), "{conflict}");
    world.advance(Duration::from_mins(3)).await;
    assert_eq!(clone_permitted(&world).unwrap(), conflict);
    let events = world.server.all("events");
    let about = events.iter().filter(|event| event["reason"] == "NameConflict");
    assert_eq!(about.count(), 1, "{events:?}");
    // When that is gone, the controller makes its own.
    world.server.delete(BINDINGS, &name);
    world.advance(Duration::from_mins(6)).await;
    let own = world.server.get(BINDINGS, &name).unwrap();
    assert_eq!(
        (&own["roleRef"]["kind"], &own["subjects"][0]["namespace"]),
        (&json!("Role"), &json!("team-b"))
    );
    assert_eq!(clone_permitted(&world), None);
}

#[rstest]
#[case::in_the_background("Background")]
#[case::in_the_foreground("Foreground")]
#[case::that_orphans("Orphan")]
#[tokio::test]
async fn a_deletion_with_any_propagation_policy_keeps_the_permission_to_clone_while_it_is_used(
    #[case] policy: &str,
) {
    let mut world = with_images();
    world.with_guest().await;
    let permission = |world: &LeaderWorld| PERMISSION.map(|resource| world.server.all(resource));
    let before = permission(&world);
    assert_eq!(before.each_ref().map(Vec::len), [1, 1]);
    for object in before.iter().flatten() {
        assert_eq!(object["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len), 0, "{object}");
    }
    world.server.delete_with(IMAGES, "debian", &json!({ "propagationPolicy": policy }));
    world.collect_for(10).await;
    world.advance(Duration::from_mins(6)).await;
    assert_eq!(permission(&world), before);
    world.server.take_log();
    world.advance(Duration::from_mins(4)).await;
    assert_eq!(world.server.take_log().len(), 0, "a deletion that waits causes requests");
    world.server.delete_in("team-b", MACHINES, "guest");
    world.collect_for(20).await;
    assert_eq!(world.server.get(IMAGES, "debian"), None);
    assert_eq!(permission(&world).map(|left| left.len()), [0, 0]);
}

/// A grant shares images. The review of CDI contains only a name, so a permission for it would be one for any
/// claim.
#[rstest]
#[case::a_claim("persistentvolumeclaims", false)]
#[case::a_snapshot(SNAPSHOTS, false)]
#[case::a_claim_that_takes_the_place_of_a_lost_one("persistentvolumeclaims", true)]
#[case::a_snapshot_that_takes_the_place_of_a_lost_one(SNAPSHOTS, true)]
#[tokio::test]
async fn a_name_that_an_object_of_a_user_has_can_be_cloned_by_no_other_namespace(
    #[case] resource: &str,
    #[case] was_ready: bool,
) {
    let mut world = with_images();
    let private =
        json!({ "metadata": { "name": "debian", "namespace": NAMESPACE }, "spec": { "source": {} } });
    if was_ready {
        world.with_guest().await;
        assert_eq!(PERMISSION.map(|resource| world.server.all(resource).len()), [1, 1]);
        world.server.delete(resource, "debian");
        world.server.create(resource, private);
    } else {
        world.server.create(resource, private);
        world.create_image("debian");
        world.lead_all(&[PlatformName::Kubevirt]);
        world.create_guest("team-b");
    }
    world.advance(10 * SECOND).await;
    let image = world.server.get(IMAGES, "debian").unwrap();
    assert!(image["status"]["conditions"].to_string().contains("NameConflict"), "{image}");
    assert_eq!(image["status"]["referenceCount"], 1, "{image}");
    assert_eq!(PERMISSION.map(|resource| world.server.all(resource).len()), [0, 0]);
    // Without the object, the image gets its data, and with it the permission.
    world.server.delete(resource, "debian");
    world.advance(Duration::from_mins(2)).await;
    if !was_ready {
        world.finish_import("debian").await;
    } else if resource == SNAPSHOTS {
        world.server.edit(SNAPSHOTS, "debian", |snapshot| {
            snapshot["status"] =
                json!({ "readyToUse": true, "boundVolumeSnapshotContentName": "content-debian" });
        });
    }
    world.advance(10 * SECOND).await;
    assert_eq!(world.server.get(IMAGES, "debian").unwrap()["status"]["phase"], "Ready");
    assert_eq!(PERMISSION.map(|resource| world.server.all(resource).len()), [1, 1]);
}

/// The watches show the permission only after the image is gone.
#[tokio::test]
async fn a_permission_to_clone_ends_with_its_image_although_the_cache_does_not_show_it() {
    let mut world = with_images();
    for resource in PERMISSION {
        world.server.hold(resource);
    }
    world.with_guest().await;
    assert_eq!(PERMISSION.map(|resource| world.server.all(resource).len()), [1, 1]);
    world.server.delete_in("team-b", MACHINES, "guest");
    world.server.delete(IMAGES, "debian");
    world.collect_for(20).await;
    assert_eq!(world.server.get(IMAGES, "debian"), None);
    assert_eq!(PERMISSION.map(|resource| world.server.all(resource).len()), [0, 0]);
}

/// A user removes the finalizer, because the deletion waits for references.
#[rstest]
#[case::while_a_controller_leads(true)]
#[case::while_no_controller_leads(false)]
#[tokio::test]
async fn a_permission_to_clone_ends_with_an_image_whose_finalizer_a_user_removes(#[case] leads: bool) {
    let mut world = with_images();
    world.with_guest().await;
    world.server.delete(IMAGES, "debian");
    world.advance(10 * SECOND).await;
    assert_eq!(PERMISSION.map(|resource| world.server.all(resource).len()), [1, 1]);
    if !leads {
        world.kill_leader().await;
    }
    world.server.edit(IMAGES, "debian", |image| image["metadata"]["finalizers"] = json!(null));
    assert_eq!(world.server.get(IMAGES, "debian"), None);
    if !leads {
        world.lead_all(&[PlatformName::Kubevirt]);
    }
    world.advance(10 * SECOND).await;
    assert_eq!(PERMISSION.map(|resource| world.server.all(resource).len()), [0, 0]);
    world.server.take_log();
    world.advance(Duration::from_mins(4)).await;
    assert_eq!(world.server.take_log().len(), 0, "the end of a permission causes requests");
}

#[tokio::test]
async fn only_the_permission_of_an_image_that_is_gone_is_deleted() {
    let mut world = with_images();
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    let name = vmpool_diskimage::clone_permission::clone_permission_name;
    let metadata = |name: &str, uid: &str| {
        let labels = json!({ "vmpool.dev/vmdiskimage-uid": uid });
        json!({ "name": name, "namespace": NAMESPACE, "labels": labels })
    };
    // Given an image that the cache does not show yet,
    world.server.hold(IMAGES);
    world.create_image("debian");
    let uid = world.server.get(IMAGES, "debian").unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    // its Role, a Role of a user with the label, and a RoleBinding of a user with label and name,
    for (role, uid) in [(&*name(&uid), &*uid), ("mine", "gone"), (&*name("gone"), "gone")] {
        world.server.create(PERMISSION[1], json!({ "metadata": metadata(role, uid), "rules": [] }));
    }
    let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" });
    let binding = json!({ "metadata": metadata(&name("gone"), "gone"), "roleRef": role, "subjects": [] });
    world.server.create(PERMISSION[0], binding);
    world.advance(10 * SECOND).await;
    // then only the Role of the image that is gone is deleted.
    let left: Vec<Value> =
        world.server.all(PERMISSION[1]).iter().map(|role| role["metadata"]["name"].clone()).collect();
    assert!(
        left.len() == 2 && left.contains(&json!("mine")) && left.contains(&json!(name(&uid))),
        "{left:?}"
    );
    assert_eq!(world.server.all(PERMISSION[0]).len(), 1);
}

#[tokio::test]
async fn a_permission_to_clone_is_withdrawn_with_the_grant_and_has_no_owner_again() {
    let mut world = with_images();
    world.with_guest().await;
    let uid = world.server.get(IMAGES, "debian").unwrap()["metadata"]["uid"].clone();
    // As an earlier version has created it, and as it is if a leader exits after the create.
    for (resource, controller) in PERMISSION.into_iter().zip([true, false]) {
        let objects = world.server.all(resource);
        let name = objects[0]["metadata"]["name"].as_str().unwrap();
        let owner = json!({ "apiVersion": "vmpool.dev/v1alpha1", "kind": "VMDiskImage", "name": "debian",
            "uid": uid, "controller": controller });
        world.server.edit(resource, name, |object| object["metadata"]["ownerReferences"] = json!([owner]));
    }
    world.advance(10 * SECOND).await;
    for resource in PERMISSION {
        let objects = world.server.all(resource);
        assert_eq!(
            objects[0]["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len),
            0,
            "{objects:?}"
        );
    }
    world.server.delete(GRANTS, "team-b");
    world.advance(Duration::from_mins(6)).await;
    assert_eq!(PERMISSION.map(|resource| world.server.all(resource).len()), [0, 0]);
}

/// Of two namespaces with a grant and a machine, one loses its grant. Its account must not keep the
/// permission of the other one.
#[tokio::test]
async fn an_account_whose_grant_is_gone_leaves_the_permission_of_the_others() {
    let mut world = with_images();
    world.with_guest().await;
    world.create_guest("team-c");
    world.advance(10 * SECOND).await;
    let guests = |world: &LeaderWorld| -> Vec<Value> {
        let bindings = world.server.all(PERMISSION[0]);
        assert_eq!(bindings.len(), 1, "{bindings:?}");
        let subjects = bindings[0]["subjects"].as_array().unwrap();
        subjects.iter().map(|subject| subject["namespace"].clone()).collect()
    };
    assert_eq!(guests(&world), ["team-b", "team-c"]);
    world.server.delete(GRANTS, "team-b");
    world.advance(Duration::from_mins(6)).await;
    assert_eq!(guests(&world), ["team-c"]);
}

/// The machine of one of two namespaces is gone, and both grants stay.
#[tokio::test]
async fn an_account_whose_machine_is_gone_leaves_the_permission_of_the_others() {
    let mut world = with_images();
    world.with_guest().await;
    world.create_guest("team-c");
    world.advance(10 * SECOND).await;
    world.server.delete_in("team-c", MACHINES, "guest");
    world.advance(Duration::from_mins(6)).await;
    let bindings = world.server.all(PERMISSION[0]);
    let subjects = bindings[0]["subjects"].as_array().unwrap();
    assert_eq!((subjects.len(), &subjects[0]["namespace"]), (1, &json!("team-b")), "{bindings:?}");
}
