//! What keeps a type that is being deleted, and not for ever: names that are not inferred yet, templates that
//! do not fit, and copies that the watch does not show.

use serde_json::{Value, json};
use vmpool_platforms::instancetype::copies::CopyPolicy;

use super::*;
use crate::testing::JSON_PATCH;

const CLAIMS: &str = "persistentvolumeclaims";
const PREFERENCES: &str = "virtualmachinepreferences.instancetype.kubevirt.io";

fn inferring() -> Value {
    json!({ "inferFromVolume": "root" })
}

impl LeaderWorld {
    /// A claim whose labels name an instance type of the namespace.
    pub(super) fn create_claim(&self, instancetype: &str) {
        let labels = json!({
            "instancetype.kubevirt.io/default-instancetype": instancetype,
            "instancetype.kubevirt.io/default-instancetype-kind": "VirtualMachineInstancetype",
        });
        let metadata = json!({ "name": "root", "namespace": NAMESPACE, "labels": labels });
        self.server.create(CLAIMS, json!({ "metadata": metadata, "spec": {} }));
    }

    /// A machine that infers its instance type from the claim.
    pub(super) fn create_inferring(&self, name: &str) {
        self.create_machine(name);
        self.server.edit(MACHINES, name, |machine| {
            machine["spec"]["instancetype"] = inferring();
            machine["spec"]["template"]["spec"]["volumes"] = volumes();
        });
    }

    /// The API server rejects changes of machines.
    fn refuse_changes(&self, code: u16, message: &str) {
        let refusal = Refusal::new(code, "Refused", message);
        self.server.intercept(move |call: &Call| {
            if call.is(JSON_PATCH, "virtualmachines") { Fate::Refuse(refusal.clone()) } else { Fate::Serve }
        });
    }

    /// A pool whose preference requires more than its instance type has.
    fn create_pool_that_does_not_fit(&self) {
        let metadata =
            json!({ "name": "linux", "namespace": NAMESPACE, "generation": 1, "finalizers": [FINALIZER] });
        let spec = json!({ "requirements": { "cpu": { "guest": 64 } } });
        self.server.create(PREFERENCES, json!({ "metadata": metadata, "spec": spec }));
        self.create_pool("web");
        self.server.edit(POOLS, "web", |pool| {
            pool["spec"]["replicas"] = json!(1);
            pool["spec"]["virtualMachineTemplate"]["spec"]["preference"] =
                json!({ "name": "linux", "kind": "VirtualMachinePreference" });
        });
    }
}

fn volumes() -> Value {
    json!([{ "name": "root", "persistentVolumeClaim": { "claimName": "root" } }])
}

#[tokio::test]
async fn a_machine_whose_name_is_not_inferred_yet_gets_its_copy() {
    let mut world = world(Some(CopyPolicy::Reference)).await;
    world.kill_leader().await;
    world.create_claim("small");
    world.create_inferring("db");
    world.delete_small();
    world.refuse_changes(503, "try again");
    world.lead_all(&[PlatformName::Kubevirt]);
    world.advance(20 * SECOND).await;
    assert!(world.small().is_some(), "the machine has no copy");
    world.server.behave();
    world.advance(Duration::from_mins(1)).await;
    assert!(world.copy_of("db").is_some());
    assert_eq!(world.small(), None);
}

#[rstest]
#[case::there_is_no_claim(None)]
#[case::the_claim_names_another_type(Some("other"))]
#[tokio::test]
async fn a_machine_does_not_keep_a_type_that_its_volume_does_not_name_if(#[case] named: Option<&str>) {
    let world = world(Some(CopyPolicy::Reference)).await;
    if let Some(named) = named {
        world.create_claim(named);
    }
    world.refuse_changes(403, "a policy denies it");
    world.create_inferring("db");
    world.calm().await;
    world.delete_small();
    world.advance(5 * SECOND).await;
    assert_eq!(world.small(), None);
}

#[tokio::test]
async fn beside_kubevirt_a_machine_without_a_name_keeps_no_type() {
    let world = world(None).await;
    world.create_claim("small");
    world.create_inferring("db");
    world.calm().await;
    world.delete_small();
    world.advance(5 * SECOND).await;
    assert_eq!(world.small(), None, "KubeVirt infers names at admission only");
}

