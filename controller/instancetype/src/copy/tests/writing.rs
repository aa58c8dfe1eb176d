//! Making copies, their names, and comparing them.

use proptest::prelude::*;
use rstest::rstest;

use super::*;

#[test]
fn a_copy_is_a_controller_revision() {
    let mut document = small().document().clone();
    document["metadata"]["labels"] = json!({"a": "b"});
    document["metadata"]["annotations"] = json!({"a": "b"});
    document["metadata"]["finalizers"] = json!(["a/b"]);
    document["metadata"]["ownerReferences"] = json!([{"uid": "x"}]);
    document["metadata"]["managedFields"] = json!([{}]);
    document["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    let copy = InstanceTypeCopy::of(&InstanceTypeObject::read(document).unwrap(), owner(), "team-a").unwrap();
    let expected = json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": format!("db0-u1.small-v1beta1-{UID}-3"),
            "namespace": "team-a",
            "labels": {
                "instancetype.kubevirt.io/object-name": "u1.small",
                "instancetype.kubevirt.io/object-kind": "VirtualMachineClusterInstancetype",
                "instancetype.kubevirt.io/object-uid": UID,
                "instancetype.kubevirt.io/object-generation": "3",
                "instancetype.kubevirt.io/object-version": "v1beta1",
            },
            "ownerReferences": [{
                "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "db0", "uid": "uid-of-db0",
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "data": {
            "apiVersion": "instancetype.kubevirt.io/v1beta1",
            "kind": "VirtualMachineClusterInstancetype",
            "metadata": {
                "name": "u1.small", "uid": UID, "generation": 3, "resourceVersion": "17",
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {"cpu": {"guest": 2}, "memory": {"guest": "2Gi"}},
        },
        "revision": 0,
    });
    assert_eq!(copy.to_json(), expected);
}

#[test]
fn an_object_of_a_namespace_keeps_it() {
    let object = InstanceTypeObject::read(testing::instancetype_document(
        "VirtualMachinePreference",
        "linux",
        json!({}),
    ))
    .unwrap();
    let copy = InstanceTypeCopy::of(&object, owner(), "team-a").unwrap();
    assert_eq!(copy.data["metadata"]["namespace"], "team-a");
    assert_eq!(copy.labels[labels::KIND], "VirtualMachinePreference");
}

#[rstest]
#[case::no_uid("uid")]
#[case::no_generation("generation")]
fn an_object_that_no_api_server_returned_cannot_be_copied(#[case] missing: &str) {
    let mut document = small().document().clone();
    document["metadata"].as_object_mut().unwrap().remove(missing);
    let error =
        InstanceTypeCopy::of(&InstanceTypeObject::read(document).unwrap(), owner(), "team-a").unwrap_err();
    assert!(
        error.to_string().starts_with("VirtualMachineClusterInstancetype u1.small has no UID"),
        "{error}"
    );
}

fn state(generation: i64) -> CopiedObjectState {
    CopiedObjectState { uid: UID.to_owned(), generation }
}

#[test]
fn a_long_name_is_cut_in_front_and_has_a_hash() {
    let name = |owner: &str| compose_copy_name(owner, "u1", "v1beta1", &state(3));
    let tail = format!("-v1beta1-{UID}-3");
    let fits = "o".repeat(253 - tail.len() - "-u1".len());
    assert_eq!(name(&fits), format!("{fits}-u1{tail}"));
    let long = name(&format!("{fits}o"));
    assert_eq!(long.len(), 253);
    assert!(long.ends_with(&tail) && long.starts_with("ooo"), "{long}");
    let other = name(&format!("{fits}p"));
    assert_ne!(long, other, "the cut parts are equal, the hashes are not");
    assert_eq!(parse_copy_name(&long), Some(state(3)));
    // The first 10 digits of the SHA-256 of the whole name.
    assert!(long.ends_with(&format!("-920e5c8024{tail}")), "{long}");
}

#[test]
fn a_cut_name_has_no_dot_before_the_hash() {
    for cut in 150..200 {
        let owner = format!("{}.{}", "o".repeat(cut), "p".repeat(200 - cut));
        let name = compose_copy_name(&owner, "u1", "v1beta1", &state(3));
        assert!(!name.contains(".-") && name.len() <= 253, "{name}");
    }
}

#[rstest]
#[case::whole(&format!("db0-u1.small-v1beta1-{UID}-3"), Some(3))]
#[case::of_the_first_version(&format!("db0-u1-{UID}-12"), Some(12))]
#[case::no_generation(&format!("db0-u1-{UID}"), None)]
#[case::an_empty_generation(&format!("db0-u1-{UID}-"), None)]
#[case::a_signed_generation(&format!("db0-u1-{UID}-+3"), None)]
#[case::no_uid("db0-u1-3", None)]
#[case::a_uid_without_hyphens(&format!("db0-{}-3", "a".repeat(36)), None)]
#[case::a_uid_with_other_letters("db0-zzzzzzzz-zzzz-zzzz-zzzz-zzzzzzzzzzzz-3", None)]
#[case::nothing_in_front(&format!("{UID}-3"), None)]
#[case::not_ascii("ääääääääääääääääääääääääääääääääääää-3", None)]
fn the_name_records_the_state_of_the_object(#[case] name: &str, #[case] generation: Option<i64>) {
    assert_eq!(parse_copy_name(name), generation.map(state));
}

#[rstest]
#[case::unchanged(UID, 3, true)]
#[case::edited(UID, 4, false)]
#[case::recreated("another", 3, false)]
fn a_lost_copy_can_be_made_again_from_an_unchanged_object(
    #[case] uid: &str,
    #[case] generation: i64,
    #[case] same: bool,
) {
    let copy = InstanceTypeCopy::of(&small(), owner(), "team-a").unwrap();
    let mut live = small().identity;
    (live.uid, live.generation) = (Some(uid.to_owned()), Some(generation));
    assert_eq!(parse_copy_name(&copy.name).unwrap().is_state_of(&live), same);
}

#[rstest]
#[case::the_same(json!({"memory": {"guest": "2Gi"}}), json!({"memory": {"guest": "2Gi"}}), true)]
#[case::another_spelling(json!({"memory": {"guest": "2048Mi", "maxGuest": "4Gi"}}), json!({"memory": {"guest": "2Gi", "maxGuest": 4_294_967_296_u64}}), true)]
#[case::of_a_requirement(json!({"requirements": {"memory": {"guest": "2048Mi"}}}), json!({"requirements": {"memory": {"guest": "2Gi"}}}), true)]
#[case::another_amount(json!({"memory": {"guest": "2G"}}), json!({"memory": {"guest": "2Gi"}}), false)]
#[case::a_text_elsewhere_is_no_quantity(json!({"schedulerName": "1k"}), json!({"schedulerName": "1000"}), false)]
#[case::null(json!({"gpus": null, "cpu": {"model": null}}), json!({"cpu": {}}), true)]
#[case::empty(json!({"gpus": [], "nodeSelector": {}, "annotations": {}, "schedulerName": ""}), json!({}), true)]
#[case::no_overcommit(json!({"memory": {"overcommitPercent": 0}}), json!({"memory": {}}), true)]
#[case::no_hidden_hypervisor(json!({"features": {"preferredKvm": {"hidden": false}}}), json!({"features": {"preferredKvm": {}}}), true)]
#[case::an_empty_text_of_an_item(json!({"gpus": [{"name": "a", "deviceName": ""}]}), json!({"gpus": [{"name": "a"}]}), true)]
#[case::an_empty_text_in_a_pointer_is_a_setting(json!({"ioThreadsPolicy": ""}), json!({}), false)]
#[case::an_empty_object_is_a_setting(json!({"devices": {"preferredRng": {}}}), json!({"devices": {}}), false)]
#[case::false_is_a_setting(json!({"cpu": {"dedicatedCPUPlacement": false}}), json!({"cpu": {}}), false)]
#[case::an_empty_annotation_is_a_setting(json!({"annotations": {"a": ""}}), json!({"annotations": {}}), false)]
#[case::an_annotation_is_no_path(json!({"annotations": {"memory.guest": "1k"}}), json!({"annotations": {"memory.guest": "1000"}}), false)]
#[case::the_order_of_a_list(json!({"gpus": [{"name": "a"}, {"name": "b"}]}), json!({"gpus": [{"name": "b"}, {"name": "a"}]}), false)]
#[case::a_longer_list(json!({"gpus": [{"name": "a"}]}), json!({"gpus": [{"name": "a"}, {"name": "b"}]}), false)]
#[case::an_unknown_field(json!({"future": 1}), json!({}), false)]
fn specs_are_compared_by_meaning(#[case] left: Value, #[case] right: Value, #[case] same: bool) {
    assert_eq!(same_spec(&left, &right), same);
    assert_eq!(same_spec(&right, &left), same);
}

/// A spec with a value at a path, and the same spec without this field.
fn with_and_without(path: &str, value: &Value) -> (Value, Value) {
    let nest =
        |path: &str, value: Value| path.rsplit('.').fold(value, |inner, field| json!({ (field): inner }));
    let without = path.rsplit_once('.').map_or_else(|| json!({}), |(around, _)| nest(around, json!({})));
    (nest(path, value.clone()), without)
}

#[test]
fn a_zero_value_is_a_setting_only_in_a_pointer() {
    let (number, flag, text, quantity) = (json!(0), json!(false), json!(""), json!("0"));
    let equal = [
        ("cpu.guest", &number),
        ("devices.preferredDiskBlockSize.custom.logical", &number),
        ("devices.preferredDiskBlockSize.custom.physical", &number),
        ("features.preferredApic.endOfInterrupt", &flag),
        ("features.preferredKvm.hidden", &flag),
        ("machine.preferredMachineType", &text),
        ("memory.guest", &quantity),
        ("memory.overcommitPercent", &number),
        ("preferSpreadSocketToCoreRatio", &number),
        ("requirements.cpu.guest", &number),
        ("requirements.memory.guest", &quantity),
        ("schedulerName", &text),
    ];
    for (path, value) in equal {
        let (with, without) = with_and_without(path, value);
        assert!(same_spec(&with, &without), "{path}");
    }
    let different = [
        ("clock.preferredClockOffset.timezone", &text),
        ("clock.preferredClockOffset.utc.offsetSeconds", &number),
        ("cpu.dedicatedCPUPlacement", &flag),
        ("cpu.isolateEmulatorThread", &flag),
        ("cpu.maxSockets", &number),
        ("cpu.model", &text),
        ("cpu.preferredCPUTopology", &text),
        ("cpu.spreadOptions.across", &text),
        ("cpu.spreadOptions.ratio", &number),
        ("devices.preferredAutoattachGraphicsDevice", &flag),
        ("devices.preferredPanicDeviceModel", &text),
        ("devices.preferredVideoType", &text),
        ("ioThreadsPolicy", &text),
        ("memory.maxGuest", &quantity),
        ("preferredArchitecture", &text),
        ("preferredSubdomain", &text),
        ("preferredTerminationGracePeriodSeconds", &number),
        ("requirements.architecture", &text),
    ];
    for (path, value) in different {
        let (with, without) = with_and_without(path, value);
        assert!(!same_spec(&with, &without), "{path}");
    }
}

#[rstest]
#[case::deleted(None, Some(Outdated::Deleted))]
#[case::unchanged(Some((UID, "2048Mi")), None)]
#[case::changed(Some((UID, "4Gi")), Some(Outdated::SpecChanged))]
#[case::recreated(Some(("another", "4Gi")), Some(Outdated::Recreated))]
#[case::recreated_with_the_same_spec(Some(("another", "2Gi")), None)]
fn a_live_object_may_differ_from_the_copy(
    #[case] live: Option<(&str, &str)>,
    #[case] expected: Option<Outdated>,
) {
    let live = live.map(|(uid, guest)| {
        let spec = testing::instancetype_json(json!({"memory": {"guest": guest}}));
        let mut document = cluster_object("u1.small", spec).document().clone();
        document["metadata"]["uid"] = json!(uid);
        InstanceTypeObject::read(document).unwrap()
    });
    assert_eq!(outdated_reason(&small(), live.as_ref()), expected);
}

#[test]
fn reasons_are_those_of_the_condition() {
    let reasons = [Outdated::SpecChanged, Outdated::Deleted, Outdated::Recreated].map(Outdated::as_str);
    assert_eq!(reasons, ["SpecChanged", "Deleted", "Recreated"]);
}

fn name_of_an_object() -> impl Strategy<Value = String> {
    "[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?){0,4}"
}

proptest! {
    #[test]
    fn every_name_is_valid_and_records_the_state(owner in name_of_an_object(), object in name_of_an_object(), generation in 0..i64::MAX) {
        let name = compose_copy_name(&owner, &object, "v1beta1", &state(generation));
        prop_assert!(name.len() <= 253);
        prop_assert!(name.split('.').all(|part| {
            !part.is_empty() && !part.starts_with('-') && !part.ends_with('-')
        }), "{}", name);
        prop_assert_eq!(parse_copy_name(&name), Some(state(generation)));
    }

    #[test]
    fn no_text_makes_reading_a_name_panic(name in ".{0,60}") {
        let _ = parse_copy_name(&name);
        let _ = compose_copy_name(&name, &name.repeat(9), "v1beta1", &state(1));
    }
}
