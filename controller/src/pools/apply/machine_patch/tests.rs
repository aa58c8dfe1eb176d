use rstest::rstest;

use super::*;

fn machine() -> Value {
    json!({
        "metadata": {
            "uid": "u", "resourceVersion": "7", "generation": 2, "labels": { "farm": "web" },
            "annotations": { "a/b": "c" }, "ownerReferences": [{ "uid": "p" }],
        },
        "spec": { "running": true, "devices": ["one", "two"], "cpu": { "cores": 2 } },
        "status": { "phase": "Running" },
    })
}

fn operations(live: &Value, merge: &Value) -> json_patch::Patch {
    match guard_machine_patch(live, merge, Requirement::SpecAndMetadata) {
        Patch::Json(operations) => operations,
        other => panic!("no JSON patch: {other:?}"),
    }
}

#[rstest]
#[case::sets_a_field(json!({ "spec": { "running": false } }))]
#[case::removes_fields(json!({ "spec": { "cpu": { "cores": null }, "devices": null, "absent": null } }))]
#[case::replaces_a_list(json!({ "spec": { "devices": ["two"] } }))]
#[case::adds_an_object(json!({ "spec": { "memory": { "guest": "1Gi", "maxGuest": null } } }))]
#[case::replaces_a_value_by_an_object(json!({ "spec": { "running": { "since": "now" } } }))]
#[case::replaces_an_object(json!({ "spec": { "cpu": 4 } }))]
#[case::changes_metadata(json!({ "metadata": { "annotations": { "a/b": null, "~": "d" }, "labels": { "x": "y" } } }))]
#[case::changes_nothing(json!({}))]
fn the_json_patch_has_the_effect_of_the_merge_patch_that(#[case] merge: Value) {
    let mut expected = machine();
    json_patch::merge(&mut expected, &merge);
    let mut patched = machine();
    json_patch::patch(&mut patched, &operations(&machine(), &merge)).unwrap();
    assert_eq!(patched, expected);
}

#[rstest]
#[case::its_status("/status/phase", json!("Paused"), true)]
#[case::its_version("/metadata/resourceVersion", json!("8"), true)]
#[case::its_spec("/metadata/generation", json!(3), false)]
#[case::its_labels("/metadata/labels/farm", json!("other"), false)]
#[case::its_protection("/metadata/annotations/a~1b", json!("other"), false)]
#[case::its_owner("/metadata/ownerReferences/0/uid", json!("q"), false)]
#[case::its_name("/metadata/uid", json!("v"), false)]
fn a_machine_is_patched_only_if_nothing_has_changed_but(
    #[case] path: &str,
    #[case] value: Value,
    #[case] is_patched: bool,
) {
    let patch = operations(&machine(), &json!({ "spec": { "running": false } }));
    let mut changed = machine();
    *changed.pointer_mut(path).unwrap() = value;
    assert_eq!(has_failed_test(&patch, &changed), !is_patched);
    assert_eq!(json_patch::patch(&mut changed, &patch).is_ok(), is_patched);
}

/// A JSON patch cannot test that the machine has no protection.
#[rstest]
#[case::has_no_annotations(|machine: &mut Value| machine["metadata"]["annotations"].take())]
#[case::has_no_owner(|machine: &mut Value| machine["metadata"]["ownerReferences"].take())]
fn the_version_is_required_if_the_machine(#[case] change: fn(&mut Value) -> Value) {
    let mut live = machine();
    change(&mut live);
    live["metadata"].as_object_mut().unwrap().retain(|_, value| !value.is_null());
    let patch = guard_machine_patch(&live, &json!({ "spec": {} }), Requirement::SpecAndMetadata);
    assert_eq!(
        patch,
        Patch::Merge(json!({ "metadata": { "uid": "u", "resourceVersion": "7" }, "spec": {} }))
    );
}

#[test]
fn a_patch_that_relies_on_the_status_requires_the_version() {
    let patch = guard_machine_patch(&machine(), &json!({ "metadata": {} }), Requirement::Version);
    assert_eq!(patch, Patch::Merge(json!({ "metadata": { "uid": "u", "resourceVersion": "7" } })));
}

#[test]
fn a_long_patch_requires_the_version() {
    let labels: Map<String, Value> = (0..MAX_OPERATIONS).map(|n| (format!("k{n}"), json!("v"))).collect();
    let merge = json!({ "metadata": { "labels": labels } });
    let patch = guard_machine_patch(&machine(), &merge, Requirement::SpecAndMetadata);
    assert!(matches!(patch, Patch::Merge(_)));
}
