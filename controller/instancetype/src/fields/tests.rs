use rstest::rstest;

use super::*;

#[rstest]
#[case::of_a_machine(
    MachineLocation::VirtualMachine,
    "spec.template.spec.domain.cpu",
    "spec.preference.name"
)]
#[case::of_a_pool(
    MachineLocation::Pool,
    "spec.virtualMachineTemplate.spec.template.spec.domain.cpu",
    "spec.virtualMachineTemplate.spec.preference.name"
)]
#[case::of_an_instance(MachineLocation::Instance, "spec.domain.cpu", "spec.preference.name")]
fn paths_start_at_the_object_of_the_request(
    #[case] location: MachineLocation,
    #[case] instance: &str,
    #[case] matcher: &str,
) {
    assert_eq!(location.instance_field("domain.cpu"), instance);
    assert_eq!(location.matcher_field(TypeFamily::Preference, "name"), matcher);
}

#[test]
fn a_matcher_without_a_field_is_the_matcher() {
    assert_eq!(
        MachineLocation::VirtualMachine.matcher_field(TypeFamily::Instancetype, ""),
        "spec.instancetype"
    );
}

#[rstest]
#[case::of_a_machine(MachineLocation::VirtualMachine, "spec.template.spec.domain", "spec.preference")]
#[case::of_a_pool(
    MachineLocation::Pool,
    "spec.virtualMachineTemplate.spec.template.spec.domain",
    "spec.virtualMachineTemplate.spec.preference"
)]
#[case::of_an_instance(MachineLocation::Instance, "spec.domain", "spec.preference")]
fn an_error_in_the_json_names_the_whole_path(
    #[case] location: MachineLocation,
    #[case] template: &str,
    #[case] machine: &str,
) {
    assert_eq!(location.in_template(Malformed::new("spec.domain", "an object")).path, template);
    let cause = StatusCause::from(location.in_machine(Malformed::new("spec.preference", "an object")));
    assert_eq!(cause.field, machine);
    assert_eq!(cause.message, format!("{machine} must be an object"));
}

#[test]
fn a_cause_has_the_form_of_kubernetes() {
    let json = serde_json::to_value(StatusCause::not_found("spec.a", "missing")).unwrap();
    let expected =
        serde_json::json!({"reason": "FieldValueNotFound", "message": "missing", "field": "spec.a"});
    assert_eq!(json, expected);
}
