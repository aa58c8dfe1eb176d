//! When instance types are protected, and what keeps them.

use serde_json::{Value, json};
use vmpool_platforms::instancetype::copies::CopyPolicy;

use super::*;

const DEFINITIONS: &str = "customresourcedefinitions";
const INSTALLATIONS: &str = "kubevirts.kubevirt.io";
const OTHERS: [&str; 4] = [
    MACHINES,
    "virtualmachineclusterinstancetypes.instancetype.kubevirt.io",
    "virtualmachinepreferences.instancetype.kubevirt.io",
    "virtualmachineclusterpreferences.instancetype.kubevirt.io",
];

#[rstest]
#[case::beside_kubevirt(None)]
#[case::without_kubevirt(Some(CopyPolicy::Reference))]
#[tokio::test]
async fn types_are_released_while_the_definitions_are_being_removed(#[case] copies: Option<CopyPolicy>) {
    let world = world(copies).await;
    for name in OTHERS {
        world.server.delete_of_cluster(DEFINITIONS, name);
        world.calm().await;
    }
    world.delete_small();
    world.advance(10 * SECOND).await;
    assert_eq!(world.small(), None, "the definition of its kind is still there");
    world.create_type(2);
    world.server.edit(TYPES, "small", |small| small["metadata"]["finalizers"] = json!([]));
    world.calm().await;
    assert_eq!(
        world.small().unwrap()["metadata"]["finalizers"],
        json!([FINALIZER]),
        "new ones are protected"
    );
}

#[tokio::test]
async fn types_are_protected_beside_a_controller_that_makes_the_copies() {
    let world = world(Some(CopyPolicy::Reference)).await;
    let installation = json!({ "metadata": { "name": "kubevirt", "namespace": NAMESPACE }, "spec": {} });
    world.server.create(INSTALLATIONS, installation);
    world.calm().await;
    world.create_machine("db");
    world.calm().await;
    assert_eq!(world.copy_of("db"), None, "KubeVirt makes the copies");
    world.delete_small();
    world.advance(10 * SECOND).await;
    assert!(world.small().is_some(), "the machine has no copy");
    world.server.edit(MACHINES, "db", |machine| {
        let mut reference = matcher();
        reference["controllerRevisionRef"] = json!({ "name": "db-small" });
        machine["status"]["instancetypeRef"] = reference;
    });
    world.advance(5 * SECOND).await;
    assert_eq!(world.small(), None);
    // When KubeVirt is gone, the controller makes the copies again.
    world.create_type(2);
    world.server.delete(INSTALLATIONS, "kubevirt");
    world.create_machine("web");
    world.calm().await;
    assert!(world.copy_of("web").is_some());
}

#[tokio::test]
async fn a_pool_of_another_controller_does_not_keep_a_type() {
    let world = world(None).await;
    let installation = json!({ "metadata": { "name": "kubevirt", "namespace": NAMESPACE }, "spec": {} });
    world.server.create(INSTALLATIONS, installation);
    world.calm().await;
    world.create_pool("web");
    world.calm().await;
    world.delete_small();
    world.advance(10 * SECOND).await;
    assert_eq!(world.small(), None, "no controller makes a copy for the pool");
}

#[tokio::test]
async fn a_type_is_released_when_another_controller_takes_over_the_pool_that_keeps_it() {
    let world = world(None).await;
    world.create_pool("web");
    world.refuse_copies();
    world.calm().await;
    world.delete_small();
    world.advance(100 * SECOND).await;
    assert!(world.small().is_some(), "vmpool reconciles the pool, and it has no copy");
    let installation = json!({ "metadata": { "name": "kubevirt", "namespace": NAMESPACE }, "spec": {} });
    world.server.create(INSTALLATIONS, installation);
    world.advance(40 * SECOND).await;
    assert_eq!(world.small(), None);
}

