//! Pools that name an instance type and have no copy of it.

use serde_json::{Value, json};

use super::*;

/// The label with the revision of a machine.
const REVISION: &str = "kubevirt.io/vm-pool-revision-name";

impl LeaderWorld {
    /// The pool `web` with this number of replicas, as virt-controller has left it: its revision has no
    /// copies, and `web-0` uses the copy that KubeVirt has made for it. Returns the name of the revision.
    fn create_pool_of_virt_controller(&self, replicas: usize) -> String {
        self.create_pool("web");
        self.server.edit(POOLS, "web", |pool| {
            pool["spec"]["replicas"] = json!(replicas);
            pool["spec"]["virtualMachineTemplate"]["spec"]["preference"] = Value::Null;
            pool["metadata"]["finalizers"] = json!(["pool.kubevirt.io/finalizer"]);
        });
        let pool = self.server.get(POOLS, "web").unwrap();
        let generation = &pool["metadata"]["generation"];
        let revision = format!("web-{generation}");
        let owner = json!({
            "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "name": "web",
            "uid": pool["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
        });
        let metadata = json!({ "name": revision, "namespace": NAMESPACE, "ownerReferences": [owner] });
        let stored = json!({ "metadata": metadata, "data": pool["spec"], "revision": generation });
        self.server.create(REVISIONS, stored);
        let template = &pool["spec"]["virtualMachineTemplate"];
        let mut spec = template["spec"].clone();
        spec["template"]["metadata"] = json!({ "labels": { REVISION: revision } });
        let metadata = json!({
            "name": "web-0", "namespace": NAMESPACE, "ownerReferences": [owner],
            "labels": { "farm": "web", REVISION: revision },
            "finalizers": ["pool.kubevirt.io/finalizer"],
        });
        let mut reference = matcher();
        reference["controllerRevisionRef"] = json!({ "name": "web-0-small" });
        let status = json!({
            "instancetypeRef": reference, "conditions": [{ "type": "Ready", "status": "True" }],
        });
        self.server.create(MACHINES, json!({ "metadata": metadata, "spec": spec, "status": status }));
        self.create_instance("web-0");
        revision
    }

    /// KubeVirt starts a machine.
    fn create_instance(&self, name: &str) {
        let machine = self.server.get(MACHINES, name).unwrap();
        let owner = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": name, "controller": true,
            "uid": machine["metadata"]["uid"],
        });
        let metadata = json!({
            "name": name, "namespace": NAMESPACE, "ownerReferences": [owner],
            "labels": { REVISION: machine["metadata"]["labels"][REVISION] },
        });
        let status = json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] });
        let instance = json!({ "metadata": metadata, "spec": {}, "status": status });
        self.server.create("virtualmachineinstances.kubevirt.io", instance);
    }

    fn scale_pool(&self, replicas: usize) {
        self.server.edit(POOLS, "web", |pool| pool["spec"]["replicas"] = json!(replicas));
    }

    /// The revision of a machine, and the ControllerRevision that it names.
    fn revision_and_pin(&self, machine: &str) -> (String, String) {
        let object = self.server.get(MACHINES, machine).unwrap_or_else(|| panic!("{machine} does not exist"));
        let revision = object["metadata"]["labels"][REVISION].as_str().unwrap_or_default().to_owned();
        (revision, self.pin_of(machine))
    }

    /// The names of the revisions, and those of the copies.
    fn stored(&self) -> (Vec<String>, Vec<String>) {
        let is_copy =
            |object: &Value| !object["metadata"]["labels"]["instancetype.kubevirt.io/object-kind"].is_null();
        let (copies, revisions): (Vec<Value>, Vec<Value>) =
            self.server.all(REVISIONS).into_iter().partition(is_copy);
        let names = |objects: &[Value]| {
            objects.iter().map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
        };
        (names(&revisions), names(&copies))
    }
}

