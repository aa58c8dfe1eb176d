use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::testing::typed_preference_spec;

fn filled(mut machine: Value) -> Value {
    let preference = typed_preference_spec(json!({
        "preferredArchitecture": "arm64",
        "machine": {"preferredMachineType": "virt"},
        "volumes": {"preferredStorageClassName": "fast"},
        "preferredSubdomain": "not-at-admission",
    }));
    fill_machine_from_preference(&mut machine, &preference, MachineLocation::VirtualMachine).unwrap();
    machine
}

#[test]
fn architecture_and_machine_type_are_filled() {
    let spec = json!({"architecture": "arm64", "domain": {"machine": {"type": "virt"}}});
    assert_eq!(filled(json!({"spec": {}})), json!({"spec": {"template": {"spec": spec}}}));
    let mine = json!({"architecture": "amd64", "domain": {"machine": {"type": "q35"}}});
    let mine = json!({"spec": {"template": {"spec": mine}}});
    assert_eq!(filled(mine.clone()), mine);
}

#[rstest]
#[case::claim(json!({"pvc": {}}), json!({"pvc": {"storageClassName": "fast"}}))]
#[case::storage(json!({"storage": {}}), json!({"storage": {"storageClassName": "fast"}}))]
#[case::set(json!({"storage": {"storageClassName": "slow"}}), json!({"storage": {"storageClassName": "slow"}}))]
#[case::no_class_is_a_choice(json!({"storage": {"storageClassName": ""}}), json!({"storage": {"storageClassName": ""}}))]
#[case::neither(json!({"source": {}}), json!({"source": {}}))]
fn storage_classes_are_filled(#[case] before: Value, #[case] after: Value) {
    let machine = json!({"spec": {"dataVolumeTemplates": [{"spec": before}]}});
    assert_eq!(filled(machine)["spec"]["dataVolumeTemplates"], json!([{"spec": after}]));
}

#[test]
fn a_malformed_machine_cannot_be_filled() {
    let mut machine = json!({"spec": {"template": []}});
    let error = fill_machine_from_preference(
        &mut machine,
        &typed_preference_spec(json!({"preferredArchitecture": "arm64"})),
        MachineLocation::Pool,
    )
    .unwrap_err();
    assert_eq!(error.path, "spec.virtualMachineTemplate.spec.template");
}
