//! What is written where. Conflicts and topologies have tables of their own.

mod devices;
mod firmware;
mod instancetype;
mod preference;

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::testing::{typed_instancetype_spec, typed_preference_spec};

/// The spec of an instance after a preference was applied.
fn preferred(spec: Value, preferences: Value) -> Value {
    let template = InstanceTemplate::new(json!({ "spec": spec })).unwrap();
    let preference = typed_preference_spec(preferences);
    let applied = apply_instancetype_and_preference(
        &template,
        None,
        Some(&preference),
        MachineLocation::VirtualMachine,
    )
    .unwrap();
    applied.spec().clone()
}

#[test]
fn without_instance_type_and_preference_nothing_changes() {
    let template =
        InstanceTemplate::new(json!({"spec": {"domain": {"devices": {"disks": [{"name": "a"}]}}}})).unwrap();
    assert_eq!(
        apply_instancetype_and_preference(&template, None, None, MachineLocation::Instance),
        Ok(template)
    );
}

#[test]
fn the_instance_type_is_applied_before_the_preference() {
    let template = InstanceTemplate::new(json!({"spec": {}})).unwrap();
    let instancetype = typed_instancetype_spec(
        json!({"annotations": {"a": "type", "b": "type"}, "launchSecurity": {"sev": {}}}),
    );
    let preference = typed_preference_spec(json!({
        "annotations": {"b": "preference", "c": "preference"},
        "preferredLaunchSecurity": {"tdx": {}},
        "cpu": {"preferredCPUTopology": "cores"},
    }));
    let applied = apply_instancetype_and_preference(
        &template,
        Some(&instancetype),
        Some(&preference),
        MachineLocation::Instance,
    )
    .unwrap();
    let annotations = json!({"a": "type", "b": "type", "c": "preference"});
    assert_eq!(applied.as_value()["metadata"]["annotations"], annotations);
    assert_eq!(applied.spec()["domain"]["launchSecurity"], json!({"sev": {}}));
    assert_eq!(applied.spec()["domain"]["cpu"], json!({"sockets": 1, "cores": 2, "threads": 1}));
}

#[test]
fn a_conflict_applies_nothing() {
    let template = InstanceTemplate::new(json!({"spec": {"domain": {"memory": {"guest": "1Gi"}}}})).unwrap();
    let preference = typed_preference_spec(json!({"preferredSubdomain": "sub"}));
    let error = apply_instancetype_and_preference(
        &template,
        Some(&typed_instancetype_spec(json!({}))),
        Some(&preference),
        MachineLocation::Instance,
    )
    .unwrap_err();
    let ApplyError::Conflicts(conflicts) = &error else { panic!("{error}") };
    assert_eq!(conflicts.paths(), ["spec.domain.memory.guest"]);
    assert_eq!(error.causes()[0].field, "spec.domain.memory.guest");
}

#[test]
fn an_uneven_spread_is_an_error_before_conflicts() {
    let template = InstanceTemplate::new(json!({"spec": {"domain": {"memory": {"guest": "1Gi"}}}})).unwrap();
    let instancetype = typed_instancetype_spec(json!({"cpu": {"guest": 3}}));
    let preference = typed_preference_spec(json!({"cpu": {"preferredCPUTopology": "spread"}}));
    let error = apply_instancetype_and_preference(
        &template,
        Some(&instancetype),
        Some(&preference),
        MachineLocation::Instance,
    )
    .unwrap_err();
    assert_eq!(error, ApplyError::Topology(TopologyError::Indivisible { guest: 3, divisor: 2 }));
    assert_eq!(error.causes()[0].field, "instancetype.spec.cpu.guest");
}

#[rstest]
#[case::in_the_spec(json!({"spec": {"domain": {"devices": {"disks": {}}}}}), "spec.template.spec.domain.devices.disks")]
#[case::in_an_item(json!({"spec": {"domain": {"devices": {"disks": [{"disk": 1}]}}}}), "spec.template.spec.domain.devices.disks[0].disk")]
fn a_malformed_machine_is_an_error_with_the_whole_path(#[case] template: Value, #[case] path: &str) {
    let template = InstanceTemplate::new(template).unwrap();
    let preference = typed_preference_spec(json!({"devices": {}}));
    let error = apply_instancetype_and_preference(
        &template,
        None,
        Some(&preference),
        MachineLocation::VirtualMachine,
    )
    .unwrap_err();
    assert_eq!(error.causes()[0].field, path);
}

#[test]
fn unknown_fields_are_kept() {
    let template = json!({"future": 1, "metadata": {"labels": {"a": "b"}}, "spec": {"future": [1], "domain": {
        "future": {}, "cpu": {"future": true}, "devices": {"disks": [{"name": "a", "future": "x", "disk": {"future": 1}}]},
    }}});
    let applied = apply_instancetype_and_preference(
        &InstanceTemplate::new(template).unwrap(),
        Some(&typed_instancetype_spec(json!({"gpus": [{"name": "a", "future": 1}]}))),
        Some(&typed_preference_spec(
            json!({"devices": {"preferredTPM": {"future": 2}, "preferredDiskBus": "sata"}, "features": {
            "preferredHyperv": {"futureEnlightenment": {}}}}),
        )),
        MachineLocation::VirtualMachine,
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
    let types = crate::testing::types_from_sketches(
        Some((instancetype, "u1", json!({}))),
        Some((preference, "linux", json!({}))),
    );
    let mut template = InstanceTemplate::new(json!({"spec": {}})).unwrap();
    add_name_annotations(&mut template, &types).unwrap();
    assert_eq!(template.into_value(), json!({"metadata": {"annotations": expected}, "spec": {}}));
}