#[tokio::test]
async fn the_type_of_a_pool_that_virt_controller_ran_is_released_and_no_machine_changes() {
    let mut world = LeaderWorld::new();
    world.create_type(2);
    let revision = world.create_pool_of_virt_controller(1);
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    world.stays_settled().await;
    assert_eq!(world.stored().1, [""; 0], "no machine needs a copy of the pool");
    world.server.take_log();
    world.delete_small();
    world.advance(Duration::from_mins(1)).await;
    assert_eq!(world.small(), None);
    // Two writes for the revision.
    let (revisions, copies) = world.stored();
    assert_eq!((revisions.len(), copies.len()), (2, 1), "{revisions:?}");
    let writes = world.take_writes();
    let of_machines =
        |call: &&Call| call.resource.starts_with("virtualmachine") && call.name.starts_with("web-");
    assert_eq!(writes.iter().filter(of_machines).count(), 0, "{writes:#?}");
    assert_eq!(writes.iter().filter(|call| call.resource == "controllerrevisions").count(), 2, "{writes:#?}");
    assert_eq!(world.revision_and_pin("web-0"), (revision.clone(), String::new()));
    // New machines get the copy.
    world.scale_pool(2);
    world.calm().await;
    assert_eq!(world.pin_of("web-1"), copies[0]);
    assert_eq!(world.revision_and_pin("web-0"), (revision.clone(), String::new()));
    world.stays_settled().await;
}

#[tokio::test]
async fn a_machine_beside_those_of_virt_controller_gets_a_revision_with_copies() {
    let mut world = LeaderWorld::new();
    world.create_type(2);
    let revision = world.create_pool_of_virt_controller(3);
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    let (first, second) = (world.revision_and_pin("web-1"), world.revision_and_pin("web-2"));
    assert_eq!(first, second);
    assert_ne!(first.0, revision, "the machines of this revision have what KubeVirt copied");
    assert!(first.1.starts_with("web-small-"), "{first:?}");
    assert_eq!(world.revision_and_pin("web-0"), (revision.clone(), String::new()));
    world.stays_settled().await;
    // When the last machine of virt-controller is gone, then its revision is deleted, and the other one stays
    // the current one.
    world.server.edit(MACHINES, "web-0", |machine| machine["metadata"]["finalizers"] = json!([]));
    world.server.delete(MACHINES, "web-0");
    world.calm().await;
    assert_eq!(world.revision_and_pin("web-0"), first);
    world.server.delete("virtualmachineinstances.kubevirt.io", "web-0");
    world.advance(10 * SECOND).await;
    assert_eq!(world.stored(), (vec![first.0], vec![first.1]));
    world.stays_settled().await;
}

#[rstest]
#[case::it_has_no_machines(|_: &mut Value| {})]
#[case::it_is_paused(|pool: &mut Value| {
    pool["spec"]["replicas"] = json!(1);
    pool["spec"]["paused"] = json!(true);
})]
#[case::its_spec_is_invalid(|pool: &mut Value| pool["spec"]["selector"] = json!({ "matchLabels": { "farm": "other" } }))]
#[tokio::test]
async fn a_pool_that_creates_nothing_gets_a_copy_when_its_type_is_deleted_although(
    #[case] change: fn(&mut Value),
) {
    let world = world(None).await;
    world.create_pool("web");
    world.server.edit(POOLS, "web", |pool| {
        pool["spec"]["virtualMachineTemplate"]["spec"]["preference"] = Value::Null;
        change(pool);
    });
    world.calm().await;
    assert_eq!(world.stored(), (vec![], vec![]), "no machine needs it");
    world.delete_small();
    world.advance(Duration::from_mins(1)).await;
    assert_eq!(world.small(), None);
    let (revisions, copies) = world.stored();
    assert_eq!((revisions.len(), copies.len()), (1, 1));
    world.stays_settled().await;
    // A change of the spec that leaves the template as it is keeps the copy, which a later machine uses.
    world.server.edit(POOLS, "web", |pool| pool["spec"]["maxUnavailable"] = json!(1));
    world.advance(10 * SECOND).await;
    assert_eq!(world.stored(), (revisions, copies.clone()));
    world.server.edit(POOLS, "web", |pool| {
        pool["spec"]["replicas"] = json!(1);
        pool["spec"]["paused"] = json!(false);
        pool["spec"]["selector"] = json!({ "matchLabels": { "farm": "web" } });
    });
    world.calm().await;
    assert_eq!(world.pin_of("web-0"), copies[0]);
    world.stays_settled().await;
}

