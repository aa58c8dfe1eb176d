//! Direct writes without the fault injector.

use super::*;

#[tokio::test]
async fn direct_writes_create_change_and_delete_at_once() {
    let world = world();
    let server = &world.server;
    let object = json!({ "metadata": { "name": "a", "namespace": "team" }, "spec": { "cpu": { "cores": 1 } },
        "status": { "phase": "Pending" } });
    let created = server.create_now(MACHINES, object).unwrap();
    assert_eq!(
        (&created["kind"], &created["status"]["phase"]),
        (&json!("VirtualMachine"), &json!("Pending"))
    );
    let edited = server.edit_now(MACHINES, "team", "a", |machine| {
        machine["spec"]["cpu"]["cores"] = json!(2);
        machine["status"]["phase"] = json!("Running");
        machine["metadata"]["finalizers"] = json!(["x/y"]);
    });
    assert_eq!(edited.unwrap()["status"]["phase"], "Running");
    let kinds: Vec<_> = server.history().iter().map(|change| change.kind).collect();
    assert_eq!(kinds, [ChangeKind::Added, ChangeKind::Modified, ChangeKind::Modified, ChangeKind::Modified]);
    assert_eq!(server.get(MACHINES, "team", "a").unwrap()["metadata"]["generation"], 2);

    let mut copy = created;
    copy["metadata"]["name"] = json!("b");
    assert_ne!(
        server.create_now(MACHINES, copy.clone()).unwrap()["metadata"]["uid"],
        copy["metadata"]["uid"]
    );
    assert_eq!(server.create_now(MACHINES, copy).unwrap_err().code, 409);

    let other = json!({ "preconditions": { "uid": "other" } });
    assert_eq!(server.delete_now(MACHINES, "team", "a", other).unwrap_err().code, 409);
    let dying = server.delete_now(MACHINES, "team", "a", Value::Null).unwrap();
    assert!(dying["metadata"]["deletionTimestamp"].is_string());
    server.edit_now(MACHINES, "team", "a", |it| it["metadata"]["finalizers"] = json!([])).unwrap();
    assert!(server.get(MACHINES, "team", "a").is_none());
    assert_eq!(server.edit_now(MACHINES, "team", "a", |_| ()).unwrap_err().code, 404);
}

#[tokio::test]
async fn a_direct_write_without_a_difference_changes_nothing() {
    let world = world();
    world.machine("a", json!({})).await;
    world.server.edit_now(MACHINES, "team", "a", |_| ()).unwrap();
    assert_eq!(world.server.history().len(), 1);
    assert_eq!(world.server.create_now("pods", json!({})).unwrap_err().code, 404);
    let nowhere = json!({ "metadata": { "name": "b" } });
    assert_eq!(world.server.create_now(MACHINES, nowhere).unwrap_err().code, 400);
}

#[tokio::test]
async fn restored_objects_keep_their_uids_which_no_new_object_gets() {
    let world = world();
    let server = &world.server;
    let stored = json!({ "apiVersion": "virtualization.deckhouse.io/v1alpha2", "kind": "VirtualMachine",
        "metadata": { "name": "a", "namespace": "team", "generation": 3,
            "uid": "00000000-0000-4000-8000-000000000001" },
        "status": { "phase": "Running" } });
    server.restore_objects(std::slice::from_ref(&stored)).unwrap();
    let restored = server.get(MACHINES, "team", "a").unwrap();
    assert_eq!((&restored["metadata"]["generation"], &restored["status"]), (&json!(3), &stored["status"]));
    let new =
        server.create_now(MACHINES, json!({ "metadata": { "name": "b", "namespace": "team" } })).unwrap();
    assert_ne!(new["metadata"]["uid"], restored["metadata"]["uid"]);
    let unknown = json!({ "apiVersion": "example/v1", "kind": "Other", "metadata": { "name": "a" } });
    assert!(server.restore_objects(&[unknown]).is_err());
}
