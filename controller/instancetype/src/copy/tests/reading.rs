//! Decoding, accepting and upgrading copies.

use std::collections::BTreeMap;

use rstest::rstest;

use super::*;
use crate::model::{InstanceTypeKind, Instancetype, ObjectError, TypeFamily};

const KIND: InstanceTypeKind = InstanceTypeKind::ClusterInstancetype;

/// A copy with these labels and this data.
fn copy(data: Value) -> InstanceTypeCopy {
    InstanceTypeCopy {
        name: format!("db0-u1.small-{UID}-3"),
        namespace: "team-a".to_owned(),
        owners: vec![owner()],
        labels: BTreeMap::new(),
        data,
    }
}

fn alpha(version: &str, kind: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("instancetype.kubevirt.io/{version}"), "kind": kind,
        "metadata": {"name": "u1.small", "uid": UID, "generation": 3}, "spec": spec})
}

fn spec_revision(spec: &str) -> Value {
    use base64::Engine;
    let spec = base64::prelude::BASE64_STANDARD.encode(spec);
    json!({"apiVersion": "instancetype.kubevirt.io/v1alpha1", "spec": spec})
}

#[test]
fn a_copy_is_read_back() {
    let mut copy = InstanceTypeCopy::of(&small(), owner(), "team-a").unwrap();
    copy.labels.insert("vmpool.dev/pool-uid".to_owned(), "x".to_owned());
    let read = InstanceTypeCopy::read(&copy.to_json()).unwrap();
    assert_eq!(read, copy);
    let decoded = decode_copy(&read, KIND, "u1.small").unwrap();
    assert_eq!(decoded.stored, StoredVersion::V1beta1);
    assert_eq!(decoded.object.spec(), small().spec());
    assert_eq!(decoded.object.identity, small().identity);
    assert!(decoded.is(TypeFamily::Instancetype) && !decoded.is(TypeFamily::Preference));
}

#[test]
fn a_malformed_copy_is_an_error() {
    let error = InstanceTypeCopy::read(&json!({"metadata": {"ownerReferences": [{"uid": 1}]}})).unwrap_err();
    assert_eq!(error.path, "metadata.ownerReferences.uid");
}

#[rstest]
#[case::v1alpha2("v1alpha2", StoredVersion::V1alpha2)]
#[case::v1alpha1("v1alpha1", StoredVersion::V1alpha1)]
fn instance_types_of_alpha_versions_are_converted(#[case] version: &str, #[case] stored: StoredVersion) {
    let spec = json!({
        "cpu": {"guest": 2, "model": "", "dedicatedCPUPlacement": false, "isolateEmulatorThread": true},
        "memory": {"guest": "2048Mi"},
    });
    let decoded = decode_copy(&copy(alpha(version, KIND.as_str(), spec)), KIND, "u1.small").unwrap();
    assert_eq!(decoded.stored, stored);
    let expected = json!({"cpu": {"guest": 2, "isolateEmulatorThread": true}, "memory": {"guest": "2048Mi"}});
    assert_eq!(decoded.object.spec(), &expected);
    assert_eq!(decoded.object.document()["apiVersion"], "instancetype.kubevirt.io/v1beta1");
    assert_eq!(decoded.object.identity, small().identity);
}

#[test]
fn a_copy_of_a_later_kubevirt_is_read_and_stays() {
    let spec = json!({"cpu": {"guest": 2, "future": {"a": 1}}, "memory": {"guest": "2Gi"}, "future": true});
    for label in [None, Some("v1")] {
        let mut copy = copy(alpha("v1", KIND.as_str(), spec.clone()));
        if let Some(label) = label {
            copy.labels = InstanceTypeCopy::of(&small(), owner(), "team-a").unwrap().labels;
            copy.labels.insert(labels::VERSION.to_owned(), label.to_owned());
        }
        let decoded = decode_copy(&copy, KIND, "u1.small").unwrap();
        assert_eq!((decoded.stored, decoded.stored.is_former()), (StoredVersion::V1, false));
        assert_eq!(decoded.object.spec(), &spec, "unknown fields stay");
        assert_eq!(Instancetype::new(decoded.object.clone()).map(|_| ()), Ok(()));
        assert_eq!(plan_copy_upgrade(&copy, &decoded, &owner()), CopyUpgrade::Current);
        let wanted = ExpectedCopy {
            kind: KIND,
            name: "u1.small",
            by_spec: false,
            by_status: true,
            machine_uid: "uid-of-db0",
            machine_name: "db0",
        };
        let expected = if label.is_some() { Acceptance::Use } else { Acceptance::Upgrade };
        assert_eq!(accept_copy(&copy, &decoded, &wanted), Ok(expected));
    }
}

