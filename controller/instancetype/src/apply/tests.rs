//! What is written where. Conflicts and topologies have tables of their own.

mod devices;
mod firmware;
mod instancetype;
mod preference;

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::testing::{instancetype, preference};

/// The spec of an instance after a preference was applied.
fn preferred(spec: Value, preferences: Value) -> Value {
    let template = InstanceTemplate::new(json!({ "spec": spec })).unwrap();
    let preference = preference(preferences);
    let applied = apply(&template, None, Some(&preference), Location::VirtualMachine).unwrap();
    applied.spec().clone()
}

#[test]
fn without_instance_type_and_preference_nothing_changes() {
    let template =
        InstanceTemplate::new(json!({"spec": {"domain": {"devices": {"disks": [{"name": "a"}]}}}})).unwrap();
    assert_eq!(apply(&template, None, None, Location::Instance), Ok(template));
}

#[test]
fn the_instance_type_is_applied_before_the_preference() {
    let template = InstanceTemplate::new(json!({"spec": {}})).unwrap();
    let instancetype =
        instancetype(json!({"annotations": {"a": "type", "b": "type"}, "launchSecurity": {"sev": {}}}));
    let preference = preference(json!({
        "annotations": {"b": "preference", "c": "preference"},
        "preferredLaunchSecurity": {"tdx": {}},
        "cpu": {"preferredCPUTopology": "cores"},
    }));
    let applied = apply(&template, Some(&instancetype), Some(&preference), Location::Instance).unwrap();
    let annotations = json!({"a": "type", "b": "type", "c": "preference"});
    assert_eq!(applied.as_value()["metadata"]["annotations"], annotations);
    assert_eq!(applied.spec()["domain"]["launchSecurity"], json!({"sev": {}}));
    assert_eq!(applied.spec()["domain"]["cpu"], json!({"sockets": 1, "cores": 2, "threads": 1}));
}

#[test]
fn a_conflict_applies_nothing() {
    let template = InstanceTemplate::new(json!({"spec": {"domain": {"memory": {"guest": "1Gi"}}}})).unwrap();
    let preference = preference(json!({"preferredSubdomain": "sub"}));
    let error =
        apply(&template, Some(&instancetype(json!({}))), Some(&preference), Location::Instance).unwrap_err();
    let ApplyError::Conflicts(conflicts) = &error else { panic!("{error}") };
    assert_eq!(conflicts.paths(), ["spec.domain.memory.guest"]);
    assert_eq!(error.causes()[0].field, "spec.domain.memory.guest");
}

#[test]
fn an_uneven_spread_is_an_error_before_conflicts() {
    let template = InstanceTemplate::new(json!({"spec": {"domain": {"memory": {"guest": "1Gi"}}}})).unwrap();
    let instancetype = instancetype(json!({"cpu": {"guest": 3}}));
    let preference = preference(json!({"cpu": {"preferredCPUTopology": "spread"}}));
    let error = apply(&template, Some(&instancetype), Some(&preference), Location::Instance).unwrap_err();
    assert_eq!(error, ApplyError::Topology(TopologyError::Indivisible { guest: 3, divisor: 2 }));
    assert_eq!(error.causes()[0].field, "instancetype.spec.cpu.guest");
}

#[rstest]
#[case::in_the_spec(json!({"spec": {"domain": {"devices": {"disks": {}}}}}), "spec.template.spec.domain.devices.disks")]
#[case::in_an_item(json!({"spec": {"domain": {"devices": {"disks": [{"disk": 1}]}}}}), "spec.template.spec.domain.devices.disks[0].disk")]
fn a_malformed_machine_is_an_error_with_the_whole_path(#[case] template: Value, #[case] path: &str) {
    let template = InstanceTemplate::new(template).unwrap();
    let preference = preference(json!({"devices": {}}));
    let error = apply(&template, None, Some(&preference), Location::VirtualMachine).unwrap_err();
    assert_eq!(error.causes()[0].field, path);
}

#[test]
fn unknown_fields_are_kept() {
    let template = json!({"future": 1, "metadata": {"labels": {"a": "b"}}, "spec": {"future": [1], "domain": {
        "future": {}, "cpu": {"future": true}, "devices": {"disks": [{"name": "a", "future": "x", "disk": {"future": 1}}]},
    }}});
    let applied = apply(
        &InstanceTemplate::new(template).unwrap(),
        Some(&instancetype(json!({"gpus": [{"name": "a", "future": 1}]}))),
        Some(&preference(
            json!({"devices": {"preferredTPM": {"future": 2}, "preferredDiskBus": "sata"}, "features": {
            "preferredHyperv": {"futureEnlightenment": {}}}}),
        )),
        Location::VirtualMachine,
    );
    let expected = json!({"future": 1, "metadata": {"labels": {"a": "b"}}, "spec": {"future": [1], "domain": {
        "future": {},
        "cpu": {"future": true, "sockets": 2, "cores": 1, "threads": 1},
        "memory": {"guest": "2Gi"},
        "features": {"hyperv": {"futureEnlightenment": {}}},
        "devices": {
            "disks": [{"name": "a", "future": "x", "disk": {"future": 1, "bus": "sata"}}],
            "gpus": [{"name": "a", "future": 1}],
            "tpm": {"future": 2},
        },
    }}});
    assert_eq!(applied.unwrap().into_value(), expected);
}

#[rstest]
#[case::in_a_namespace("VirtualMachineInstancetype", "VirtualMachinePreference",
    json!({"kubevirt.io/instancetype-name": "u1", "kubevirt.io/preference-name": "linux"}))]
#[case::in_the_cluster("VirtualMachineClusterInstancetype", "VirtualMachineClusterPreference",
    json!({"kubevirt.io/cluster-instancetype-name": "u1", "kubevirt.io/cluster-preference-name": "linux"}))]
fn annotations_name_what_was_used(
    #[case] instancetype: &str,
    #[case] preference: &str,
    #[case] expected: Value,
) {
    let types =
        crate::testing::types(Some((instancetype, "u1", json!({}))), Some((preference, "linux", json!({}))));
    let mut template = InstanceTemplate::new(json!({"spec": {}})).unwrap();
    annotate(&mut template, &types).unwrap();
    assert_eq!(template.into_value(), json!({"metadata": {"annotations": expected}, "spec": {}}));
}
