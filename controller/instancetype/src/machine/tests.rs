use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::testing::types_from_sketches;

fn machine(instancetype: Value, template: Value) -> Value {
    json!({"spec": {"instancetype": instancetype, "template": {"spec": template}}})
}

fn u1() -> InstanceTypeAndPreference {
    types_from_sketches(Some(("VirtualMachineClusterInstancetype", "u1", json!({}))), None)
}

fn fields(report: &ValidationReport) -> Vec<&str> {
    report.causes.iter().map(|cause| cause.field.as_str()).collect()
}

fn validated(new: &Value, old: Option<&Value>, types: &InstanceTypeAndPreference) -> ValidationReport {
    let named = NamedTypes { types: types.clone(), unusable: Vec::new() };
    validate_machine(new, old, &named, &InstanceSettings::default(), MachineLocation::VirtualMachine)
}

#[test]
fn a_machine_without_conflict_is_accepted() {
    let report = validated(&machine(json!({"name": "u1"}), json!({})), None, &u1());
    assert_eq!(report, ValidationReport::default());
}

#[test]
fn a_conflict_is_refused() {
    let machine = machine(json!({"name": "u1"}), json!({"domain": {"memory": {"guest": "1Gi"}}}));
    assert_eq!(fields(&validated(&machine, None, &u1())), ["spec.template.spec.domain.memory.guest"]);
}

#[test]
fn an_uneven_spread_is_refused() {
    let types = types_from_sketches(
        Some(("VirtualMachineClusterInstancetype", "u1", json!({"cpu": {"guest": 3}}))),
        Some(("VirtualMachineClusterPreference", "p", json!({"cpu": {"preferredCPUTopology": "spread"}}))),
    );
    let mut machine = machine(json!({"name": "u1"}), json!({}));
    machine["spec"]["preference"] = json!({"name": "p"});
    assert_eq!(fields(&validated(&machine, None, &types)), ["instancetype.spec.cpu.guest"]);
}

#[test]
fn requirements_are_checked_after_defaults() {
    let types = types_from_sketches(
        None,
        Some(("VirtualMachineClusterPreference", "p", json!({"requirements": {"architecture": "arm64"}}))),
    );
    let machine = json!({"spec": {"preference": {"name": "p"}}});
    let architecture = |name: &str| {
        let defaults =
            crate::defaults::InstanceDefaults { architecture: name.to_owned(), ..Default::default() };
        let settings = InstanceSettings { interface: None, defaults: Some(defaults) };
        validate_machine(
            &machine,
            None,
            &NamedTypes { types: types.clone(), unusable: Vec::new() },
            &settings,
            MachineLocation::VirtualMachine,
        )
    };
    assert_eq!(fields(&architecture("amd64")), ["spec.template.spec.architecture"]);
    assert!(architecture("arm64").causes.is_empty());
}

#[test]
fn a_missing_object_gives_a_warning() {
    let mut machine = machine(json!({"name": "u1"}), json!({}));
    machine["spec"]["preference"] = json!({"name": "p"});
    let report = validated(&machine, None, &InstanceTypeAndPreference::default());
    assert!(report.causes.is_empty());
    assert_eq!(report.warnings.len(), 2);
    assert!(report.warnings[0].contains("instance type \"u1\" was not found"), "{:?}", report.warnings);
    let found = validated(&machine, None, &u1());
    assert_eq!(found.warnings.len(), 1);
}

#[test]
fn an_object_that_was_not_read_gives_a_warning_with_the_reason() {
    let named = NamedTypes {
        types: InstanceTypeAndPreference::default(),
        unusable: vec![(TypeFamily::Instancetype, "etcd is slow".to_owned())],
    };
    let machine = machine(json!({"name": "u1"}), json!({"domain": {"memory": {"guest": "1Gi"}}}));
    let report = validate_machine(
        &machine,
        None,
        &named,
        &InstanceSettings::default(),
        MachineLocation::VirtualMachine,
    );
    let warning = "the instance type \"u1\" was not checked: etcd is slow".to_owned();
    assert_eq!(report, ValidationReport { causes: Vec::new(), warnings: vec![warning] });
}

#[test]
fn a_conflict_names_the_field_and_the_instance_type() {
    let machine = machine(json!({"name": "u1"}), json!({"domain": {"memory": {"guest": "1Gi"}}}));
    let message = "VirtualMachineClusterInstancetype \"u1\" sets spec.template.spec.domain.memory.guest, \
                   and it does not merge; remove the field";
    assert_eq!(validated(&machine, None, &u1()).causes[0].message, message);
}

#[rstest]
#[case::another_run_strategy("runStrategy", json!("Halted"), 0)]
#[case::another_preference("preference", json!({"name": "p"}), 1)]
#[case::another_template("template", json!({"spec": {"domain": {"memory": {"guest": "2Gi"}}}}), 1)]
fn an_update_is_checked_if_it_concerns_the_types(
    #[case] field: &str,
    #[case] value: Value,
    #[case] causes: usize,
) {
    // The type was changed after the machine was stored, so that it conflicts now.
    let old = machine(json!({"name": "u1"}), json!({"domain": {"memory": {"guest": "1Gi"}}}));
    let mut new = old.clone();
    new["spec"][field] = value;
    assert_eq!(validated(&new, Some(&old), &u1()).causes.len(), causes);
}

#[test]
fn a_found_object_is_checked_although_the_other_is_missing() {
    let mut machine = machine(json!({"name": "u1"}), json!({"domain": {"memory": {"guest": "1Gi"}}}));
    machine["spec"]["preference"] = json!({"name": "p"});
    assert_eq!(validated(&machine, None, &u1()).causes.len(), 1);
}

#[test]
fn matchers_are_validated_on_update() {
    let old = machine(json!({"name": "u1", "revisionName": "r"}), json!({}));
    let new = machine(json!({"name": "u2", "revisionName": "r"}), json!({}));
    assert_eq!(
        fields(&validated(&new, Some(&old), &InstanceTypeAndPreference::default())),
        ["spec.instancetype.revisionName"]
    );
    assert!(validated(&new, None, &InstanceTypeAndPreference::default()).causes.is_empty());
}

#[rstest]
#[case::added(json!({"spec": {}}), machine(json!({"name": "u1"}), json!({})))]
#[case::removed(machine(json!({"name": "u1", "revisionName": "r"}), json!({})), json!({"spec": {}}))]
fn a_matcher_may_be_added_and_removed(#[case] old: Value, #[case] new: Value) {
    assert!(validated(&new, Some(&old), &InstanceTypeAndPreference::default()).causes.is_empty());
}

#[test]
fn a_malformed_matcher_is_refused() {
    let report = validated(&machine(json!("u1"), json!({})), None, &InstanceTypeAndPreference::default());
    assert_eq!(fields(&report), ["spec.instancetype"]);
}

#[test]
fn a_machine_that_is_being_deleted_bypasses_everything() {
    let mut machine = machine(json!({}), json!({"domain": {"memory": {"guest": "1Gi"}}}));
    assert_eq!(validated(&machine, None, &u1()).causes.len(), 1);
    machine["metadata"] = json!({"deletionTimestamp": null});
    assert!(!bypasses_admission(&machine));
    machine["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(validated(&machine, None, &u1()), ValidationReport::default());
}
