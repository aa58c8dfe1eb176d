use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn object(finalizers: &Value, metadata: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "instancetype.kubevirt.io/v1beta1",
        "kind": "VirtualMachineInstancetype",
        "metadata": { "name": "small", "namespace": "team", "uid": "u1", "resourceVersion": "7", "finalizers": finalizers },
        "spec": { "cpu": { "guest": 2 }, "memory": { "guest": "2Gi" } },
    });
    for (field, value) in metadata.as_object().into_iter().flatten() {
        object["metadata"][field] = value.clone();
    }
    object
}

fn deleted() -> Value {
    json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" })
}

#[test]
fn an_object_gets_the_finalizer_unless_it_is_being_deleted() {
    let ProtectionStep::Protect(patch) = next_protection_step(&object(&json!(["other"]), &json!({}))) else {
        panic!()
    };
    let expected = json!({ "uid": "u1", "resourceVersion": "7", "finalizers": ["other", FINALIZER] });
    assert_eq!(patch["metadata"], expected);
    assert_eq!(next_protection_step(&object(&json!([FINALIZER]), &json!({}))), ProtectionStep::Nothing);
    assert_eq!(next_protection_step(&object(&json!(["other"]), &deleted())), ProtectionStep::Nothing);
}

#[test]
fn a_deleted_object_is_examined_or_released_by_force() {
    let examined = object(&json!([FINALIZER, "other"]), &deleted());
    assert_eq!(next_protection_step(&examined), ProtectionStep::Examine);
    assert_eq!(finalizer_removal_merge_patch(&examined)["metadata"]["finalizers"], json!(["other"]));
    assert_eq!(finalizer_removal_merge_patch(&examined)["metadata"]["resourceVersion"], "7");
    let mut forced = examined;
    forced["metadata"]["annotations"] = json!({ "vmpool.dev/force-release": "true" });
    assert_eq!(next_protection_step(&forced), ProtectionStep::Force);
    let patch = finalizer_removal_json_patch(&["other".to_owned(), FINALIZER.to_owned()]).unwrap();
    assert_eq!(patch[1]["path"], "/metadata/finalizers/1");
    assert_eq!(finalizer_removal_json_patch(&["other".to_owned()]), None);
}

fn machine(revision: &str) -> Value {
    let mut machine = json!({
        "metadata": { "name": "db", "namespace": "team" },
        "spec": { "instancetype": { "name": "small", "kind": "VirtualMachineInstancetype" }, "template": { "spec": {} } },
    });
    if !revision.is_empty() {
        let copy = json!({ "name": revision });
        let reference =
            json!({ "name": "small", "kind": "VirtualMachineInstancetype", "controllerRevisionRef": copy });
        machine["status"] = json!({ "instancetypeRef": reference });
    }
    machine
}

#[rstest]
#[case::without_a_copy("", true)]
#[case::with_a_copy("mine", false)]
#[case::with_a_copy_that_is_not_known_yet("new", true)]
fn a_machine_needs_the_object(#[case] revision: &str, #[case] expected: bool) {
    let protected = ProtectedType::read(&object(&json!([FINALIZER]), &deleted())).unwrap();
    assert_eq!(protected.needed_by_machine(&machine(revision), |name| name == "mine"), expected);
}

#[test]
fn a_machine_with_a_copy_of_another_object_needs_the_object() {
    let protected = ProtectedType::read(&object(&json!([FINALIZER]), &deleted())).unwrap();
    let mut renamed = machine("mine");
    renamed["status"]["instancetypeRef"]["name"] = json!("large");
    assert!(protected.needed_by_machine(&renamed, |_| true));
}

#[test]
fn a_pool_needs_the_object_until_its_template_is_pinned() {
    let protected = ProtectedType::read(&object(&json!([FINALIZER]), &deleted())).unwrap();
    let template = json!({ "spec": machine("")["spec"] });
    let pool = json!({
        "metadata": { "name": "p", "namespace": "team" },
        "spec": { "virtualMachineTemplate": template },
    });
    assert!(protected.may_be_needed_by_pool(&pool));
    let mut per_machine = pool.clone();
    per_machine["spec"]["instancetypePolicy"] = json!("PerMember");
    assert!(!protected.may_be_needed_by_pool(&per_machine), "its machines have copies of their own");
    // A definition of KubeVirt removes the field.
    let mut annotated = pool.clone();
    annotated["metadata"]["annotations"] = json!({ "vmpool.dev/instancetype-policy": "PerMember" });
    assert!(!protected.may_be_needed_by_pool(&annotated));
    annotated["spec"]["instancetypePolicy"] = json!("Pin");
    assert!(protected.may_be_needed_by_pool(&annotated), "the field precedes");

    let pin =
        |uid: &str| json!({ "instancetype": { "revision": { "data": { "metadata": { "uid": uid } } } } });
    let content =
        |uid: &str| json!({ "virtualMachineTemplate": template, "vmpoolPins": pin(uid), "replicas": 3 });
    assert!(protected.is_pinned(&content("u1")));
    assert!(protected.is_pinned(&content("u0")), "the template continues to use the former object");
    assert!(!protected.is_pinned(&json!({ "virtualMachineTemplate": template })));
}