#[test]
fn preferences_of_alpha_versions_are_converted() {
    let spec = json!({
        "cpu": {"preferredCPUTopology": "", "preferredCPUFeatures": []},
        "firmware": {"preferredUseEfi": true, "preferredUseSecureBoot": false},
        "devices": {"preferredDisableHotplug": false},
    });
    let data = alpha("v1alpha2", "VirtualMachinePreference", spec.clone());
    let decoded = decode_copy(&copy(data), InstanceTypeKind::Preference, "u1.small").unwrap();
    let mut expected = spec;
    expected["cpu"].as_object_mut().unwrap().remove("preferredCPUTopology");
    assert_eq!(decoded.object.spec(), &expected, "EFI stays in the deprecated fields");
}

#[test]
fn an_alpha_topology_stays() {
    let data = alpha(
        "v1alpha2",
        "VirtualMachinePreference",
        json!({"cpu": {"preferredCPUTopology": "preferCores"}}),
    );
    let decoded = decode_copy(&copy(data), InstanceTypeKind::Preference, "u1.small").unwrap();
    assert_eq!(decoded.object.spec()["cpu"]["preferredCPUTopology"], "preferCores");
}

#[rstest]
#[case::an_instance_type(
    r#"{"cpu":{"guest":2,"model":""},"memory":{"guest":"2Gi"}}"#,
    InstanceTypeKind::ClusterInstancetype
)]
#[case::a_preference(
    r#"{"cpu":{"preferredCPUTopology":"preferCores"}}"#,
    InstanceTypeKind::ClusterPreference
)]
#[case::an_empty_preference("{}", InstanceTypeKind::ClusterPreference)]
fn the_first_version_has_name_and_kind_of_the_matcher(#[case] spec: &str, #[case] kind: InstanceTypeKind) {
    let decoded = decode_copy(&copy(spec_revision(spec)), kind, "u1.small").unwrap();
    assert_eq!((decoded.object.kind, decoded.stored), (kind, StoredVersion::SpecRevision));
    assert_eq!(decoded.object.identity, small().identity, "UID and generation come from the name");
    assert_eq!(decoded.object.spec().pointer("/cpu/model"), None, "the spec is converted");
}

#[test]
fn the_first_version_may_have_no_uid() {
    let mut copy = copy(spec_revision("{}"));
    copy.name = "by-hand".to_owned();
    let decoded = decode_copy(&copy, InstanceTypeKind::Preference, "linux").unwrap();
    let identity = &decoded.object.identity;
    assert_eq!((identity.uid.as_ref(), identity.generation), (None, None));
    assert_eq!(identity.namespace.as_deref(), Some("team-a"));
}

#[test]
fn a_spec_of_the_other_family_does_not_become_the_wanted_one() {
    let decoded = decode_copy(&copy(spec_revision("{}")), KIND, "u1.small").unwrap();
    assert_eq!(decoded.object.kind, InstanceTypeKind::ClusterPreference);
    assert!(Instancetype::new(decoded.object).is_err());
}

