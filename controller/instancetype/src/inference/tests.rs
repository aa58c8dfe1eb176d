use std::cell::RefCell;

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

const NAME: &str = "instancetype.kubevirt.io/default-instancetype";
const KIND: &str = "instancetype.kubevirt.io/default-instancetype-kind";

/// A machine with one volume that its instance type is inferred from.
fn machine(volume: Value, policy: &str) -> Value {
    let mut volume = volume;
    volume["name"] = json!("root");
    json!({
        "metadata": {"namespace": "team-a"},
        "spec": {
            "instancetype": {"inferFromVolume": "root", "inferFromVolumeFailurePolicy": policy},
            "dataVolumeTemplates": [{"metadata": {"name": "own", "labels": {NAME: "ignored"}}, "spec": {
                "sourceRef": {"kind": "DataSource", "name": "fedora"},
            }}],
            "template": {"spec": {"volumes": [volume], "domain": {"memory": {"guest": "1Gi"}}}},
        },
    })
}

/// Runs an inference. Objects are `KIND NAMESPACE/NAME`.
fn run(machine: &Value, objects: &[(&str, Value)]) -> (Vec<String>, Result<Inferred, InferenceError>) {
    let asked = RefCell::new(Vec::new());
    let find = |InferenceLookup { source, namespace, name }: &InferenceLookup| {
        let key = format!("{} {namespace}/{name}", source.as_str());
        let object = objects.iter().find(|(of, _)| *of == key).map(|(_, object)| object);
        asked.borrow_mut().push(key);
        Ok(object)
    };
    let result = infer_matcher::<()>(machine, "team-a", TypeFamily::Instancetype, find).unwrap();
    (asked.into_inner(), result.map(|inferred| inferred.expect("the matcher names a volume")))
}

fn labeled(name: &str) -> Value {
    json!({"metadata": {"labels": {NAME: name, "instancetype.kubevirt.io/default-preference": "linux"}}})
}

fn named(name: &str) -> Inferred {
    Inferred::Named { name: name.to_owned(), kind: String::new() }
}

fn claim() -> Value {
    json!({"persistentVolumeClaim": {"claimName": "c"}})
}

fn data_volume(name: &str) -> Value {
    json!({"dataVolume": {"name": name}})
}

/// An object with this spec, without labels.
fn with_spec(spec: Value) -> Value {
    json!({"metadata": {"labels": {}}, "spec": spec})
}

#[rstest]
#[case::a_claim(claim(), vec![("PersistentVolumeClaim team-a/c", labeled("u1"))])]
#[case::a_data_volume_with_labels(data_volume("d"), vec![("DataVolume team-a/d", labeled("u1"))])]
#[case::the_claim_of_a_deleted_data_volume(data_volume("d"), vec![
    ("DataVolume team-a/d", Value::Null), ("PersistentVolumeClaim team-a/d", labeled("u1"))])]
#[case::the_claim_that_a_data_volume_copies(data_volume("d"), vec![
    ("DataVolume team-a/d", with_spec(json!({"source": {"pvc": {"namespace": "images", "name": "i"}}}))),
    ("PersistentVolumeClaim images/i", labeled("u1"))])]
#[case::the_claim_in_the_own_namespace(data_volume("d"), vec![
    ("DataVolume team-a/d", with_spec(json!({"source": {"pvc": {"name": "i"}}}))),
    ("PersistentVolumeClaim team-a/i", labeled("u1"))])]
#[case::the_snapshot_that_a_data_volume_copies(data_volume("d"), vec![
    ("DataVolume team-a/d", with_spec(json!({"source": {"snapshot": {"namespace": "images", "name": "s"}}}))),
    ("VolumeSnapshot images/s", labeled("u1"))])]
#[case::a_data_source(data_volume("d"), vec![
    ("DataVolume team-a/d", with_spec(json!({"sourceRef": {"kind": "DataSource", "namespace": "images", "name": "fedora"}}))),
    ("DataSource images/fedora", labeled("u1"))])]