#[tokio::test]
async fn a_pool_whose_preference_is_missing_keeps_no_type_and_uses_its_copy_later() {
    let world = world(None).await;
    world.create_pool("web");
    world.server.edit(POOLS, "web", |pool| {
        pool["spec"]["replicas"] = json!(1);
        pool["spec"]["virtualMachineTemplate"]["spec"]["preference"] =
            json!({ "name": "linux", "kind": "VirtualMachinePreference" });
    });
    world.calm().await;
    assert_eq!(world.stored(), (vec![], vec![]), "the template cannot be used");
    world.delete_small();
    world.advance(Duration::from_mins(1)).await;
    assert_eq!(world.small(), None);
    let (revisions, copies) = world.stored();
    assert_eq!((revisions.len(), copies.len()), (1, 1));
    assert!(world.server.all(MACHINES).is_empty());
    let conditions = &world.server.get(POOLS, "web").unwrap()["status"]["conditions"];
    assert!(conditions.to_string().contains("PreferenceNotFound"), "{conditions}");
    let metadata = json!({ "name": "linux", "namespace": NAMESPACE, "finalizers": [FINALIZER] });
    world.server.create(PREFERENCES, json!({ "metadata": metadata, "spec": {} }));
    world.calm().await;
    assert_eq!(world.pin_of("web-0"), copies[0]);
    let machine = world.server.get(MACHINES, "web-0").unwrap();
    let preference = &machine["spec"]["preference"]["revisionName"];
    assert!(preference.as_str().unwrap().starts_with("web-linux-"), "{preference}");
    world.stays_settled().await;
}

/// The type is gone before the controller tries again, so that it does not store the revision again.
#[tokio::test]
async fn a_revision_whose_create_had_no_answer_keeps_its_copies_and_makes_machines() {
    let world = world(None).await;
    world.create_pool_at_rest("web");
    world.calm().await;
    world.server.intercept(|call| {
        let is_revision = call.is(Verb::Create, "controllerrevisions") && !call.name.contains("small");
        if is_revision { Fate::ResponseLost } else { Fate::Serve }
    });
    world.delete_small();
    world.server.edit(POOLS, "web", |pool| pool["spec"]["replicas"] = json!(1));
    world.advance(120 * SECOND).await;
    assert_eq!(world.small(), None);
    assert!(world.has_copies("web"));
    let pin = world.pin_of("web-0");
    assert_eq!(world.size_of(&pin), Some(json!(2)));
    world.stays_settled().await;
}

/// What makes a template unusable after admission has accepted it.
#[derive(Clone, Copy)]
enum Change {
    /// The instance type now sets what the template sets.
    Conflict,
    /// The preference now requires more than the instance type has.
    Requirements,
    /// The volume has no label with a name.
    Inference,
    /// The ControllerRevision in `revisionName` is of another object.
    Mismatch,
}

impl Change {
    /// Changes the spec of the template.
    fn apply(self, spec: &mut Value) {
        match self {
            Self::Conflict => spec["template"]["spec"]["nodeSelector"] = json!({ "rack": "1" }),
            Self::Requirements => {
                spec["preference"] = json!({ "name": "linux", "kind": "VirtualMachinePreference" });
            }
            Self::Inference => {
                spec["instancetype"] = json!({ "inferFromVolume": "root" });
                let claim = json!({ "claimName": "root" });
                spec["template"]["spec"]["volumes"] =
                    json!([{ "name": "root", "persistentVolumeClaim": claim }]);
            }
            Self::Mismatch => spec["instancetype"]["revisionName"] = json!("named"),
        }
    }