#[tokio::test]
async fn a_pool_whose_name_is_not_inferred_yet_gets_its_copy() {
    let mut world = world(None).await;
    world.kill_leader().await;
    world.create_claim("small");
    world.create_pool("web");
    world.server.edit(POOLS, "web", |pool| {
        let template = &mut pool["spec"]["virtualMachineTemplate"]["spec"];
        template["preference"] = Value::Null;
        template["instancetype"] = inferring();
        template["template"]["spec"]["volumes"] = volumes();
    });
    world.delete_small();
    world.lead_all(&[PlatformName::Kubevirt]);
    world.advance(Duration::from_mins(1)).await;
    assert_eq!(world.small(), None);
    world.server.edit(POOLS, "web", |pool| pool["spec"]["replicas"] = json!(1));
    world.calm().await;
    let pin = world.pin_of("web-0");
    assert!(pin.starts_with("web-small-"), "{pin}");
    world.stays_settled().await;
}

#[tokio::test]
async fn a_pool_whose_volume_names_nothing_keeps_no_type() {
    let world = world(None).await;
    world.create_pool("web");
    world.server.edit(POOLS, "web", |pool| {
        let template = &mut pool["spec"]["virtualMachineTemplate"]["spec"];
        template["instancetype"] = inferring();
        template["template"]["spec"]["volumes"] = volumes();
    });
    world.calm().await;
    world.delete_small();
    world.advance(Duration::from_mins(1)).await;
    assert_eq!(world.small(), None);
}

#[tokio::test]
async fn a_pool_that_does_not_fit_keeps_nothing_until_it_fits() {
    let world = world(None).await;
    world.create_pool_that_does_not_fit();
    world.calm().await;
    world.delete_small();
    world.advance(Duration::from_mins(1)).await;
    assert_eq!(world.small(), None);
    // Given a preference that was corrected before it was deleted, while the pool shows the former reason,
    world.create_type(2);
    world.refuse_copies();
    world.server.edit(PREFERENCES, "linux", |preference| {
        preference["spec"]["requirements"]["cpu"]["guest"] = json!(1);
    });
    world.server.delete(PREFERENCES, "linux");
    world.advance(Duration::from_mins(1)).await;
    assert!(world.server.get(PREFERENCES, "linux").is_some(), "the pool has no copy");
    world.server.behave();
    world.advance(Duration::from_mins(2)).await;
    assert_eq!(world.server.get(PREFERENCES, "linux"), None);
    assert!(world.pin_of("web-0").starts_with("web-small-"));
}

#[tokio::test]
async fn a_pool_that_is_not_read_keeps_no_type() {
    let world = world(None).await;
    world.create_pool("web");
    world.server.edit(POOLS, "web", |pool| {
        pool["spec"]["virtualMachineTemplate"]["metadata"]["annotations"] =
            json!({ "long": "x".repeat(200_000) });
    });
    world.calm().await;
    world.delete_small();
    world.advance(5 * SECOND).await;
    assert_eq!(world.small(), None);
}

#[tokio::test]
async fn a_machine_whose_old_copy_has_no_labels_does_not_keep_its_type() {
    let world = world(Some(CopyPolicy::Reference)).await;
    // Given an old copy that another machine owns, too, so that it stays as it is,
    world.create_machine("db");
    world.calm().await;
    let copy = world.server.get(REVISIONS, &world.copy_of("db").unwrap()).unwrap();
    let mut owners = copy["metadata"]["ownerReferences"].clone();
    owners.as_array_mut().unwrap().push(json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "other", "uid": "uid-of-other",
    }));
    let metadata = json!({ "name": "old", "namespace": NAMESPACE, "ownerReferences": owners });
    let mut data = copy["data"].clone();
    data["apiVersion"] = json!("instancetype.kubevirt.io/v1alpha2");
    world.server.create(REVISIONS, json!({ "metadata": metadata, "data": data, "revision": 0 }));
    world.server.edit(MACHINES, "db", |machine| {
        machine["status"]["instancetypeRef"]["controllerRevisionRef"]["name"] = json!("old");
    });
    world.calm().await;
    assert_eq!(world.copy_of("db").as_deref(), Some("old"));
    // when its type is deleted, then the machine does not keep it.
    world.delete_small();
    world.advance(5 * SECOND).await;
    assert_eq!(world.small(), None);
}