#[case::a_data_source_in_the_own_namespace(data_volume("own"), vec![("DataSource team-a/fedora", labeled("u1"))])]
#[case::the_claim_of_a_data_source(data_volume("own"), vec![
    ("DataSource team-a/fedora", with_spec(json!({"source": {"pvc": {"namespace": "images", "name": "i"}}}))),
    ("PersistentVolumeClaim images/i", labeled("u1"))])]
#[case::the_snapshot_of_a_data_source(data_volume("own"), vec![
    ("DataSource team-a/fedora", with_spec(json!({"source": {"snapshot": {"namespace": "images", "name": "s"}}}))),
    ("VolumeSnapshot images/s", labeled("u1"))])]
fn names_are_searched_behind_the_volume(#[case] volume: Value, #[case] objects: Vec<(&str, Value)>) {
    let existing: Vec<_> = objects.iter().filter(|(_, object)| !object.is_null()).cloned().collect();
    let (asked, result) = run(&machine(volume, ""), &existing);
    assert_eq!(asked, objects.iter().map(|(key, _)| (*key).to_owned()).collect::<Vec<_>>());
    assert_eq!(result, Ok(named("u1")));
}

#[test]
fn the_kind_is_optional() {
    let object = json!({"metadata": {"labels": {NAME: "u1", KIND: "VirtualMachineInstancetype"}}});
    let (_, result) = run(&machine(claim(), ""), &[("PersistentVolumeClaim team-a/c", object)]);
    let kind = "VirtualMachineInstancetype".to_owned();
    assert_eq!(result, Ok(Inferred::Named { name: "u1".to_owned(), kind }));
}

#[test]
fn a_preference_has_labels_of_its_own() {
    let machine = json!({"spec": {
        "preference": {"inferFromVolume": "root"},
        "template": {"spec": {"volumes": [{"name": "root", "persistentVolumeClaim": {"claimName": "c"}}]}},
    }});
    let labels = json!({"metadata": {"labels": {
        "instancetype.kubevirt.io/default-preference": "linux",
        "instancetype.kubevirt.io/default-preference-kind": "VirtualMachinePreference",
    }}});
    let result = infer_matcher::<()>(&machine, "a", TypeFamily::Preference, |_| Ok(Some(&labels))).unwrap();
    let kind = "VirtualMachinePreference".to_owned();
    assert_eq!(result, Ok(Some(Inferred::Named { name: "linux".to_owned(), kind })));
}

/// Failures that the policy decides about.
#[rstest]
#[case::a_volume_of_another_type(json!({"containerDisk": {}}), vec![])]
#[case::a_data_volume_from_elsewhere(data_volume("d"), vec![("DataVolume team-a/d", with_spec(json!({"source": {"http": {}}})))])]
#[case::a_data_volume_without_source(data_volume("d"), vec![("DataVolume team-a/d", with_spec(json!({})))])]
#[case::a_reference_to_another_kind(data_volume("d"), vec![
    ("DataVolume team-a/d", with_spec(json!({"sourceRef": {"kind": "Image", "name": "i"}})))])]
#[case::a_data_source_from_elsewhere(data_volume("own"), vec![("DataSource team-a/fedora", with_spec(json!({"source": {}})))])]
#[case::a_claim_without_label(claim(), vec![("PersistentVolumeClaim team-a/c", with_spec(json!({})))])]
#[case::a_claim_with_an_empty_label(claim(), vec![("PersistentVolumeClaim team-a/c", labeled(""))])]
#[case::a_snapshot_without_label(data_volume("own"), vec![
    ("DataSource team-a/fedora", with_spec(json!({"source": {"snapshot": {"name": "s"}}}))),
    ("VolumeSnapshot team-a/s", with_spec(json!({})))])]
fn the_policy_decides_about_missing_labels(#[case] volume: Value, #[case] objects: Vec<(&str, Value)>) {
    let error = run(&machine(volume.clone(), "Reject"), &objects).1.unwrap_err();
    assert!(error.is_ignorable(), "{error}");
    assert_eq!(run(&machine(volume.clone(), ""), &objects).1, Err(error.clone()), "Reject is the default");
    assert_eq!(run(&machine(volume, "Ignore"), &objects).1, Ok(Inferred::Removed(error)));
}