/// A world whose machine `db` names a missing preference, 5 seconds after a user deleted its instance type
/// `small`.
async fn after_the_deletion_of_small(policy: CopyPolicy) -> LeaderWorld {
    let world = world(Some(policy)).await;
    world.create_machine("db");
    world.server.edit(MACHINES, "db", |machine| {
        machine["spec"]["preference"] = json!({ "name": "missing", "kind": "VirtualMachinePreference" });
    });
    world.calm().await;
    world.delete_small();
    world.advance(5 * SECOND).await;
    world
}

#[tokio::test]
async fn a_machine_that_can_never_use_its_preference_copies_its_instance_type() {
    let world = after_the_deletion_of_small(CopyPolicy::Reference).await;
    assert_eq!(world.small(), None, "the machine has a copy of it");
    let machine = world.server.get(MACHINES, "db").unwrap();
    assert_eq!(machine["status"]["conditions"][0]["reason"], "FailedFindPreference");
}

#[tokio::test]
async fn machines_and_pools_are_watched_for_protection_only_while_one_of_them_keeps_a_type() {
    // Given a machine that gets no copy, because KubeVirt does not make one,
    let world = world(None).await;
    world.create_machine("db");
    world.calm().await;
    let watches = || (world.server.watches(MACHINES), world.server.watches(POOLS));
    assert_eq!(watches(), (1, 1), "only the controller of pools watches");
    // when its type is deleted, then it is watched,
    world.delete_small();
    world.advance(5 * SECOND).await;
    assert_eq!(watches(), (2, 2));
    // until the type is released.
    world.server.edit(MACHINES, "db", |machine| machine["spec"]["instancetype"] = Value::Null);
    world.advance(5 * SECOND).await;
    assert_eq!((world.small(), watches()), (None, (1, 1)));
}

/// One of several API servers can lack a definition for a while.
#[rstest]
#[case::of_machines("virtualmachines")]
#[case::of_pools("virtualmachinepools")]
#[tokio::test]
async fn a_list_that_an_api_server_does_not_serve_releases_no_type(#[case] lacking: &'static str) {
    let world = world(None).await;
    if lacking == "virtualmachines" {
        world.create_machine("db");
    } else {
        world.create_pool("web");
    }
    let refusal = |code| Refusal::new(code, "Refused", "try again");
    world.server.intercept(move |call: &Call| {
        if call.is(Verb::List, lacking) {
            Fate::Refuse(refusal(404))
        } else if call.is(Verb::Create, "controllerrevisions") {
            Fate::Refuse(refusal(503))
        } else {
            Fate::Serve
        }
    });
    world.calm().await;
    world.delete_small();
    world.advance(10 * SECOND).await;
    assert!(world.small().is_some(), "nothing says that no object needs the type");
}

/// Older KubeVirts have pools of another version only.
#[tokio::test]
async fn a_version_of_pools_that_the_cluster_does_not_serve_keeps_no_type() {
    let world = world(None).await;
    world.server.edit_of_cluster(DEFINITIONS, POOLS, |pools| {
        pools["spec"]["versions"] =
            json!([{ "name": "v1alpha1", "served": true }, { "name": "v1beta1", "served": false }]);
    });
    world.server.intercept(|call: &Call| {
        let refusal = Refusal::new(404, "NotFound", "the server could not find the requested resource");
        if call.is(Verb::List, "virtualmachinepools") { Fate::Refuse(refusal) } else { Fate::Serve }
    });
    world.delete_small();
    world.advance(10 * SECOND).await;
    assert_eq!(world.small(), None);
}

#[tokio::test]
async fn a_new_type_of_the_same_name_is_not_reported_as_blocked() {
    let world = world(None).await;
    world.create_machine("db");
    world.calm().await;
    world.delete_small();
    world.advance(5 * SECOND).await;
    // Given a user who removes the finalizer of a type, and creates the type again before the controller sees
    // it,
    world.server.edit(TYPES, "small", |small| small["metadata"]["finalizers"] = json!([]));
    world.create_type(2);
    world.advance(5 * SECOND).await;
    // then nothing waits for a machine.
    let page = world.metrics.page();
    assert!(!page.contains("vmpool_instancetype_deletion_blocked{"), "{page}");
    assert_eq!(world.server.watches(MACHINES), 1);
}