    /// Creates or changes the objects in the cluster.
    fn objects(self, world: &LeaderWorld) {
        let metadata = |name: &str| json!({ "name": name, "namespace": NAMESPACE });
        match self {
            Self::Conflict => world.server.edit(TYPES, "small", |small| {
                small["spec"]["nodeSelector"] = json!({ "rack": "2" });
            }),
            Self::Requirements => {
                let spec = json!({ "requirements": { "cpu": { "guest": 16 } } });
                let object = json!({ "metadata": metadata("linux"), "spec": spec });
                world.server.create(PREFERENCES, object);
            }
            Self::Inference => {
                let object = json!({ "metadata": metadata("root"), "spec": {} });
                world.server.create("persistentvolumeclaims", object);
            }
            Self::Mismatch => {
                let data = json!({
                    "apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachineInstancetype",
                    "metadata": { "name": "large" },
                    "spec": { "cpu": { "guest": 2 }, "memory": { "guest": "1Gi" } },
                });
                let object = json!({ "metadata": metadata("named"), "revision": 1, "data": data });
                world.server.create(REVISIONS, object);
            }
        }
    }

    /// Corrects the objects.
    fn correct(self, world: &LeaderWorld) {
        match self {
            Self::Conflict => world.server.edit(TYPES, "small", |small| {
                small["spec"]["nodeSelector"] = Value::Null;
            }),
            Self::Requirements => world.server.edit(PREFERENCES, "linux", |linux| {
                linux["spec"] = json!({ "requirements": { "cpu": { "guest": 1 } } });
            }),
            Self::Inference => world.server.edit("persistentvolumeclaims", "root", |claim| {
                claim["metadata"]["labels"] = json!({
                    "instancetype.kubevirt.io/default-instancetype": "small",
                    "instancetype.kubevirt.io/default-instancetype-kind": "VirtualMachineInstancetype",
                });
            }),
            Self::Mismatch => world.server.edit(POOLS, "web", |pool| {
                pool["spec"]["virtualMachineTemplate"]["spec"]["instancetype"] = matcher();
            }),
        }
    }
}

/// Machines of the former revision stay, and none is created, updated or deleted for the template that cannot
/// be used.
#[rstest]
#[case::a_conflict(Change::Conflict, "InstancetypeConflict")]
#[case::requirements(Change::Requirements, "RequirementsNotMet")]
#[case::an_inference(Change::Inference, "InferenceFailed")]
#[case::a_foreign_revision(Change::Mismatch, "RevisionMismatch")]
#[tokio::test]
async fn a_template_that_cannot_be_used_changes_no_machine(#[case] change: Change, #[case] reason: &str) {
    let world = world(None).await;
    world.run_pool("web").await;
    world.create_instance("web-0");
    world.server.edit(MACHINES, "web-0", |machine| {
        machine["status"] = json!({ "created": true, "conditions": [{ "type": "Ready", "status": "True" }] });
    });
    world.calm().await;
    let before = world.server.get(MACHINES, "web-0").unwrap();
    change.objects(&world);
    world.server.edit(POOLS, "web", |pool| {
        pool["spec"]["replicas"] = json!(2);
        change.apply(&mut pool["spec"]["virtualMachineTemplate"]["spec"]);
    });
    world.calm().await;
    let condition = |world: &LeaderWorld| {
        let pool = world.server.get(POOLS, "web").unwrap();
        let conditions = pool["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == "TemplateResolved")
    };
    let unresolved = condition(&world).unwrap_or_else(|| panic!("{:#?}", world.server.get(POOLS, "web")));
    assert_eq!((&unresolved["status"], &unresolved["reason"]), (&json!("False"), &json!(reason)));
    let events = world.server.all("events");
    assert!(
        events.iter().any(|event| event["reason"] == reason && event["type"] == "Warning"),
        "{events:#?}"
    );
    world.advance(60 * SECOND).await;
    assert_eq!(world.server.all(MACHINES), [before], "no machine was created, updated or deleted");
    // When the object is corrected, then the machines get the template.
    change.correct(&world);
    world.advance(Duration::from_mins(6)).await;
    assert_eq!(condition(&world), None);
    assert_eq!(world.server.all(MACHINES).len(), 2);
}
