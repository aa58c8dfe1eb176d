use rstest::rstest;
use serde_json::{Value, json};

use super::*;

#[rstest]
#[case::the_kind("VirtualMachineInstancetype", InstanceTypeKind::Instancetype)]
#[case::the_singular_name("virtualmachineinstancetype", InstanceTypeKind::Instancetype)]
#[case::the_plural_name("virtualmachineinstancetypes", InstanceTypeKind::Instancetype)]
#[case::any_case("VIRTUALMACHINECLUSTERINSTANCETYPES", InstanceTypeKind::ClusterInstancetype)]
#[case::empty_is_the_cluster_kind("", InstanceTypeKind::ClusterInstancetype)]
fn reads_kinds_of_matchers(#[case] text: &str, #[case] kind: InstanceTypeKind) {
    assert_eq!(InstanceTypeKind::of_matcher(TypeFamily::Instancetype, text), Ok(kind));
    let matcher = TypeMatcher { kind: text.to_owned(), ..TypeMatcher::default() };
    assert_eq!(matcher.kind(TypeFamily::Instancetype), Ok(kind));
}

#[rstest]
#[case::of_the_other_family(TypeFamily::Instancetype, "VirtualMachinePreference")]
#[case::a_short_name(TypeFamily::Preference, "vmp")]
#[case::another_kind(TypeFamily::Preference, "ConfigMap")]
fn other_kinds_of_matchers_are_errors(#[case] family: TypeFamily, #[case] text: &str) {
    let error = InstanceTypeKind::of_matcher(family, text).unwrap_err();
    assert_eq!(error, UnknownKind { family, kind: text.to_owned() });
    let (namespaced, cluster) = (InstanceTypeKind::of(family, false), InstanceTypeKind::of(family, true));
    assert!(error.to_string().ends_with(&format!("use {namespaced} or {cluster}")), "{error}");
}

#[test]
fn an_empty_preference_kind_is_the_cluster_kind() {
    assert_eq!(
        InstanceTypeKind::of_matcher(TypeFamily::Preference, ""),
        Ok(InstanceTypeKind::ClusterPreference)
    );
}

#[test]
fn every_kind_is_found_by_each_of_its_names() {
    for kind in InstanceTypeKind::ALL {
        assert_eq!(InstanceTypeKind::of_object(kind.as_str()), Some(kind));
        assert_eq!(InstanceTypeKind::of(kind.family(), kind.is_cluster()), kind);
        for name in [kind.as_str(), kind.singular(), kind.plural()] {
            assert_eq!(InstanceTypeKind::of_matcher(kind.family(), name), Ok(kind));
        }
    }
    assert_eq!(InstanceTypeKind::of_object("virtualmachinepreference"), None, "objects have one spelling");
}

#[test]
fn a_matcher_is_read_and_written() {
    let matcher = json!({
        "name": "u1.small", "kind": "VirtualMachineInstancetype", "revisionName": "r",
        "inferFromVolume": "root", "inferFromVolumeFailurePolicy": "Ignore",
    });
    let machine = json!({"spec": {"instancetype": matcher, "preference": {"name": "linux", "kind": ""}}});
    let read = TypeMatcher::of_machine(&machine, TypeFamily::Instancetype).unwrap().unwrap();
    assert_eq!(read.to_json(), matcher);
    let preference = TypeMatcher::of_machine(&machine, TypeFamily::Preference).unwrap().unwrap();
    assert_eq!(preference.to_json(), json!({"name": "linux"}), "empty fields are absent");
}

#[test]
fn a_pinned_matcher_names_the_revision() {
    let matcher = TypeMatcher {
        name: "u1".to_owned(),
        kind: "VirtualMachineInstancetype".to_owned(),
        infer_from_volume: "root".to_owned(),
        infer_from_volume_failure_policy: "Ignore".to_owned(),
        ..TypeMatcher::default()
    };
    let expected = json!({"name": "u1", "kind": "VirtualMachineInstancetype", "revisionName": "web-u1"});
    assert_eq!(matcher.pinned("web-u1").to_json(), expected);
}

#[rstest]
#[case::absent(json!({"spec": {}}), Ok(false))]
#[case::null(json!({"spec": {"preference": null}}), Ok(false))]
#[case::empty(json!({"spec": {"preference": {}}}), Ok(true))]
#[case::a_text(json!({"spec": {"preference": "linux"}}), Err("spec.preference"))]
#[case::a_name_of_the_wrong_type(json!({"spec": {"preference": {"name": 1}}}), Err("spec.preference.name"))]
fn matchers_may_be_absent(#[case] machine: Value, #[case] found: Result<bool, &str>) {
    let read = TypeMatcher::of_machine(&machine, TypeFamily::Preference);
    assert_eq!(
        read.map(|matcher| matcher.is_some()).map_err(|error| error.path),
        found.map_err(str::to_owned)
    );
}

#[rstest]
#[case::default("", Some(FailurePolicy::Reject))]
#[case::reject("Reject", Some(FailurePolicy::Reject))]
#[case::ignore("Ignore", Some(FailurePolicy::Ignore))]
#[case::the_longer_name("IgnoreInferFromVolumeFailure", None)]
#[case::another_case("ignore", None)]
fn reads_failure_policies(#[case] text: &str, #[case] policy: Option<FailurePolicy>) {
    let matcher = TypeMatcher { infer_from_volume_failure_policy: text.to_owned(), ..TypeMatcher::default() };
    assert_eq!(matcher.failure_policy(), policy);
}

