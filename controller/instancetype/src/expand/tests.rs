use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::defaults::InstanceDefaults;
use crate::fields::CauseReason;
use crate::start::Binding;
use crate::testing::types_from_sketches;

const VM: MachineLocation = MachineLocation::VirtualMachine;

fn u1() -> InstanceTypeAndPreference {
    types_from_sketches(
        Some(("VirtualMachineClusterInstancetype", "u1", json!({}))),
        Some(("VirtualMachinePreference", "linux", json!({"devices": {"preferredDiskBus": "virtio"}}))),
    )
}

fn machine() -> Value {
    json!({
        "kind": "VirtualMachine",
        "metadata": {"name": "db0"},
        "spec": {
            "runStrategy": "Always",
            "instancetype": {"name": "u1"},
            "preference": {"name": "linux", "kind": "virtualmachinepreferences"},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"volumes": [{"name": "root"}]}},
        },
        "status": {"instancetypeRef": {"name": "u1"}, "preferenceRef": {"name": "linux"}, "ready": true},
    })
}

#[test]
fn a_machine_is_expanded() {
    let settings = InstanceSettings {
        interface: Some(Binding::Masquerade),
        defaults: Some(InstanceDefaults { architecture: "amd64".to_owned(), ..InstanceDefaults::default() }),
    };
    let expected = json!({
        "kind": "VirtualMachine",
        "metadata": {"name": "db0"},
        "spec": {
            "runStrategy": "Always",
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
                "architecture": "amd64",
                "networks": [{"name": "default", "pod": {}}],
                "volumes": [{"name": "root"}],
                "domain": {
                    "cpu": {"sockets": 2, "cores": 1, "threads": 1},
                    "memory": {"guest": "2Gi"},
                    "devices": {
                        "disks": [{"name": "root", "disk": {"bus": "virtio"}}],
                        "interfaces": [{"name": "default", "masquerade": {}}],
                    },
                },
            }},
        },
        "status": {"ready": true},
    });
    assert_eq!(expand_machine(&machine(), &u1(), &settings, VM), Ok(expected));
}

#[test]
fn without_defaults_only_instance_type_and_preference_are_written_out() {
    let expanded = expand_machine(&machine(), &u1(), &InstanceSettings::default(), VM).unwrap();
    let expected = json!({
        "volumes": [{"name": "root"}],
        "domain": {
            "cpu": {"sockets": 2, "cores": 1, "threads": 1},
            "memory": {"guest": "2Gi"},
            "devices": {"disks": [{"name": "root", "disk": {"bus": "virtio"}}]},
        },
    });
    assert_eq!(expanded["spec"]["template"]["spec"], expected);
}

#[test]
fn the_template_of_a_pool_is_expanded() {
    let mut template = machine();
    for field in ["kind", "status"] {
        template.as_object_mut().unwrap().remove(field);
    }
    let expanded =
        expand_machine(&template, &u1(), &InstanceSettings::default(), MachineLocation::Pool).unwrap();
    assert_eq!(expanded["spec"].get("instancetype"), None);
    assert_eq!(expanded["spec"]["template"]["spec"]["domain"]["memory"]["guest"], "2Gi");
    assert_eq!(expanded.get("status"), None, "no status is created");
}

#[rstest]
#[case::no_matchers(json!({"spec": {"template": {"spec": {"volumes": [{"name": "root"}]}}}}))]
#[case::null_matchers(json!({"spec": {"instancetype": null, "preference": null}}))]
fn a_machine_without_matchers_is_unchanged(#[case] machine: Value) {
    let settings =
        InstanceSettings { interface: Some(Binding::Bridge), defaults: Some(InstanceDefaults::default()) };
    assert_eq!(expand_machine(&machine, &InstanceTypeAndPreference::default(), &settings, VM), Ok(machine));
}

#[rstest]
#[case::missing(json!({"instancetype": {"name": "u2"}}),
    ExpandError::NotFound { family: TypeFamily::Instancetype, name: "u2".to_owned() }, "spec.instancetype.name")]
#[case::of_another_kind(json!({"instancetype": {"name": "u1", "kind": "VirtualMachineInstancetype"}}),
    ExpandError::NotFound { family: TypeFamily::Instancetype, name: "u1".to_owned() }, "spec.instancetype.name")]
#[case::of_an_unknown_kind(json!({"instancetype": {"name": "u1", "kind": "Secret"}}),
    ExpandError::UnknownKind(UnknownKind { family: TypeFamily::Instancetype, kind: "Secret".to_owned() }), "spec.instancetype.kind")]
#[case::not_inferred(json!({"instancetype": {"inferFromVolume": "root"}}),
    ExpandError::NotInferred { family: TypeFamily::Instancetype, volume: "root".to_owned() }, "spec.instancetype.inferFromVolume")]
