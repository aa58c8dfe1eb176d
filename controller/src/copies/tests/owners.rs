//! Copies that several objects own or use.

use serde_json::{Value, json};
use vmpool_platforms::instancetype::copies::CopyPolicy;

use super::*;

impl LeaderWorld {
    /// A pool with one machine, whose template names instance type `small`.
    pub(super) async fn run_pool(&self, name: &str) {
        self.create_pool(name);
        self.server.edit(POOLS, name, |pool| {
            pool["spec"]["replicas"] = json!(1);
            pool["spec"]["virtualMachineTemplate"]["spec"]["preference"] = Value::Null;
        });
        self.calm().await;
    }

    /// Edits instance type `small`, and lets the template of a pool use it as it is now. Machines are not
    /// updated.
    pub(super) async fn refresh_type(&self, pool: &str) {
        self.server.edit(TYPES, "small", |small| small["spec"]["cpu"]["guest"] = json!(8));
        self.server.edit(POOLS, pool, |pool| {
            pool["spec"]["updateStrategy"] = json!({ "unmanaged": {} });
            pool["spec"]["virtualMachineTemplate"]["metadata"]["annotations"] =
                json!({ "vmpool.dev/refresh-instancetype": "1" });
        });
        self.calm().await;
    }

    /// The ControllerRevision that a machine names itself.
    pub(super) fn pin_of(&self, machine: &str) -> String {
        let machine = self.server.get(MACHINES, machine).unwrap();
        machine["spec"]["instancetype"]["revisionName"].as_str().unwrap_or_default().to_owned()
    }

    /// Lets a machine name a ControllerRevision itself.
    pub(super) fn create_machine_with(&self, name: &str, revision: &str) {
        self.create_machine(name);
        self.server.edit(MACHINES, name, |machine| {
            machine["spec"]["instancetype"]["revisionName"] = json!(revision);
        });
    }

    pub(super) fn uid(&self, resource: &str, name: &str) -> Value {
        self.server.get(resource, name).unwrap()["metadata"]["uid"].clone()
    }

