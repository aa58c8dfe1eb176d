use rstest::rstest;

use super::*;

fn pin(owners: &Value) -> ObjectMeta {
    serde_json::from_value(json!({ "uid": "p", "resourceVersion": "7", "ownerReferences": owners })).unwrap()
}

fn pool() -> Value {
    json!({ "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "name": "web", "uid": "w",
        "controller": true, "blockOwnerDeletion": true })
}

fn machine(number: usize) -> ObjectId {
    ObjectId::new(&format!("web-{number}"), &format!("m{number}"))
}

fn owners(patch: &Value) -> Vec<&str> {
    patch[2]["value"].as_array().unwrap().iter().map(|owner| owner["uid"].as_str().unwrap()).collect()
}

#[test]
fn the_machines_become_the_owners_instead_of_the_pool() {
    let patch = transfer_to_machines(&pin(&json!([pool()])), &[machine(0), machine(1)]).unwrap();
    assert_eq!(owners(&patch), ["m0", "m1"]);
    assert_eq!(
        patch[2]["value"][0],
        json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "web-0", "uid": "m0",
        })
    );
    assert_eq!(patch[1]["value"], "7", "it fails if the object has changed");
    let released = patch[2]["value"].clone();
    assert_eq!(transfer_to_machines(&pin(&released), &[machine(0)]), None, "no pool owns it");
}

#[test]
fn a_pin_without_machines_stays_with_the_pool() {
    assert_eq!(transfer_to_machines(&pin(&json!([pool()])), &[]), None);
}

#[test]
fn a_pin_of_too_many_machines_gets_no_owner() {
    let machines: Vec<ObjectId> = (0..=OWNERS).map(machine).collect();
    assert_eq!(owners(&transfer_to_machines(&pin(&json!([pool()])), &machines).unwrap()), [""; 0]);
}

#[test]
fn the_machines_become_further_owners_before_the_pool_is_gone() {
    let patch = add_machine_owners(&pin(&json!([pool()])), &[machine(0), machine(1)]).unwrap();
    assert_eq!(owners(&patch), ["w", "m0", "m1"]);
    let kept = pin(&patch[2]["value"]);
    assert_eq!(add_machine_owners(&kept, &[machine(1)]), None, "it owns the pin");
    assert_eq!(
        owners(&add_machine_owners(&kept, &[machine(1), machine(2)]).unwrap()),
        ["w", "m0", "m1", "m2"]
    );
    let machines: Vec<ObjectId> = (0..OWNERS).map(machine).collect();
    assert_eq!(owners(&add_machine_owners(&pin(&json!([pool()])), &machines).unwrap()), [""; 0]);
}

#[test]
fn a_machine_leaves_a_copy_to_its_other_owners_and_users() {
    let own =
        json!({ "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "web-0", "uid": "m0" });
    assert_eq!(remove_machine_owner(&pin(&json!([own])), &machine(0), &[]), None, "the copy can be deleted");
    assert_eq!(owners(&remove_machine_owner(&pin(&json!([own, pool()])), &machine(0), &[]).unwrap()), ["w"]);
    assert_eq!(
        owners(&remove_machine_owner(&pin(&json!([own])), &machine(0), &[machine(1)]).unwrap()),
        ["m1"]
    );
}

#[rstest]
#[case::equal(json!({}), true)]
#[case::being_deleted(json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }), false)]
fn a_copy_that_is_being_deleted_is_not_shared(#[case] metadata: Value, #[case] is_shared: bool) {
    let copy = json!({ "metadata": { "ownerReferences": [{ "uid": "m0" }] }, "data": { "kind": "K" } });
    let mut live = json!({ "data": { "kind": "K" } });
    live["metadata"] = metadata;
    live["metadata"]["ownerReferences"] = json!([{ "uid": "other", "name": "b" }]);
    let compared = compare_planned_copy(&copy, &live);
    assert_eq!(matches!(compared, PlannedCopyComparison::Incomplete(_)), is_shared, "{compared:?}");
    live["data"]["kind"] = json!("L");
    assert!(!matches!(compare_planned_copy(&copy, &live), PlannedCopyComparison::Incomplete(_)));
}
