use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::testing::{instancetype_document, instancetype_json};

/// The namespaced instance type `u1` in `team-a`.
fn u1() -> InstanceTypeObject {
    InstanceTypeObject::read(instancetype_document(
        "VirtualMachineInstancetype",
        "u1",
        instancetype_json(json!({})),
    ))
    .unwrap()
}

fn machine(matcher: Value) -> Value {
    json!({"metadata": {"name": "db0"}, "spec": {"instancetype": matcher, "template": {"spec": {}}}})
}

fn user(object: &Value) -> InstanceTypeReferrer<'_> {
    InstanceTypeReferrer {
        object,
        location: MachineLocation::VirtualMachine,
        namespace: "team-a",
        has_copy: false,
    }
}

#[rstest]
#[case::it_refers_to_it(json!({"name": "u1", "kind": "virtualmachineinstancetype"}), true)]
#[case::another_name(json!({"name": "u2", "kind": "virtualmachineinstancetype"}), false)]
#[case::another_kind(json!({"name": "u1"}), false)]
#[case::an_unknown_kind(json!({"name": "u1", "kind": "Secret"}), false)]
#[case::a_revision(json!({"name": "u1", "kind": "virtualmachineinstancetype", "revisionName": "r"}), false)]
#[case::no_matcher(Value::Null, false)]
fn a_machine_without_copy_blocks(#[case] matcher: Value, #[case] blocked: bool) {
    let machine = machine(matcher);
    assert_eq!(blocks_deletion(&user(&machine), &u1()), Ok(blocked));
}

#[rstest]
#[case::it_names_a_volume(json!({"inferFromVolume": "root"}), true)]
#[case::it_names_the_object(json!({"name": "u1", "kind": "VirtualMachineInstancetype"}), false)]
#[case::a_revision(json!({"inferFromVolume": "root", "revisionName": "r"}), false)]
#[case::no_matcher(Value::Null, false)]
fn a_machine_infers_the_object(#[case] matcher: Value, #[case] expected: bool) {
    let mut machine = machine(matcher);
    // What conflicts may be removed by the inference.
    machine["spec"]["template"]["spec"] = json!({"domain": {"memory": {"guest": "1Gi"}}});
    assert_eq!(may_infer_object(&user(&machine), &u1()), Ok(expected));
    assert_eq!(blocks_deletion(&user(&machine), &u1()), Ok(expected));
    assert_eq!(
        may_infer_object(&InstanceTypeReferrer { namespace: "team-b", ..user(&machine) }, &u1()),
        Ok(false)
    );
    assert_eq!(
        may_infer_object(&InstanceTypeReferrer { has_copy: true, ..user(&machine) }, &u1()),
        Ok(false)
    );
}

fn referring() -> Value {
    machine(json!({"name": "u1", "kind": "VirtualMachineInstancetype"}))
}

#[test]
fn a_machine_of_another_namespace_does_not_block() {
    assert_eq!(
        blocks_deletion(&InstanceTypeReferrer { namespace: "team-b", ..user(&referring()) }, &u1()),
        Ok(false)
    );
}

#[test]
fn machines_of_all_namespaces_block_a_cluster_object() {
    let cluster =
        instancetype_document("VirtualMachineClusterInstancetype", "u1", instancetype_json(json!({})));
    let machine = machine(json!({"name": "u1"}));
    let user = InstanceTypeReferrer { namespace: "team-b", ..user(&machine) };
    assert_eq!(blocks_deletion(&user, &InstanceTypeObject::read(cluster).unwrap()), Ok(true));
}

#[test]
fn a_machine_with_a_copy_does_not_block() {
    assert_eq!(
        blocks_deletion(&InstanceTypeReferrer { has_copy: true, ..user(&referring()) }, &u1()),
        Ok(false)
    );
}

#[test]
fn what_is_being_deleted_does_not_block() {
    let mut machine = referring();
    machine["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(blocks_deletion(&user(&machine), &u1()), Ok(false));
}

#[test]
fn a_machine_in_conflict_does_not_block() {
    let mut machine = referring();
    machine["spec"]["template"]["spec"] = json!({"domain": {"memory": {"guest": "1Gi"}}});
    assert_eq!(blocks_deletion(&user(&machine), &u1()), Ok(false));
}

#[test]
fn an_instance_type_that_cannot_be_read_is_not_blocked() {
    let unreadable =
        InstanceTypeObject::read(instancetype_document("VirtualMachineInstancetype", "u1", json!({})))
            .unwrap();
    assert_eq!(blocks_deletion(&user(&referring()), &unreadable), Ok(false));
}

#[test]
fn a_preference_never_conflicts() {
    let preference =
        InstanceTypeObject::read(instancetype_document("VirtualMachineClusterPreference", "p", json!({})))
            .unwrap();
    let machine = json!({"spec": {"preference": {"name": "p"}, "template": {"spec": {"domain": {"memory": {"guest": "1Gi"}}}}}});
    assert_eq!(blocks_deletion(&user(&machine), &preference), Ok(true));
}

#[test]
fn a_pool_blocks_like_its_machines() {
    let template = json!({"spec": {"virtualMachineTemplate": {"spec": referring()["spec"]}}});
    let user = InstanceTypeReferrer { location: MachineLocation::Pool, ..user(&template) };
    assert_eq!(blocks_deletion(&user, &u1()), Ok(true));
    assert_eq!(blocks_deletion(&InstanceTypeReferrer { has_copy: true, ..user }, &u1()), Ok(false));
    let error = blocks_deletion(
        &InstanceTypeReferrer {
            location: MachineLocation::Pool,
            object: &json!({"spec": {"virtualMachineTemplate": {"spec": 1}}}),
            ..user
        },
        &u1(),
    );
    assert_eq!(error.unwrap_err().path, "spec.virtualMachineTemplate.spec");
}

#[test]
fn what_can_never_be_copied_is_not_blocked() {
    let long = "u".repeat(64);
    let json = instancetype_document("VirtualMachineInstancetype", &long, instancetype_json(json!({})));
    let named = machine(json!({"name": long, "kind": "VirtualMachineInstancetype"}));
    assert_eq!(blocks_deletion(&user(&named), &InstanceTypeObject::read(json).unwrap()), Ok(false));

    let preference = |requirements: Value| {
        let spec = json!({"requirements": {"memory": {"guest": requirements}}});
        InstanceTypeObject::read(instancetype_document("VirtualMachinePreference", "linux", spec)).unwrap()
    };
    let preferring = json!({
        "metadata": {"name": "db0"},
        "spec": {"preference": {"name": "linux", "kind": "VirtualMachinePreference"}, "template": {"spec": {}}},
    });
    assert_eq!(blocks_deletion(&user(&preferring), &preference(json!("1Gi"))), Ok(true));
    assert_eq!(blocks_deletion(&user(&preferring), &preference(json!(["1Gi"]))), Ok(false));
}