#[tokio::test]
async fn a_machine_that_keeps_a_type_and_changes_all_the_time_causes_few_lists() {
    // Given a machine that gets no copy, because KubeVirt does not make one,
    let world = world(None).await;
    world.create_machine("db");
    world.calm().await;
    world.delete_small();
    world.calm().await;
    world.server.take_log();
    // when its user changes it every second, then the lists become rare.
    for second in 0..120 {
        world.server.edit(MACHINES, "db", |machine| {
            machine["metadata"]["labels"] = json!({ "n": second.to_string() });
        });
        world.advance(SECOND).await;
    }
    let log = world.server.take_log();
    let lists = log.iter().filter(|call| call.is(Verb::List, "virtualmachines")).count();
    assert!((3..=14).contains(&lists), "{lists} lists in two minutes");
}

#[tokio::test]
async fn a_machine_that_does_not_keep_a_type_causes_no_list() {
    let world = world(None).await;
    world.create_machine("db");
    world.create_machine("other");
    world.server.edit(MACHINES, "other", |machine| machine["spec"]["instancetype"] = Value::Null);
    world.calm().await;
    world.delete_small();
    world.advance(95 * SECOND).await;
    world.server.take_log();
    for second in 0..15 {
        world.server.edit(MACHINES, "other", |machine| {
            machine["metadata"]["labels"] = json!({ "n": second.to_string() });
        });
        world.advance(SECOND).await;
    }
    let lists = world.server.take_log().iter().filter(|call| call.is(Verb::List, "virtualmachines")).count();
    assert!(lists <= 1, "{lists} lists");
}

const PREFERENCES: &str = "virtualmachinepreferences.instancetype.kubevirt.io";

impl LeaderWorld {
    /// A preference with the finalizer, which requires this number of vCPUs.
    fn create_preference(&self, cpus: u32) {
        let metadata =
            json!({ "name": "linux", "namespace": NAMESPACE, "generation": 1, "finalizers": [FINALIZER] });
        let spec = json!({ "requirements": { "cpu": { "guest": cpus } } });
        self.server.create(PREFERENCES, json!({ "metadata": metadata, "spec": spec }));
    }

    /// A machine whose preference requires more than its instance type has.
    async fn create_refused(&self) {
        self.create_preference(64);
        self.create_machine("db");
        self.server.edit(MACHINES, "db", |machine| {
            machine["spec"]["preference"] = json!({ "name": "linux", "kind": "VirtualMachinePreference" });
        });
        self.calm().await;
        let machine = self.server.get(MACHINES, "db").unwrap();
        assert_eq!(machine["status"]["conditions"][0]["reason"], "RequirementsNotMet");
    }
}

#[tokio::test]
async fn a_machine_that_does_not_fit_does_not_keep_what_it_names() {
    let world = world(Some(CopyPolicy::Reference)).await;
    world.create_refused().await;
    world.server.delete(PREFERENCES, "linux");
    world.advance(5 * SECOND).await;
    assert_eq!(world.server.get(PREFERENCES, "linux"), None);
}

#[tokio::test]
async fn a_machine_that_fits_by_now_keeps_what_it_names_although_its_condition_is_older() {
    let mut world = world(Some(CopyPolicy::Reference)).await;
    world.create_refused().await;
    // Given a preference that was corrected and deleted while the controller was away,
    world.kill_leader().await;
    world.server.edit(PREFERENCES, "linux", |preference| {
        preference["spec"]["requirements"]["cpu"]["guest"] = json!(1);
    });
    world.server.delete(PREFERENCES, "linux");
    // when the next controller cannot write the copy at once,
    world.refuse_copies();
    world.lead_all(&[PlatformName::Kubevirt]);
    world.advance(5 * SECOND).await;
    assert!(world.server.get(PREFERENCES, "linux").is_some(), "the machine has no copy");
    // then the preference stays until the machine has its copy.
    world.server.behave();
    world.advance(40 * SECOND).await;
    let machine = world.server.get(MACHINES, "db").unwrap();
    assert!(machine["status"]["preferenceRef"]["controllerRevisionRef"].is_object(), "{machine:#}");
    assert_eq!(world.server.get(PREFERENCES, "linux"), None);
}