/// Failures that always deny the request.
#[rstest]
#[case::claim(claim(), vec![], "PersistentVolumeClaim team-a/c was not found")]
#[case::the_claim_of_a_deleted_data_volume(data_volume("d"), vec![], "PersistentVolumeClaim team-a/d was not found")]
#[case::data_source(data_volume("own"), vec![], "DataSource team-a/fedora was not found")]
#[case::snapshot(data_volume("own"), vec![("DataSource team-a/fedora", with_spec(json!({"source": {"snapshot": {"name": "s"}}})))],
    "VolumeSnapshot team-a/s was not found")]
#[case::a_malformed_object(claim(), vec![("PersistentVolumeClaim team-a/c", json!({"metadata": {"labels": []}}))],
    "metadata.labels must be a map from strings to strings")]
#[case::a_claim_without_name(json!({"persistentVolumeClaim": {}}), vec![], "spec.template.spec.volumes[0].persistentVolumeClaim.claimName must be set")]
#[case::a_malformed_object_on_the_way(data_volume("d"), vec![("DataVolume team-a/d", json!({"metadata": {"labels": []}}))],
    "metadata.labels must be a map from strings to strings")]
fn a_missing_object_is_never_ignored(
    #[case] volume: Value,
    #[case] objects: Vec<(&str, Value)>,
    #[case] message: &str,
) {
    for policy in ["Reject", "Ignore"] {
        let error = run(&machine(volume.clone(), policy), &objects).1.unwrap_err();
        assert_eq!(error.to_string(), message);
        let field =
            inference_error_cause(&error, TypeFamily::Instancetype, MachineLocation::VirtualMachine).field;
        assert_eq!(field, "spec.instancetype.inferFromVolume");
    }
}

#[test]
fn a_missing_volume_is_never_ignored() {
    let mut machine = machine(claim(), "Ignore");
    machine["spec"]["instancetype"]["inferFromVolume"] = json!("other");
    assert_eq!(run(&machine, &[]).1, Err(InferenceError::NoVolume("other".to_owned())));
}

#[rstest]
#[case::no_matcher(json!({"spec": {}}))]
#[case::a_name(json!({"spec": {"instancetype": {"name": "u1"}}}))]
fn without_a_volume_nothing_is_inferred(#[case] machine: Value) {
    let inferred = infer_matcher::<()>(&machine, "team-a", TypeFamily::Instancetype, |_| Ok(None));
    assert_eq!(inferred, Ok(Ok(None)));
}

#[rstest]
#[case::reject("Reject", true)]
#[case::ignore("Ignore", false)]
fn the_matcher_is_replaced(#[case] policy: &str, #[case] keeps_memory: bool) {
    let mut machine = machine(claim(), policy);
    let inferred = Inferred::Named { name: "u1".to_owned(), kind: "VirtualMachineInstancetype".to_owned() };
    write_inferred_matcher(&mut machine, TypeFamily::Instancetype, &inferred).unwrap();
    assert_eq!(machine["spec"]["instancetype"], json!({"name": "u1", "kind": "VirtualMachineInstancetype"}));
    assert_eq!(machine.pointer("/spec/template/spec/domain/memory").is_some(), keeps_memory);
}

#[test]
fn a_preference_keeps_the_memory() {
    let mut machine = machine(claim(), "Ignore");
    machine["spec"]["preference"] = machine["spec"]["instancetype"].clone();
    let inferred = Inferred::Named { name: "linux".to_owned(), kind: String::new() };
    write_inferred_matcher(&mut machine, TypeFamily::Preference, &inferred).unwrap();
    assert_eq!(machine["spec"]["preference"], json!({"name": "linux"}));
    assert!(machine.pointer("/spec/template/spec/domain/memory").is_some());
}

#[test]
fn an_ignored_failure_removes_the_matcher_and_keeps_the_memory() {
    let mut machine = machine(json!({"containerDisk": {}}), "Ignore");
    let inferred = run(&machine, &[]).1.unwrap();
    write_inferred_matcher(&mut machine, TypeFamily::Instancetype, &inferred).unwrap();
    assert_eq!(machine["spec"].get("instancetype"), None);
    assert!(machine.pointer("/spec/template/spec/domain/memory").is_some());
}
