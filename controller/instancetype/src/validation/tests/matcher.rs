use super::*;
use crate::fields::MachineLocation;
use crate::model::{TypeFamily, TypeMatcher};

fn read(matcher: &Value) -> TypeMatcher {
    let machine = json!({"spec": {"preference": matcher}});
    TypeMatcher::of_machine(&machine, TypeFamily::Preference).unwrap().unwrap()
}

#[rstest]
#[case::a_name(json!({"name": "a"}), None)]
#[case::a_name_and_a_kind(json!({"name": "a", "kind": "VirtualMachinePreference"}), None)]
#[case::an_unknown_kind_is_an_error_at_lookup(json!({"name": "a", "kind": "Secret"}), None)]
#[case::a_volume(json!({"inferFromVolume": "root", "inferFromVolumeFailurePolicy": "Ignore"}), None)]
#[case::nothing(json!({}), Some((CauseReason::FieldValueNotFound, "spec.preference")))]
#[case::a_revision_alone(json!({"revisionName": "r"}), Some((CauseReason::FieldValueNotFound, "spec.preference")))]
#[case::a_volume_and_a_name(json!({"inferFromVolume": "root", "name": "a"}),
    Some((CauseReason::FieldValueNotSupported, "spec.preference.name")))]
#[case::a_volume_and_a_kind(json!({"inferFromVolume": "root", "kind": "VirtualMachinePreference"}),
    Some((CauseReason::FieldValueNotSupported, "spec.preference.kind")))]
#[case::an_unknown_policy(json!({"inferFromVolume": "root", "inferFromVolumeFailurePolicy": "Never"}),
    Some((CauseReason::FieldValueInvalid, "spec.preference.inferFromVolumeFailurePolicy")))]
fn validates_new_matchers(#[case] new: Value, #[case] expected: Option<(CauseReason, &str)>) {
    let causes = validate_matcher(TypeFamily::Preference, &read(&new), None, MachineLocation::VirtualMachine);
    let found: Vec<_> = causes.iter().map(|cause| (cause.reason, cause.field.as_str())).collect();
    assert_eq!(found, Vec::from_iter(expected));
}

#[rstest]
#[case::the_name_alone(json!({"name": "b", "revisionName": "r"}), true)]
#[case::name_and_revision(json!({"name": "b", "revisionName": "s"}), false)]
#[case::the_revision_is_removed(json!({"name": "b"}), false)]
#[case::the_revision_alone(json!({"name": "a", "revisionName": "s"}), false)]
#[case::nothing(json!({"name": "a", "revisionName": "r"}), false)]
fn a_changed_name_needs_a_changed_revision(#[case] new: Value, #[case] refused: bool) {
    let old = read(&json!({"name": "a", "revisionName": "r"}));
    let causes = validate_matcher(TypeFamily::Preference, &read(&new), Some(&old), MachineLocation::Pool);
    let fields: Vec<_> = causes.iter().map(|cause| (cause.reason, cause.field.as_str())).collect();
    let expected =
        (CauseReason::FieldValueInvalid, "spec.virtualMachineTemplate.spec.preference.revisionName");
    assert_eq!(fields, Vec::from_iter(refused.then_some(expected)));
}

#[test]
fn a_name_may_change_without_a_revision() {
    let (old, new) = (read(&json!({"name": "a"})), read(&json!({"name": "b"})));
    assert!(
        validate_matcher(TypeFamily::Preference, &new, Some(&old), MachineLocation::VirtualMachine)
            .is_empty()
    );
}