fn a_matcher_must_name_the_given_object(
    #[case] spec: Value,
    #[case] error: ExpandError,
    #[case] field: &str,
) {
    assert_eq!(error.causes(VM)[0].field, field);
    assert_eq!(expand_machine(&json!({ "spec": spec }), &u1(), &InstanceSettings::default(), VM), Err(error));
}

#[test]
fn an_object_without_a_matcher_is_an_error() {
    let machine = json!({"spec": {"instancetype": {"name": "u1"}}});
    let error = ExpandError::NotNamed { family: TypeFamily::Preference, name: "linux".to_owned() };
    assert_eq!(expand_machine(&machine, &u1(), &InstanceSettings::default(), VM), Err(error));
}

#[test]
fn an_invalid_matcher_is_an_error() {
    let machine = json!({"spec": {"instancetype": {}}});
    let error = expand_machine(
        &machine,
        &InstanceTypeAndPreference::default(),
        &InstanceSettings::default(),
        MachineLocation::Pool,
    )
    .unwrap_err();
    assert_eq!(error.causes(MachineLocation::Pool)[0].field, "spec.virtualMachineTemplate.spec.instancetype");
    assert_eq!(error.causes(MachineLocation::Pool)[0].reason, CauseReason::FieldValueNotFound);
}

#[test]
fn a_conflict_is_an_error_with_the_paths() {
    let mut machine = machine();
    machine["spec"]["template"]["spec"]["domain"] = json!({"cpu": {"cores": 1}, "memory": {"guest": "1Gi"}});
    let error = expand_machine(&machine, &u1(), &InstanceSettings::default(), VM).unwrap_err();
    let fields: Vec<_> = error.causes(VM).into_iter().map(|cause| cause.field).collect();
    assert_eq!(fields, ["spec.template.spec.domain.cpu.cores", "spec.template.spec.domain.memory.guest"]);
    assert!(fields.iter().all(|field| error.to_string().contains(field)), "{error}");
}

#[test]
fn unmet_requirements_are_an_error() {
    let types = types_from_sketches(
        Some(("VirtualMachineClusterInstancetype", "u1", json!({}))),
        Some(("VirtualMachinePreference", "linux", json!({"requirements": {"cpu": {"guest": 3}}}))),
    );
    let error = expand_machine(&machine(), &types, &InstanceSettings::default(), VM).unwrap_err();
    assert!(matches!(&error, ExpandError::Requirements(_)), "{error}");
    assert_eq!(error.causes(VM)[0].field, "spec.instancetype");
    assert_eq!(error.causes(VM)[0].reason, CauseReason::FieldValueNotFound);
}

#[test]
fn an_uneven_spread_is_an_error() {
    let types = types_from_sketches(
        Some(("VirtualMachineClusterInstancetype", "u1", json!({"cpu": {"guest": 3}}))),
        Some(("VirtualMachinePreference", "linux", json!({"cpu": {"preferredCPUTopology": "spread"}}))),
    );
    let error = expand_machine(&machine(), &types, &InstanceSettings::default(), VM).unwrap_err();
    assert_eq!(error.causes(VM)[0].field, "instancetype.spec.cpu.guest");
}

#[test]
fn a_malformed_machine_is_an_error_with_the_whole_path() {
    let machine = json!({"spec": {"instancetype": {"name": "u1"}, "template": {"spec": 1}}});
    let types = types_from_sketches(Some(("VirtualMachineClusterInstancetype", "u1", json!({}))), None);
    let error =
        expand_machine(&machine, &types, &InstanceSettings::default(), MachineLocation::Pool).unwrap_err();
    assert_eq!(
        error.causes(MachineLocation::Pool)[0].field,
        "spec.virtualMachineTemplate.spec.template.spec"
    );
}

/// Admission has no general defaults, an expansion has, and a preference can add CPU settings of its own.
#[rstest]
#[case::one_vcpu(1, &[])]
#[case::more_than_the_machine_starts_with(2, &["spec.template.spec.domain.cpu"])]
fn a_requirement_is_decided_in_the_same_way_everywhere(
    #[case] required: u32,
    #[case] expected: &[&str],
    #[values(json!({}), json!({"preferredCPUFeatures": [{"name": "vmx"}]}))] cpu: Value,
    #[values(None, Some(InstanceDefaults::default()))] defaults: Option<InstanceDefaults>,
) {
    let spec = json!({"cpu": cpu, "requirements": {"cpu": {"guest": required}}});
    let types = types_from_sketches(None, Some(("VirtualMachineClusterPreference", "p", spec)));
    let machine = json!({"spec": {"preference": {"name": "p"}, "template": {"spec": {}}}});
    let settings = InstanceSettings { interface: None, defaults };
    let causes = check_expansion(&machine, &types, &settings, VM)
        .err()
        .map(|error| error.causes(VM))
        .unwrap_or_default();
    assert_eq!(causes.iter().map(|cause| cause.field.as_str()).collect::<Vec<_>>(), expected);
}