#[test]
fn the_message_names_ten_objects_at_most() {
    let names: Vec<String> = (0..12).map(|number| format!("machine team/m{number}")).collect();
    let message = blocked_deletion_message(InstanceTypeKind::Instancetype, &names);
    assert!(message.contains("machine team/m9 and 2 more;") && !message.contains("m10"), "{message}");
}

/// Users of all namespaces can read objects of the cluster and the events about them.
#[rstest]
#[case(InstanceTypeKind::ClusterInstancetype)]
#[case(InstanceTypeKind::ClusterPreference)]
fn the_message_about_an_object_of_the_cluster_names_no_object_of_a_namespace(#[case] kind: InstanceTypeKind) {
    let message =
        blocked_deletion_message(kind, &["machine ns-a/secret".to_owned(), "pool ns-b/hidden".to_owned()]);
    assert!(message.contains("has a copy: 2 have none;"), "{message}");
    for name in ["ns-a", "secret", "ns-b", "hidden"] {
        assert!(!message.contains(name), "{message}");
    }
}

#[rstest]
#[case::it_does_not_fit("RequirementsNotMet", true)]
#[case::it_conflicts("InstancetypeConflict", true)]
#[case::something_is_missing("FailedFindPreference", true)]
#[case::of_another_controller("FailedCreate", false)]
fn a_condition_that_a_machine_gets_no_copy_is_no_proof(#[case] reason: &str, #[case] failed: bool) {
    let protected = ProtectedType::read(&object(&json!([FINALIZER]), &deleted())).unwrap();
    let mut machine = machine("");
    machine["status"] = json!({ "conditions": [{ "type": "Failure", "status": "True", "reason": reason }] });
    assert!(protected.needed_by_machine(&machine, |_| false));
    assert_eq!(has_copy_failure(&machine), failed);
    // Its plan decides.
    let copy = |name: &str| json!({ "data": { "kind": "VirtualMachineInstancetype", "metadata": { "name": name } } });
    let plan = |name: &str| CopyPlan { creates: vec![copy(name)], ..CopyPlan::default() };
    assert!(protected.is_copied_by(&machine, &plan("small")));
    assert!(!protected.is_copied_by(&machine, &plan("other")));
    assert!(!protected.is_copied_by(&machine, &CopyPlan::default()));
}

#[test]
fn what_is_written_into_a_machine_is_needed_if_it_is_or_names_the_object() {
    let protected = ProtectedType::read(&object(&json!([FINALIZER]), &deleted())).unwrap();
    let plan = |matcher: Value| {
        let spec = json!({ "op": "replace", "path": "/spec", "value": { "instancetype": matcher } });
        CopyPlan { spec: Some(json!([spec])), ..CopyPlan::default() }
    };
    let named = |name: &str| plan(json!({ "name": name, "kind": "virtualmachineinstancetype" }));
    let mut inferring = machine("");
    inferring["spec"]["instancetype"] = json!({ "inferFromVolume": "root" });
    assert!(protected.needed_by_machine(&inferring, |_| false));
    assert!(protected.may_be_inferred_by_machine(&inferring));
    assert!(!protected.awaited_by_machine(&inferring), "its name is not known");
    assert!(protected.is_copied_by(&inferring, &named("small")));
    assert!(!protected.is_copied_by(&inferring, &named("other")));
    assert!(!protected.is_copied_by(&inferring, &plan(Value::Null)), "nothing was inferred");
    assert!(protected.is_copied_by(&machine(""), &plan(Value::Null)), "it is written out");
    assert!(!protected.may_be_inferred_by_machine(&machine("")));
}

#[rstest]
#[case::it_is_not_resolved("TemplateResolved", "False", true)]
#[case::its_revision_is_not_stored("ReplicaFailure", "True", true)]
#[case::it_is_resolved("TemplateResolved", "True", false)]
#[case::something_else("Ready", "False", false)]
fn a_pool_has_failed_if(#[case] kind: &str, #[case] status: &str, #[case] expected: bool) {
    let pool = json!({ "status": { "conditions": [{ "type": kind, "status": status }] } });
    assert_eq!(is_failed_pool(&pool), expected);
}

#[test]
fn a_copy_that_is_too_large_is_not_stored() {
    let protected = ProtectedType::read(&object(&json!([FINALIZER]), &deleted())).unwrap();
    let content = |size: usize| {
        let data = json!({ "kind": "VirtualMachineInstancetype", "metadata": { "name": "small" }, "x": "x".repeat(size) });
        json!({ "vmpoolPins": { "instancetype": { "revision": { "data": data } } } })
    };
    assert!(protected.is_copied_in(&content(10)));
    assert!(!protected.is_copied_in(&content(limits::REVISION)));
    let mut other = content(10);
    other["vmpoolPins"]["instancetype"]["revision"]["data"]["metadata"]["name"] = json!("other");
    assert!(!protected.is_copied_in(&other));
}