fn document(api_version: &str, kind: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "u1", "namespace": "a", "uid": "7f", "generation": 3}})
}

#[test]
fn an_object_has_its_identity() {
    let object =
        InstanceTypeObject::read(document("instancetype.kubevirt.io/v1beta1", "VirtualMachinePreference"))
            .unwrap();
    let identity = ObjectIdentity {
        name: "u1".to_owned(),
        namespace: Some("a".to_owned()),
        uid: Some("7f".to_owned()),
        generation: Some(3),
    };
    assert_eq!((object.kind, &object.identity), (InstanceTypeKind::Preference, &identity));
    assert_eq!(object.spec(), &Value::Null);
}

#[rstest]
#[case::another_kind("v1", "Secret", "v1 Secret")]
#[case::another_group(
    "example.com/v1beta1",
    "VirtualMachinePreference",
    "example.com/v1beta1 VirtualMachinePreference"
)]
#[case::an_older_version(
    "instancetype.kubevirt.io/v1alpha2",
    "VirtualMachinePreference",
    "instancetype.kubevirt.io/v1alpha2 VirtualMachinePreference"
)]
#[case::a_group_with_our_prefix(
    "instancetype.kubevirt.iox/v1beta1",
    "VirtualMachinePreference",
    "instancetype.kubevirt.iox/v1beta1 VirtualMachinePreference"
)]
fn other_objects_are_refused_by_their_kind(
    #[case] api_version: &str,
    #[case] kind: &str,
    #[case] found: &str,
) {
    let error = InstanceTypeObject::read(document(api_version, kind)).unwrap_err();
    assert_eq!(error, ObjectError::OtherKind { found: found.chars().take(64).collect() });
}

#[test]
fn an_error_quotes_at_most_64_characters() {
    let Err(ObjectError::OtherKind { found }) = InstanceTypeObject::read(document("v1", &"ä".repeat(500)))
    else {
        panic!("the kind is unknown")
    };
    assert_eq!(found.chars().count(), 64);
}

#[test]
fn an_object_of_the_other_family_is_an_error() {
    let preference =
        InstanceTypeObject::read(document("instancetype.kubevirt.io/v1beta1", "VirtualMachinePreference"))
            .unwrap();
    let error = Instancetype::new(preference.clone()).unwrap_err();
    assert_eq!(
        error,
        ObjectError::OtherFamily { wanted: TypeFamily::Instancetype, found: InstanceTypeKind::Preference }
    );
    assert!(Preference::new(preference).is_ok(), "a preference without a spec is empty");
}

#[rstest]
#[case::no_cpu(json!({"memory": {"guest": "1Gi"}}), "cpu.guest")]
#[case::no_memory(json!({"cpu": {"guest": 1}}), "memory.guest")]
#[case::memory_that_is_no_quantity(json!({"cpu": {"guest": 1}, "memory": {"guest": "secret"}}), "memory.guest")]
#[case::devices_that_are_no_list(json!({"cpu": {"guest": 1}, "memory": {"guest": 1}, "gpus": {}}), "gpus")]
fn a_malformed_spec_names_the_field_only(#[case] spec: Value, #[case] path: &str) {
    let mut document = document("instancetype.kubevirt.io/v1beta1", "VirtualMachineInstancetype");
    document["spec"] = spec;
    let error = Instancetype::new(InstanceTypeObject::read(document).unwrap()).unwrap_err();
    assert!(
        error.to_string().starts_with(&format!("VirtualMachineInstancetype u1: spec.{path} must be")),
        "{error}"
    );
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[test]
fn an_error_in_device_preferences_has_its_path() {
    let error = PreferenceSpec::read(&json!({"devices": {"preferredDiskBus": 1}})).unwrap_err();
    assert_eq!(error.path, "devices.preferredDiskBus");
}

#[test]
fn an_older_ratio_of_zero_is_absent() {
    let spec = PreferenceSpec::read(&json!({"preferSpreadSocketToCoreRatio": 0})).unwrap();
    assert_eq!(spec.cpu.socket_to_core_ratio, None);
}

#[rstest]
#[case::a_text(json!("x"), "")]
#[case::a_spec_that_is_a_list(json!({"spec": []}), "spec")]
#[case::an_annotation_that_is_a_number(json!({"metadata": {"annotations": {"a": 1}}}), "metadata.annotations")]
fn a_template_of_the_wrong_type_is_refused(#[case] document: Value, #[case] path: &str) {
    assert_eq!(InstanceTemplate::new(document).unwrap_err().path, path);
}

#[test]
fn a_template_without_a_spec_has_an_empty_one() {
    let template = InstanceTemplate::new(json!({"metadata": {"labels": {"a": "b"}}})).unwrap();
    assert_eq!(template.spec(), &json!({}));
    assert_eq!(template.into_value(), json!({"metadata": {"labels": {"a": "b"}}, "spec": {}}));
}