#[rstest]
#[case::an_unknown_field(r#"{"cpu":{"guest":2},"memory":{"guest":"2Gi"},"secret":1}"#)]
#[case::an_unknown_cpu_field(r#"{"cpu":{"guest":2,"secret":1},"memory":{"guest":"2Gi"}}"#)]
#[case::a_list("[]")]
#[case::no_json("secret")]
fn a_strange_spec_is_not_quoted(#[case] spec: &str) {
    let error = decode_copy(&copy(spec_revision(spec)), KIND, "u1.small").unwrap_err();
    assert!(matches!(&error, DecodeError::SpecRevision { .. }), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[rstest]
#[case::a_set(json!({"spec": {"template": {"password": "secret"}}}), "")]
#[case::another_kind(json!({"apiVersion": "v1", "kind": "Secret", "data": {"password": "secret"}}), "v1 Secret")]
#[case::three_keys(json!({"apiVersion": "instancetype.kubevirt.io/v1alpha1", "spec": "e30=", "x": 1}), "instancetype.kubevirt.io/v1alpha1")]
#[case::another_version_of_two_keys(json!({"apiVersion": "example.com/v1", "spec": "e30="}), "example.com/v1")]
#[case::null(Value::Null, "")]
fn other_data_is_refused_by_its_kind(#[case] data: Value, #[case] found: &str) {
    let error = decode_copy(&copy(data), KIND, "u1.small").unwrap_err();
    let expected = ObjectError::OtherKind { found: found.to_owned() };
    assert_eq!(error, DecodeError::Object { revision: copy(Value::Null).name, source: expected });
    assert!(!error.to_string().contains("secret"), "{error}");
}

/// A labeled copy of `u1.small`, and who refers to it.
#[rstest]
#[case::by_spec(KIND, "u1.small", true, Ok(Acceptance::Use))]
#[case::by_status(KIND, "u1.small", false, Ok(Acceptance::Use))]
#[case::another_name_by_spec(KIND, "u1.large", true, Err(()))]
#[case::another_name_by_status(KIND, "u1.large", false, Ok(Acceptance::Stale))]
#[case::another_kind_by_spec(InstanceTypeKind::Instancetype, "u1.small", true, Err(()))]
#[case::another_kind_by_status(InstanceTypeKind::Instancetype, "u1.small", false, Err(()))]
fn a_copy_must_belong_to_the_matcher(
    #[case] kind: InstanceTypeKind,
    #[case] name: &str,
    #[case] by_spec: bool,
    #[case] expected: Result<Acceptance, ()>,
) {
    let copy = InstanceTypeCopy::of(&small(), pool(), "team-a").unwrap();
    let decoded = decode_copy(&copy, kind, name).unwrap();
    let wanted =
        ExpectedCopy { kind, name, by_spec, by_status: true, machine_uid: "uid-of-db0", machine_name: "db0" };
    let result = accept_copy(&copy, &decoded, &wanted);
    if let Err(error) = &result {
        assert_eq!(error.found, "VirtualMachineClusterInstancetype \"u1.small\"");
        assert_eq!(error.wanted, format!("{kind} {name:?}"));
    }
    assert_eq!(result.map_err(drop), expected);
}

#[rstest]
#[case::the_name(labels::NAME, "u1.large", false)]
#[case::the_uid(labels::UID, "00000000-3d0c-4a53-9f1e-0a1b2c3d4e5f", false)]
#[case::the_generation(labels::GENERATION, "9", false)]
#[case::no_uid(labels::UID, "", true)]
fn labels_cannot_pass_off_one_object_as_another(
    #[case] label: &str,
    #[case] value: &str,
    #[case] accepted: bool,
) {
    let mut copy = InstanceTypeCopy::of(&small(), owner(), "team-a").unwrap();
    copy.labels.insert(label.to_owned(), value.to_owned());
    let name = if label == labels::NAME { value } else { "u1.small" };
    let decoded = decode_copy(&copy, KIND, name).unwrap();
    let wanted = ExpectedCopy {
        kind: KIND,
        name,
        by_spec: true,
        by_status: true,
        machine_uid: "uid-of-db0",
        machine_name: "db0",
    };
    assert_eq!(accept_copy(&copy, &decoded, &wanted).is_ok(), accepted);
}

#[test]
fn an_older_version_is_upgraded() {
    let mut copy = InstanceTypeCopy::of(&small(), owner(), "team-a").unwrap();
    copy.labels.insert(labels::VERSION.to_owned(), "v1alpha2".to_owned());
    let decoded = decode_copy(&copy, KIND, "u1.small").unwrap();
    let wanted = ExpectedCopy {
        kind: KIND,
        name: "u1.small",
        by_spec: false,
        by_status: true,
        machine_uid: "x",
        machine_name: "db0",
    };
    assert_eq!(accept_copy(&copy, &decoded, &wanted), Ok(Acceptance::Upgrade));
}

/// A copy without labels, which the first versions of KubeVirt wrote.
#[rstest]
#[case::in_status(true, false, "uid-of-db0", "u1.small", Ok(Acceptance::Upgrade))]
#[case::in_both(true, true, "uid-of-db0", "u1.small", Ok(Acceptance::Upgrade))]
#[case::in_the_spec_alone(false, true, "uid-of-db0", "u1.small", Err(()))]
#[case::of_another_machine(true, false, "uid-of-db1", "u1.small", Err(()))]
#[case::after_a_rename(true, false, "uid-of-db0", "u1.large", Ok(Acceptance::Stale))]
#[case::of_another_name_by_spec(true, true, "uid-of-db0", "u1.large", Err(()))]
fn an_unlabeled_copy_must_be_recorded_and_owned(
    #[case] by_status: bool,
    #[case] by_spec: bool,
    #[case] machine_uid: &str,
    #[case] name: &str,
    #[case] expected: Result<Acceptance, ()>,
) {
    let spec = json!({"cpu": {"guest": 2}, "memory": {"guest": "2Gi"}});
    let copy = copy(alpha("v1alpha2", KIND.as_str(), spec));
    let decoded = decode_copy(&copy, KIND, name).unwrap();
    let wanted = ExpectedCopy { kind: KIND, name, by_spec, by_status, machine_uid, machine_name: "db0" };
    assert_eq!(accept_copy(&copy, &decoded, &wanted).map_err(drop), expected);
}

fn upgraded(copy: &InstanceTypeCopy) -> CopyUpgrade {
    plan_copy_upgrade(copy, &decode_copy(copy, KIND, "u1.small").unwrap(), &owner())
}

#[test]
fn a_current_copy_is_left_alone() {
    assert_eq!(upgraded(&InstanceTypeCopy::of(&small(), owner(), "team-a").unwrap()), CopyUpgrade::Current);
}

#[rstest]
#[case::v1alpha2(alpha("v1alpha2", KIND.as_str(), json!({"cpu": {"guest": 2, "model": ""}, "memory": {"guest": "2Gi"}})))]
#[case::the_first_version(spec_revision(r#"{"cpu":{"guest":2,"model":""},"memory":{"guest":"2Gi"}}"#))]
#[case::without_labels(small().document().clone())]
fn an_old_copy_is_replaced_by_a_current_one(#[case] data: Value) {
    let CopyUpgrade::Replace(new) = upgraded(&copy(data)) else { panic!("the stash is old") };
    let current = InstanceTypeCopy::of(&small(), owner(), "team-a").unwrap();
    assert_eq!((&new.name, &new.labels, &new.owners), (&current.name, &current.labels, &current.owners));
    assert_eq!(new.data["spec"], current.data["spec"]);
    assert_eq!(upgraded(&new), CopyUpgrade::Current);
}

#[test]
fn without_uid_the_new_copy_is_named_after_the_old_one() {
    let mut old = copy(spec_revision(r#"{"cpu":{"guest":2},"memory":{"guest":"2Gi"}}"#));
    old.name = "by-hand".to_owned();
    let CopyUpgrade::Replace(new) = upgraded(&old) else { panic!("the stash is old") };
    assert_eq!(new.name, "by-hand-v1beta1");
    assert!(!new.labels.contains_key(labels::UID) && !new.labels.contains_key(labels::GENERATION));
    assert_eq!(new.labels[labels::VERSION], "v1beta1");
    assert_eq!(upgraded(&new), CopyUpgrade::Current);
}

#[rstest]
#[case::of_a_pool(vec![pool()])]
#[case::of_a_pool_and_a_detached_machine(vec![pool(), CopyOwner { controller: false, ..owner() }])]
#[case::of_two_machines(vec![owner(), CopyOwner::machine("db1", "uid-of-db1")])]
fn a_shared_copy_is_never_upgraded(#[case] owners: Vec<CopyOwner>) {
    let data = alpha("v1alpha2", KIND.as_str(), json!({"cpu": {"guest": 2}, "memory": {"guest": "2Gi"}}));
    let copy = InstanceTypeCopy { owners, ..copy(data) };
    assert!(copy.is_shared());
    assert_eq!(upgraded(&copy), CopyUpgrade::Shared);
}
