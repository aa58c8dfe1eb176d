//! Stored revisions of a pool's template.

use serde_json::{Value, json};

use super::SECOND;
use super::rollouts::{MACHINES, POOLS, PREFIX, REVISIONS, edit, label, resize, roll, shown, synced};
use crate::testing::{Fate, LeaderWorld, NAMESPACE, Refusal, Verb, pool_manifest};

#[tokio::test]
async fn the_history_keeps_its_limit_and_revisions_of_machines() {
    let world = LeaderWorld::with_pool(1).await;
    edit(&world, |pool| pool["spec"]["revisionHistoryLimit"] = json!(2));
    for size in ["1Gi", "2Gi", "3Gi", "4Gi"] {
        resize(&world, size);
        roll(&world, 1).await;
    }
    world.calm().await;
    let numbers: Vec<_> =
        world.server.all(REVISIONS).iter().map(|stored| stored["revision"].as_i64().unwrap()).collect();
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [3, 4, 5], "the current one and two before it");

    edit(&world, |pool| {
        pool["metadata"]["annotations"][format!("{PREFIX}/rollout-paused")] = json!("true");
        pool["spec"]["revisionHistoryLimit"] = json!(0);
    });
    resize(&world, "5Gi");
    world.scale(2);
    world.calm().await;
    let ids: Vec<Value> = world
        .server
        .all(REVISIONS)
        .iter()
        .map(|stored| stored["metadata"]["labels"][format!("{PREFIX}/template-hash")].clone())
        .collect();
    assert_eq!(ids.len(), 2);
    assert!(world.machines().iter().all(|machine| ids.contains(&json!(label(machine)))), "{ids:?}");
}

#[tokio::test]
async fn a_revision_belongs_to_its_pool_and_is_listed_once_per_leadership() {
    let mut world = LeaderWorld::with_pool(1).await;
    let stored = world.server.all(REVISIONS).remove(0);
    let pool = world.server.get(POOLS, "web").unwrap();
    assert_eq!(stored["metadata"]["name"], format!("web-{}", shown(&world)));
    assert_eq!(stored["metadata"]["ownerReferences"][0]["uid"], pool["metadata"]["uid"]);
    assert_eq!(stored["metadata"]["labels"][format!("{PREFIX}/pool-uid")], pool["metadata"]["uid"]);
    assert_eq!(stored["data"]["spec"], pool["spec"]["virtualMachineTemplate"]["spec"]);
    world.kill_leader().await;
    world.lead();
    world.calm().await;
    let log = world.server.take_log();
    let lists = log.iter().filter(|call| call.is(Verb::List, REVISIONS));
    let of_the_watch = format!("{PREFIX}/template-hash");
    let lists: Vec<_> = lists.filter(|call| call.parameter("labelSelector") != Some(&of_the_watch)).collect();
    assert_eq!(lists.len(), 1);
    assert!(lists[0].parameter("labelSelector").is_some() && lists[0].parameter("resourceVersion").is_none());
    assert!(log.iter().all(|call| !call.is_write()), "the same template is the same revision");
}

#[tokio::test]
async fn a_template_equal_to_a_stored_one_has_its_identity() {
    let mut world = LeaderWorld::new();
    let created = world.server.create(POOLS, pool_manifest("web", 0));
    let uid = created["metadata"]["uid"].as_str().unwrap();
    // The revision was stored by a version with another hash, before the schema had a default.
    let mut content = created["spec"]["virtualMachineTemplate"].clone();
    let default = content["spec"].as_object_mut().unwrap().remove("runPolicy");
    assert_eq!(default, Some(json!("AlwaysOnUnlessStoppedManually")));
    world.server.create(REVISIONS, revision("web-cafe", uid, "cafecafecafecafe", &content));
    world.lead();
    world.scale(1);
    world.calm().await;
    assert_eq!(label(&world.machines()[0]), "cafecafecafecafe");
    assert_eq!(world.server.all(REVISIONS).len(), 1);
}

fn revision(name: &str, pool: &str, id: &str, content: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": { format!("{PREFIX}/pool-uid"): pool, format!("{PREFIX}/template-hash"): id },
            "ownerReferences": [{ "apiVersion": "virtualization.deckhouse.io/v1alpha2",
                "kind": "VirtualMachinePool", "name": "web", "uid": pool, "controller": true }],
        },
        "data": content,
        "revision": 7,
    })
}