#[tokio::test]
async fn a_copy_that_lost_its_labels_gets_them_back() {
    let world = world(Some(CopyPolicy::Reference)).await;
    world.create_machine("db");
    world.calm().await;
    let copy = world.copy_of("db").unwrap();
    let labels =
        |world: &LeaderWorld| world.server.get(REVISIONS, &copy).unwrap()["metadata"]["labels"].clone();
    let stored = labels(&world);
    assert!(!stored["instancetype.kubevirt.io/object-kind"].is_null());
    world.server.edit(REVISIONS, &copy, |copy| copy["metadata"]["labels"] = json!({ "mine": "1" }));
    world.calm().await;
    let mut expected = stored;
    expected["mine"] = json!("1");
    assert_eq!(labels(&world), expected);
    let events = world.server.all("events");
    assert!(!events.iter().any(|event| event["reason"] == "RevisionUpgraded"), "it is no upgrade");
    world.stays_settled().await;
    world.delete_small();
    world.advance(5 * SECOND).await;
    assert_eq!(world.small(), None);
}

#[tokio::test]
async fn a_change_of_metadata_wakes_no_machine_that_waits_for_a_type() {
    let world = world(Some(CopyPolicy::Reference)).await;
    // Given machines whose type is missing, and one that conflicts with its type, whose backoff is long,
    for number in 0..20 {
        let name = name(number);
        world.create_machine(&name);
        world
            .server
            .edit(MACHINES, &name, |machine| machine["spec"]["instancetype"]["name"] = json!("missing"));
    }
    world.create_machine("db");
    world.server.edit(MACHINES, "db", |machine| {
        machine["spec"]["template"]["spec"]["domain"]["memory"] = json!({ "guest": "1Gi" });
    });
    let reads = |world: &LeaderWorld| {
        let log = world.server.take_log();
        log.iter().filter(|call| call.is(Verb::Get, "virtualmachineinstancetypes")).count()
    };
    world.advance(Duration::from_mins(10)).await;
    reads(&world);
    // when a user changes metadata of the type, then none of them gets a pass.
    for second in 0..10 {
        world.server.edit(TYPES, "small", |small| {
            small["metadata"]["annotations"] = json!({ "n": second.to_string() });
        });
        world.advance(SECOND).await;
    }
    assert_eq!(reads(&world), 0);
    // A change of its spec wakes the machine that depends on it.
    world.server.edit(TYPES, "small", |small| small["spec"]["cpu"]["guest"] = json!(7));
    world.advance(SECOND).await;
    assert_eq!(reads(&world), 1);
    // The type that they wait for wakes them.
    let mut missing = world.small().unwrap();
    let metadata = missing["metadata"].as_object_mut().unwrap();
    metadata.retain(|field, _| ["namespace", "finalizers"].contains(&&**field));
    metadata.insert("name".to_owned(), json!("missing"));
    world.server.create(TYPES, missing);
    world.advance(3 * SECOND).await;
    assert!((0..20).all(|number| world.copy_of(&name(number)).is_some()));
}

#[tokio::test]
async fn a_rejected_write_of_an_inferred_name_is_an_event() {
    let world = world(Some(CopyPolicy::Reference)).await;
    world.create_claim("small");
    world.refuse_changes(403, "a policy denies it");
    world.create_inferring("db");
    world.advance(10 * SECOND).await;
    let events = world.server.all("events");
    let event = events.iter().find(|event| event["reason"] == "FailedUpdate").expect("an event");
    let note = "writing instance type and preference into the machine: a policy denies it";
    assert_eq!((&event["message"], &event["type"]), (&json!(note), &json!("Warning")));
    world.server.behave();
    world.advance(Duration::from_mins(1)).await;
    assert!(world.copy_of("db").is_some());
}