    /// The UIDs of the owners of a copy; `None` if it is gone.
    pub(super) fn owners(&self, copy: &str) -> Option<Vec<Value>> {
        let copy = self.server.get(REVISIONS, copy)?;
        let owners = copy["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        Some(owners.iter().map(|owner| owner["uid"].clone()).collect())
    }

    fn name_nothing(&self, machine: &str) {
        self.server.edit(MACHINES, machine, |machine| machine["spec"]["instancetype"] = Value::Null);
    }

    /// Nothing is written or read in a settled state.
    pub(super) async fn stays_settled(&self) {
        self.calm().await;
        self.server.take_log();
        self.advance(60 * SECOND).await;
        let log = self.server.take_log();
        assert!(log.is_empty(), "{log:#?}");
    }
}

#[tokio::test]
async fn a_machine_that_stops_using_a_shared_copy_leaves_it_to_the_other_owners() {
    let world = world(Some(CopyPolicy::Reference)).await;
    world.create_machine("a");
    world.calm().await;
    let copy = world.copy_of("a").unwrap();
    let stored = world.uid(REVISIONS, &copy);
    // Given a further owner that is no machine, so that nothing names the copy for it,
    world.server.edit(REVISIONS, &copy, |copy| {
        let owner = json!({ "apiVersion": "snapshot.kubevirt.io/v1beta1", "kind": "VirtualMachineSnapshotContent",
            "name": "backup", "uid": "uid-of-backup" });
        copy["metadata"]["ownerReferences"].as_array_mut().unwrap().push(owner);
    });
    world.calm().await;
    // when the machine names nothing, then the copy stays, and only the other object owns it.
    world.name_nothing("a");
    world.calm().await;
    assert_eq!(world.owners(&copy), Some(vec![json!("uid-of-backup")]));
    assert_eq!(world.uid(REVISIONS, &copy), stored);
    world.stays_settled().await;
}

#[tokio::test]
async fn a_copy_that_another_machine_names_is_handed_to_that_machine() {
    let world = world(Some(CopyPolicy::Reference)).await;
    world.create_machine("a");
    world.calm().await;
    let copy = world.copy_of("a").unwrap();
    world.create_machine_with("b", &copy);
    world.calm().await;
    world.name_nothing("a");
    world.calm().await;
    assert_eq!(world.owners(&copy), Some(vec![world.uid(MACHINES, "b")]));
    // It is deleted with the last use.
    world.name_nothing("b");
    world.calm().await;
    assert_eq!(world.owners(&copy), None);
    world.stays_settled().await;
}

#[tokio::test]
async fn a_machine_and_a_pool_of_the_same_name_share_a_copy() {
    let world = world(Some(CopyPolicy::Reference)).await;
    // Given a pool, when a machine has its name and names the same instance type,
    world.run_pool("web").await;
    let pin = world.pin_of("web-0");
    world.create_machine("web");
    world.calm().await;
    // then it uses the copy of the pool, and the pool stays its controller.
    assert_eq!(world.copy_of("web"), Some(pin.clone()));
    let (pool, machine) = (world.uid(POOLS, "web"), world.uid(MACHINES, "web"));
    let stored = world.uid(REVISIONS, &pin);
    assert_eq!(world.owners(&pin), Some(vec![pool.clone(), machine]));
    world.stays_settled().await;
    world.name_nothing("web");
    world.calm().await;
    assert_eq!(world.owners(&pin), Some(vec![pool]));
    assert_eq!(world.uid(REVISIONS, &pin), stored, "the pool would restore a deleted one");
    world.stays_settled().await;
}

#[tokio::test]
async fn the_copy_of_a_machine_stays_for_the_pool_that_shares_it() {
    let world = world(Some(CopyPolicy::Reference)).await;
    world.create_machine("web");
    world.calm().await;
    let copy = world.copy_of("web").unwrap();
    world.run_pool("web").await;
    assert_eq!(world.pin_of("web-0"), copy);
    let stored = world.uid(REVISIONS, &copy);
    world.stays_settled().await;
    world.name_nothing("web");
    world.calm().await;
    assert_eq!(world.owners(&copy), Some(vec![world.uid(POOLS, "web")]));
    assert_eq!(world.uid(REVISIONS, &copy), stored, "the pool would restore a deleted one");
    world.stays_settled().await;
}

#[rstest]
#[case::without_an_owner(true)]
#[case::of_a_machine_that_is_gone(false)]
#[tokio::test]
async fn a_new_machine_uses_the_equal_copy_of_a_former_one(#[case] is_orphan: bool) {
    let world = world(Some(CopyPolicy::Reference)).await;
    world.create_machine("db");
    world.calm().await;
    let copy = world.copy_of("db").unwrap();
    if is_orphan {
        // As `kubectl delete --cascade=orphan` does
        world.server.edit(REVISIONS, &copy, |copy| copy["metadata"]["ownerReferences"] = json!([]));
    }
    world.server.delete(MACHINES, "db");
    world.create_machine("db");
    world.calm().await;
    assert_eq!(world.copy_of("db"), Some(copy.clone()));
    world.server.collect_garbage();
    assert_eq!(world.owners(&copy), Some(vec![world.uid(MACHINES, "db")]));
    let controller = &world.server.get(REVISIONS, &copy).unwrap()["metadata"]["ownerReferences"][0];
    assert_eq!(controller["controller"], true);
    world.stays_settled().await;
}

#[tokio::test]
async fn a_copy_that_is_being_deleted_is_made_again() {
    let world = world(Some(CopyPolicy::Reference)).await;
    world.create_machine("db");
    world.calm().await;
    let copy = world.copy_of("db").unwrap();
    world.server.edit(REVISIONS, &copy, |copy| copy["metadata"]["finalizers"] = json!(["example.com/slow"]));
    world.server.delete(REVISIONS, &copy);
    world.server.delete(MACHINES, "db");
    world.create_machine("db");
    world.advance(20 * SECOND).await;
    assert_eq!(world.copy_of("db"), None, "the object with its name is being deleted");
    world.server.edit(REVISIONS, &copy, |copy| copy["metadata"]["finalizers"] = json!([]));
    world.calm().await;
    assert_eq!(world.copy_of("db"), Some(copy.clone()));
    assert_eq!(world.owners(&copy), Some(vec![world.uid(MACHINES, "db")]));
}

#[tokio::test]
async fn a_refused_copy_is_an_event_and_the_pauses_grow() {
    let world = world(Some(CopyPolicy::Reference)).await;
    let refusal = Refusal::new(403, "Forbidden", "exceeded quota: revisions");
    world.server.intercept(move |call: &Call| {
        if call.is(Verb::Create, "controllerrevisions") { Fate::Refuse(refusal.clone()) } else { Fate::Serve }
    });
    world.server.take_log();
    world.create_machine("db");
    world.advance(100 * SECOND).await;
    let attempts =
        world.server.take_log().iter().filter(|call| call.is(Verb::Create, "controllerrevisions")).count();
    assert!((4..=9).contains(&attempts), "{attempts} attempts with pauses from 1 s");
    let events = world.server.all("events");
    let event = events.iter().find(|event| event["reason"] == "FailedCreate").expect("an event");
    assert!(event["message"].as_str().unwrap().contains("exceeded quota"), "{event}");
    world.server.behave();
    // A change of the machine needs no pause.
    world.server.edit(MACHINES, "db", |machine| machine["metadata"]["labels"] = json!({ "a": "b" }));
    world.calm().await;
    assert!(world.copy_of("db").is_some());
}

#[tokio::test]
async fn a_machine_that_waits_for_its_revision_uses_it_at_once() {
    let world = world(Some(CopyPolicy::Reference)).await;
    world.create_machine("a");
    world.calm().await;
    let mut copy = world.server.get(REVISIONS, &world.copy_of("a").unwrap()).unwrap();
    world.create_machine_with("b", "mine");
    // The pauses have become long.
    world.advance(200 * SECOND).await;
    assert_eq!(world.copy_of("b"), None);
    copy["metadata"] =
        json!({ "name": "mine", "namespace": NAMESPACE, "labels": copy["metadata"]["labels"] });
    world.server.create(REVISIONS, copy);
    world.advance(2 * SECOND).await;
    assert_eq!(world.copy_of("b"), Some("mine".to_owned()));
}

#[rstest]
#[case::of_the_current_template(false)]
#[case::of_an_older_template(true)]
#[tokio::test]
async fn a_pool_that_is_not_the_controller_of_its_copy_restores_nothing(#[case] is_older: bool) {
    let world = world(Some(CopyPolicy::Reference)).await;
    world.run_pool("web").await;
    let pin = world.pin_of("web-0");
    if is_older {
        world.refresh_type("web").await;
        assert_eq!(world.pin_of("web-0"), pin, "the machine is not updated");
    }
    let (pool, machine) = (world.uid(POOLS, "web"), world.uid(MACHINES, "web-0"));
    // When the restore of a snapshot makes one machine the only owner,
    let owner = json!({ "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "web-0", "uid": machine,
        "controller": true, "blockOwnerDeletion": true });
    world.server.edit(REVISIONS, &pin, |pin| pin["metadata"]["ownerReferences"] = json!([owner]));
    world.calm().await;
    // then the pool becomes a further owner, once.
    assert_eq!(world.owners(&pin), Some(vec![machine, pool]));
    world.stays_settled().await;
    // Later passes leave the copy alone.
    for number in 1..4 {
        world.server.edit(POOLS, "web", |pool| pool["spec"]["maxUnavailable"] = json!(number));
        world.calm().await;
    }
    let log = world.server.take_log();
    let calls: Vec<&Call> = log.iter().filter(|call| call.resource == "controllerrevisions").collect();
    assert!(calls.is_empty(), "{calls:#?}");
}
