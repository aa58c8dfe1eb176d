use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn matcher(matcher: Value) -> TypeMatcher {
    TypeMatcher::of_machine(&json!({"spec": {"instancetype": matcher}}), TypeFamily::Instancetype)
        .unwrap()
        .unwrap()
}

fn status(reference: Value) -> StatusRef {
    let machine = json!({"status": {"instancetypeRef": reference}});
    StatusRef::of_machine(&machine, TypeFamily::Instancetype).unwrap().unwrap()
}

#[test]
fn a_reference_is_read_and_written() {
    let json = json!({
        "name": "u1", "kind": "VirtualMachineInstancetype", "inferFromVolume": "root",
        "inferFromVolumeFailurePolicy": "Ignore", "controllerRevisionRef": {"name": "db0-u1"},
    });
    assert_eq!(status(json.clone()).to_json(), json);
    assert_eq!(status(json!({"name": "u1"})).to_json(), json!({"name": "u1"}));
    assert_eq!(StatusRef::of_machine(&json!({}), TypeFamily::Preference), Ok(None));
}

#[rstest]
#[case::of_the_spec(json!({"name": "u1", "revisionName": "a"}), Some(json!({"name": "u1", "controllerRevisionRef": {"name": "b"}})), Some(("a", true)))]
#[case::of_the_status(json!({"name": "u1"}), Some(json!({"name": "u1", "controllerRevisionRef": {"name": "b"}})), Some(("b", false)))]
#[case::without_a_copy(json!({"name": "u1"}), Some(json!({"name": "u1"})), None)]
#[case::without_a_status(json!({"name": "u1"}), None, None)]
fn the_spec_precedes_the_status(
    #[case] of_spec: Value,
    #[case] of_status: Option<Value>,
    #[case] expected: Option<(&str, bool)>,
) {
    let expected = expected.map(|(revision, by_spec)| MachinePin { revision: revision.to_owned(), by_spec });
    assert_eq!(machine_pin(&matcher(of_spec), of_status.map(status).as_ref()), expected);
}

/// A recorded copy stays as long as the matcher means the same object.
#[rstest]
#[case::unchanged(json!({"name": "u1"}), Some("b"))]
#[case::another_spelling_of_the_kind(json!({"name": "u1", "kind": "virtualmachineclusterinstancetypes"}), Some("b"))]
#[case::another_name(json!({"name": "u2"}), None)]
#[case::another_kind(json!({"name": "u1", "kind": "VirtualMachineInstancetype"}), None)]
#[case::another_volume(json!({"name": "u1", "inferFromVolume": "root"}), None)]
#[case::a_revision(json!({"name": "u1", "revisionName": "a"}), Some("a"))]
#[case::a_revision_with_another_name(json!({"name": "u2", "revisionName": "a"}), Some("a"))]
fn a_changed_matcher_needs_another_copy(#[case] of_spec: Value, #[case] revision: Option<&str>) {
    let old = status(json!({"name": "u1", "kind": "", "controllerRevisionRef": {"name": "b"}}));
    let record = plan_status_ref(TypeFamily::Instancetype, &matcher(of_spec.clone()), Some(&old));
    let mut expected = of_spec;
    expected.as_object_mut().unwrap().remove("revisionName");
    match (record, revision) {
        (StatusRefPlan::Complete(reference), Some(revision)) => {
            expected["controllerRevisionRef"] = json!({ "name": revision });
            assert_eq!(reference.to_json(), expected);
        }
        (StatusRefPlan::NeedsCopy(reference), None) => {
            assert_eq!(reference.to_json(), expected);
            expected["controllerRevisionRef"] = json!({"name": "new"});
            assert_eq!(reference.with_revision("new").to_json(), expected);
        }
        other => panic!("{other:?}"),
    }
}

#[rstest]
#[case::by_its_volume(json!({"name": "u1", "inferFromVolume": "root"}), true)]
#[case::by_the_name_that_was_inferred(json!({"name": "u1"}), true)]
#[case::by_another_volume(json!({"name": "u1", "inferFromVolume": "data"}), false)]
#[case::by_another_name(json!({"name": "u2"}), false)]
fn an_inferred_object_is_named(#[case] of_spec: Value, #[case] is_same: bool) {
    let old =
        status(json!({"name": "u1", "inferFromVolume": "root", "controllerRevisionRef": {"name": "b"}}));
    let record = plan_status_ref(TypeFamily::Instancetype, &matcher(of_spec), Some(&old));
    assert_eq!(matches!(record, StatusRefPlan::Complete(_)), is_same, "{record:?}");
}

#[test]
fn a_first_matcher_needs_a_copy() {
    assert!(matches!(
        plan_status_ref(TypeFamily::Instancetype, &matcher(json!({"name": "u1"})), None),
        StatusRefPlan::NeedsCopy(_)
    ));
}

#[rstest]
#[case::both_at_once(json!({"status": {}}), Some(json!([
    {"op": "add", "path": "/status/instancetypeRef", "value": {"name": "u1", "controllerRevisionRef": {"name": "b"}}},
    {"op": "add", "path": "/status/preferenceRef", "value": {"name": "u1", "controllerRevisionRef": {"name": "b"}}},
])))]
#[case::without_a_status(json!({}), Some(json!([
    {"op": "add", "path": "/status", "value": {}},
    {"op": "add", "path": "/status/instancetypeRef", "value": {"name": "u1", "controllerRevisionRef": {"name": "b"}}},
    {"op": "add", "path": "/status/preferenceRef", "value": {"name": "u1", "controllerRevisionRef": {"name": "b"}}},
])))]
#[case::a_change(json!({"status": {
    "instancetypeRef": {"name": "u1", "controllerRevisionRef": {"name": "a"}},
    "preferenceRef": {"name": "u1", "controllerRevisionRef": {"name": "b"}}}}), Some(json!([
    {"op": "add", "path": "/status/instancetypeRef", "value": {"name": "u1", "controllerRevisionRef": {"name": "b"}}},
])))]
#[case::no_change(json!({"status": {
    "instancetypeRef": {"name": "u1", "controllerRevisionRef": {"name": "b"}},
    "preferenceRef": {"name": "u1", "controllerRevisionRef": {"name": "b"}}}}), None)]
fn references_are_one_patch(#[case] machine: Value, #[case] expected: Option<Value>) {
    let reference = status(json!({"name": "u1", "controllerRevisionRef": {"name": "b"}}));
    let references =
        [(TypeFamily::Instancetype, Some(reference.clone())), (TypeFamily::Preference, Some(reference))];
    assert_eq!(status_refs_patch(&machine, references), Ok(expected));
}

#[test]
fn the_reference_of_a_removed_matcher_is_removed() {
    let machine = json!({"status": {"preferenceRef": {"name": "linux"}}});
    let none = [(TypeFamily::Instancetype, None), (TypeFamily::Preference, None)];
    assert_eq!(
        status_refs_patch(&machine, none),
        Ok(Some(json!([{"op": "remove", "path": "/status/preferenceRef"}])))
    );
}