#[tokio::test]
async fn removing_kubevirt_ends_although_no_machine_and_no_pool_has_a_copy() {
    // Given a common instance type of KubeVirt, which a machine and a pool name, and KubeVirt has made no
    // copy,
    let world = world(None).await;
    world.server.edit(TYPES, "small", |small| {
        small["metadata"]["labels"] =
            json!({ "app.kubernetes.io/managed-by": "virt-operator", "app.kubernetes.io/component": "kubevirt" });
    });
    world.create_machine("db");
    world.server.edit(MACHINES, "db", |machine| {
        machine["metadata"]["finalizers"] = json!(["kubevirt.io/virtualMachineControllerFinalize"]);
    });
    world.create_pool("web");
    world.calm().await;
    // when its operator deletes all definitions, so that the API server deletes their objects, and KubeVirt's
    // controller does not end the machine,
    world.delete_small();
    world.server.delete(POOLS, "web");
    world.server.delete(MACHINES, "db");
    world.advance(3 * SECOND).await;
    // then no finalizer of vmpool keeps the type, although the machine still exists.
    assert!(world.server.get(MACHINES, "db").is_some());
    assert_eq!(world.small(), None);
}

#[tokio::test]
async fn an_operator_that_replaces_a_type_without_the_finalizer_is_not_opposed() {
    let world = world(None).await;
    // Given an operator that writes its types without finalizers whenever they differ from what it installs,
    let labels = json!({ "app.kubernetes.io/managed-by": "virt-operator" });
    world.server.edit(TYPES, "small", |small| {
        small["metadata"]["labels"] = labels.clone();
        small["metadata"]["finalizers"] = json!([]);
        small["spec"]["cpu"]["guest"] = json!(4);
    });
    world.calm().await;
    // then the controller adds the finalizer again, and changes nothing that the operator compares.
    let small = world.small().unwrap();
    assert_eq!(small["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!((&small["metadata"]["labels"], &small["spec"]["cpu"]["guest"]), (&labels, &json!(4)));
    assert!(small["metadata"].get("annotations").is_none_or(Value::is_null), "{small}");
    // While the type waits for a copy, such a write ends its deletion.
    world.create_machine("db");
    world.calm().await;
    world.delete_small();
    world.advance(5 * SECOND).await;
    assert!(world.small().is_some(), "the machine has no copy");
    world.server.edit(TYPES, "small", |small| small["metadata"]["finalizers"] = json!([]));
    world.advance(5 * SECOND).await;
    assert_eq!(world.small(), None);
}

#[rstest]
#[case::of_the_same_object(false)]
#[case::of_an_object_that_was_edited(true)]
#[tokio::test]
async fn a_lost_copy_is_restored_from_a_type_that_is_being_deleted_or_does_not_keep_it(
    #[case] is_edited: bool,
) {
    let mut world = world(Some(CopyPolicy::Reference)).await;
    world.create_machine("db");
    world.calm().await;
    let copy = world.copy_of("db").unwrap();
    if is_edited {
        world.server.edit(TYPES, "small", |small| small["spec"]["cpu"]["guest"] = json!(8));
        world.calm().await;
    }
    // Given a copy and a type that were deleted while the controller was away,
    world.kill_leader().await;
    world.server.delete(REVISIONS, &copy);
    world.delete_small();
    world.lead_all(&[PlatformName::Kubevirt]);
    world.advance(Duration::from_mins(2)).await;
    // then the copy is made again if it can be, and the type is deleted.
    assert_eq!(world.server.get(REVISIONS, &copy).is_some(), !is_edited);
    assert_eq!(world.small(), None);
}

#[tokio::test]
async fn a_machine_that_cannot_be_written_out_does_not_keep_its_type() {
    let world = after_the_deletion_of_small(CopyPolicy::Expand).await;
    assert_eq!(world.small(), None);
}