#[tokio::test]
async fn objects_of_an_earlier_pool_of_this_name_are_neither_used_nor_changed() {
    let world = LeaderWorld::with_pool(1).await;
    let name = world.server.all(REVISIONS)[0]["metadata"]["name"].as_str().unwrap().to_owned();
    world.server.delete(POOLS, "web");
    world.calm().await;
    let left = world.server.get(REVISIONS, &name).unwrap();
    world.server.create(POOLS, pool_manifest("web", 1));
    world.calm().await;
    assert_eq!(world.server.get(REVISIONS, &name), Some(left));
    let stored = world.server.all(REVISIONS);
    assert_eq!(stored.len(), 2);
    assert_eq!(world.machines().len(), 2, "the garbage collector has not run");
    assert!(stored.iter().all(|stored| stored["metadata"]["name"].as_str().unwrap().starts_with(&*name)));
}

#[tokio::test]
async fn without_the_deleted_revision_no_fields_are_removed() {
    let world = LeaderWorld::with_pool(1).await;
    edit(&world, |pool| pool["spec"]["virtualMachineTemplate"]["metadata"]["labels"]["old"] = json!("x"));
    world.calm().await;
    for stored in world.server.all(REVISIONS) {
        world.server.delete(REVISIONS, stored["metadata"]["name"].as_str().unwrap());
    }
    edit(&world, |pool| pool["spec"]["virtualMachineTemplate"]["metadata"]["labels"] = json!({ "new": "y" }));
    world.calm().await;
    let labels = world.machines()[0]["metadata"]["labels"].clone();
    assert_eq!(
        (&labels["old"], &labels["new"]),
        (&json!("x"), &json!("y")),
        "no field is removed without the base"
    );
    assert_eq!(synced(&world).0, "True");
}

#[tokio::test]
async fn a_revision_that_a_client_deletes_is_stored_again_and_stays_the_merge_base() {
    let world = LeaderWorld::with_pool(1).await;
    edit(&world, |pool| pool["spec"]["virtualMachineTemplate"]["metadata"]["labels"]["old"] = json!("x"));
    roll(&world, 1).await;
    let current = shown(&world);
    for stored in world.server.all(REVISIONS) {
        world.server.delete(REVISIONS, stored["metadata"]["name"].as_str().unwrap());
    }
    world.calm().await;
    let stored = world.server.all(REVISIONS);
    assert_eq!(stored.len(), 1, "machines need only the current one");
    assert_eq!(stored[0]["metadata"]["labels"][format!("{PREFIX}/template-hash")], json!(current));

    edit(&world, |pool| pool["spec"]["virtualMachineTemplate"]["metadata"]["labels"] = json!({ "new": "y" }));
    roll(&world, 1).await;
    let labels = world.machines()[0]["metadata"]["labels"].clone();
    assert_eq!((&labels["old"], &labels["new"]), (&json!(null), &json!("y")));
    assert_eq!(synced(&world).0, "True");
}

#[tokio::test]
async fn no_machine_is_created_or_updated_without_its_stored_revision() {
    let mut world = LeaderWorld::new();
    world.server.intercept(|call| {
        if call.is(Verb::Create, REVISIONS) {
            return Fate::Refuse(Refusal::new(403, "Forbidden", "no right to it"));
        }
        Fate::Serve
    });
    world.server.create(POOLS, pool_manifest("web", 2));
    world.lead();
    world.calm().await;
    assert!(world.machines().is_empty());
    let failure = world.condition("ReplicaFailure").unwrap();
    assert!(failure["message"].as_str().unwrap().contains("no right to it"), "{failure}");
    world.server.behave();
    world.advance(SECOND * 30).await;
    assert_eq!(world.machines().len(), 2);

    world.run_machines();
    world.server.intercept(|call| {
        if call.is(Verb::Create, REVISIONS) {
            return Fate::Refuse(Refusal::new(403, "Forbidden", "no right to it"));
        }
        Fate::Serve
    });
    world.server.take_log();
    resize(&world, "1Gi");
    world.calm().await;
    assert!(world.take_writes().iter().all(|call| call.resource != MACHINES));
}
