mod matcher;

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::fields::CauseReason;
use crate::testing::{self, instancetype_json};

fn report(kind: &str, spec: Value) -> ValidationReport {
    validate_object(
        &InstanceTypeObject::read(testing::instancetype_document(kind, "u1", spec)).unwrap(),
        None,
    )
}

fn fields(report: &ValidationReport) -> Vec<&str> {
    assert!(report.causes.iter().all(|cause| cause.reason == CauseReason::FieldValueInvalid));
    report.causes.iter().map(|cause| cause.field.as_str()).collect()
}

#[rstest]
#[case::the_least(json!({}), &[])]
#[case::overcommit_0(json!({"memory": {"overcommitPercent": 0}}), &[])]
#[case::overcommit_100(json!({"memory": {"overcommitPercent": 100}}), &[])]
#[case::overcommit_101(json!({"memory": {"overcommitPercent": 101}}), &["spec.memory.overcommitPercent"])]
#[case::negative_overcommit(json!({"memory": {"overcommitPercent": -1}}), &["spec.memory.overcommitPercent"])]
#[case::overcommit_of_huge_pages(json!({"memory": {"overcommitPercent": 1, "hugepages": {"pageSize": "2Mi"}}}),
    &["spec.memory.overcommitPercent"])]
#[case::huge_pages(json!({"memory": {"overcommitPercent": 0, "hugepages": {"pageSize": "2Mi"}}}), &[])]
#[case::no_vcpus(json!({"cpu": {"guest": 0}}), &["spec.cpu.guest"])]
#[case::no_memory(json!({"memory": {"guest": 0}}), &["spec.memory.guest"])]
#[case::negative_memory(json!({"memory": {"guest": "-1Gi"}}), &["spec.memory.guest"])]
#[case::a_maximum(json!({"memory": {"maxGuest": "2048Mi"}}), &[])]
#[case::a_maximum_below_the_memory(json!({"memory": {"maxGuest": "2047Mi"}}), &["spec.memory.maxGuest"])]
#[case::several(json!({"cpu": {"guest": 0}, "memory": {"guest": 0}}), &["spec.cpu.guest", "spec.memory.guest"])]
#[case::a_malformed_field(json!({"memory": {"guest": "much"}}), &["spec.memory.guest"])]
fn validates_instance_types(#[case] more: Value, #[case] expected: &[&str]) {
    for kind in ["VirtualMachineInstancetype", "VirtualMachineClusterInstancetype"] {
        assert_eq!(fields(&report(kind, instancetype_json(more.clone()))), expected);
    }
}

#[test]
fn launch_security_of_an_instance_type_gives_one_warning() {
    let report =
        report("VirtualMachineInstancetype", instancetype_json(json!({"launchSecurity": {"sev": {}}})));
    assert_eq!((report.causes.len(), report.warnings.len()), (0, 1));
    assert!(report.warnings[0].contains("preferredLaunchSecurity"), "{:?}", report.warnings);
}

#[rstest]
#[case::empty(json!({}), &[])]
#[case::unknown_topology(json!({"preferredCPUTopology": "sideways"}), &["spec.cpu.preferredCPUTopology"])]
#[case::unknown_across(json!({"preferredCPUTopology": "spread", "spreadOptions": {"across": "Nowhere"}}), &["spec.cpu.spreadOptions.across"])]
#[case::threads_ratio(json!({"preferredCPUTopology": "spread", "spreadOptions": {"across": "CoresThreads", "ratio": 3}}), &["spec.cpu.spreadOptions.ratio"])]
#[case::zero_ratio(json!({"preferredCPUTopology": "spread", "spreadOptions": {"ratio": 0}}), &["spec.cpu.spreadOptions.ratio"])]
#[case::not_spread(json!({"preferredCPUTopology": "cores", "spreadOptions": {"across": "Nowhere", "ratio": 0}}), &[])]
#[case::a_malformed_field(json!({"preferredCPUTopology": 1}), &["spec.cpu.preferredCPUTopology"])]
fn validates_preferences(#[case] cpu: Value, #[case] expected: &[&str]) {
    for kind in ["VirtualMachinePreference", "VirtualMachineClusterPreference"] {
        assert_eq!(fields(&report(kind, json!({ "cpu": cpu }))), expected);
    }
}

#[rstest]
#[case::sockets("preferSockets", "sockets")]
#[case::cores("preferCores", "cores")]
#[case::threads("preferThreads", "threads")]
#[case::spread("preferSpread", "spread")]
#[case::any("preferAny", "any")]
fn an_old_topology_gives_one_warning_with_its_replacement(#[case] old: &str, #[case] new: &str) {
    let warned = report("VirtualMachinePreference", json!({"cpu": {"preferredCPUTopology": old}}));
    assert!(warned.causes.is_empty());
    assert_eq!(warned.warnings.len(), 1);
    assert!(warned.warnings[0].ends_with(&format!("use {new}")), "{:?}", warned.warnings);
    let current = report("VirtualMachinePreference", json!({"cpu": {"preferredCPUTopology": new}}));
    assert_eq!(current, ValidationReport::default());
}

#[rstest]
#[case::the_longest(63, &[])]
#[case::too_long(64, &["metadata.name"])]
fn names_fit_into_a_label_value(#[case] length: usize, #[case] expected: &[&str]) {
    for kind in crate::model::InstanceTypeKind::ALL {
        let spec = instancetype_json(json!({}));
        let document = testing::instancetype_document(kind.as_str(), &"n".repeat(length), spec);
        let report = validate_object(&InstanceTypeObject::read(document).unwrap(), None);
        assert_eq!(fields(&report), expected);
    }
}

#[test]
fn an_update_is_validated_if_it_changes_the_spec() {
    let read = |cpus| {
        let spec = instancetype_json(json!({"cpu": {"guest": cpus}}));
        InstanceTypeObject::read(testing::instancetype_document(
            "VirtualMachineInstancetype",
            &"n".repeat(64),
            spec,
        ))
        .unwrap()
    };
    let (stored, mut relabeled) = (read(0), read(0).document().clone());
    relabeled["metadata"]["finalizers"] = json!([]);
    assert_eq!(
        validate_object(&InstanceTypeObject::read(relabeled).unwrap(), Some(&stored)),
        ValidationReport::default()
    );
    assert_eq!(fields(&validate_object(&stored, Some(&read(1)))), ["metadata.name", "spec.cpu.guest"]);
}
