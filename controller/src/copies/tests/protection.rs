//! When instance types are protected, and what keeps them.

use serde_json::{Value, json};
use vmpool_platforms::kubevirt::copies::Policy;

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
#[case::without_kubevirt(Some(Policy::Reference))]
#[tokio::test]
async fn types_are_released_while_the_definitions_are_being_removed(#[case] copies: Option<Policy>) {
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
    let world = world(Some(Policy::Reference)).await;
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
    world.calm().await;
    world.delete_small();
    world.advance(100 * SECOND).await;
    assert!(world.small().is_some(), "vmpool reconciles the pool, and it has no copy");
    let installation = json!({ "metadata": { "name": "kubevirt", "namespace": NAMESPACE }, "spec": {} });
    world.server.create(INSTALLATIONS, installation);
    world.advance(40 * SECOND).await;
    assert_eq!(world.small(), None);
}

#[tokio::test]
async fn a_machine_that_can_never_use_its_preference_copies_its_instance_type() {
    let world = world(Some(Policy::Reference)).await;
    world.create_machine("db");
    world.server.edit(MACHINES, "db", |machine| {
        machine["spec"]["preference"] = json!({ "name": "missing", "kind": "VirtualMachinePreference" });
    });
    world.calm().await;
    world.delete_small();
    world.advance(5 * SECOND).await;
    assert_eq!(world.small(), None, "the machine has a copy of it");
    let machine = world.server.get(MACHINES, "db").unwrap();
    assert_eq!(machine["status"]["conditions"][0]["reason"], "FailedFindPreference");
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
