use rstest::rstest;
use serde_json::json;

use super::*;
use crate::testing::types_from_sketches;

const NO_TYPES: InstanceTypeAndPreference =
    InstanceTypeAndPreference { instancetype: None, preference: None };

fn preferring(devices: Value) -> InstanceTypeAndPreference {
    types_from_sketches(None, Some(("VirtualMachinePreference", "p", json!({ "devices": devices }))))
}

/// The spec of an instance after devices and types were applied.
fn prepared(spec: Value, types: &InstanceTypeAndPreference, settings: &InstanceSettings) -> Value {
    let template = InstanceTemplate::new(json!({ "spec": spec })).unwrap();
    prepare_instance(&template, types, settings, MachineLocation::VirtualMachine).unwrap().spec().clone()
}

fn with_interface() -> InstanceSettings {
    InstanceSettings { interface: Some(Binding::Masquerade), defaults: None }
}

/// The table of the specification: the flag in the machine, the preference, the inputs in the machine.
#[rstest]
#[case::unset_and_unset(json!(null), json!(null), json!([]), json!([]))]
#[case::unset_and_true(json!(null), json!(true), json!([]), json!([{"name": "default-0"}]))]
#[case::false_and_true(json!(false), json!(true), json!([]), json!([]))]
#[case::true_and_false(json!(true), json!(false), json!([]), json!([{"name": "default-0"}]))]
#[case::true_with_an_input(json!(true), json!(null), json!([{"name": "mine"}]), json!([{"name": "mine"}]))]
fn an_input_device_is_added(
    #[case] flag: Value,
    #[case] preferred: Value,
    #[case] inputs: Value,
    #[case] expected: Value,
) {
    let spec = json!({"domain": {"devices": {"autoattachInputDevice": flag, "inputs": inputs}}});
    let types = preferring(json!({ "preferredAutoattachInputDevice": preferred }));
    assert_eq!(prepared(spec, &types, &InstanceSettings::default())["domain"]["devices"]["inputs"], expected);
}

#[test]
fn preferences_reach_the_added_input_device() {
    let types = preferring(
        json!({"preferredAutoattachInputDevice": true, "preferredInputBus": "virtio", "preferredInputType": "keyboard"}),
    );
    let spec = prepared(json!({}), &types, &InstanceSettings::default());
    let expected = json!([{"name": "default-0", "bus": "virtio", "type": "keyboard"}]);
    assert_eq!(spec["domain"]["devices"]["inputs"], expected);
}

#[rstest]
#[case::a_volume_without_a_device(json!({}), json!([{"name": "root"}]))]
#[case::a_volume_with_a_disk(json!({"disks": [{"name": "root", "lun": {}}]}), json!([{"name": "root", "lun": {}}]))]
#[case::a_volume_with_a_filesystem(json!({"filesystems": [{"name": "root"}]}), json!(null))]
#[case::another_disk(json!({"disks": [{"name": "data"}]}), json!([{"name": "data"}, {"name": "root"}]))]
fn a_volume_gets_a_disk(#[case] devices: Value, #[case] disks: Value) {
    let spec = json!({"volumes": [{"name": "root"}], "domain": {"devices": devices}});
    assert_eq!(prepared(spec, &NO_TYPES, &InstanceSettings::default())["domain"]["devices"]["disks"], disks);
}

#[test]
fn preferences_reach_the_added_disk() {
    let types = preferring(json!({"preferredDiskBus": "virtio"}));
    let spec = prepared(json!({"volumes": [{"name": "root"}]}), &types, &InstanceSettings::default());
    assert_eq!(spec["domain"]["devices"]["disks"], json!([{"name": "root", "disk": {"bus": "virtio"}}]));
}

#[rstest]
#[case::nothing_listed(json!({}), json!(null), true)]
#[case::the_flag_is_false(json!({"domain": {"devices": {"autoattachPodInterface": false}}}), json!(null), false)]
#[case::the_preference_is_false(json!({}), json!(false), false)]
#[case::the_flag_overrides_the_preference(json!({"domain": {"devices": {"autoattachPodInterface": true}}}), json!(false), true)]
#[case::a_network_is_listed(json!({"networks": [{"name": "a"}]}), json!(null), false)]
#[case::an_interface_is_listed(json!({"domain": {"devices": {"interfaces": [{"name": "a"}]}}}), json!(null), false)]
fn a_default_interface_is_added(#[case] spec: Value, #[case] preferred: Value, #[case] added: bool) {
    let types =
        preferring(json!({"preferredAutoattachPodInterface": preferred, "preferredInterfaceModel": "e1000"}));
    let spec = prepared(spec, &types, &with_interface());
    let interface = json!([{"name": "default", "masquerade": {}, "model": "e1000"}]);
    assert_eq!(spec["domain"]["devices"]["interfaces"] == interface, added);
    assert_eq!(spec["networks"] == json!([{"name": "default", "pod": {}}]), added);
}

#[rstest]
#[case::bridge(Some(Binding::Bridge), json!([{"name": "default", "bridge": {}}]))]
#[case::no_interface(None, json!(null))]
fn the_settings_choose_the_binding(#[case] interface: Option<Binding>, #[case] expected: Value) {
    let spec = prepared(json!({}), &NO_TYPES, &InstanceSettings { interface, defaults: None });
    assert_eq!(spec["domain"]["devices"]["interfaces"], expected);
}

#[test]
fn an_instance_has_the_names_in_annotations() {
    let types = types_from_sketches(Some(("VirtualMachineClusterInstancetype", "u1", json!({}))), None);
    let template = InstanceTemplate::new(json!({"spec": {}})).unwrap();
    let instance =
        build_instance(&template, &types, &InstanceSettings::default(), MachineLocation::VirtualMachine)
            .unwrap();
    let expected = json!({"kubevirt.io/cluster-instancetype-name": "u1"});
    assert_eq!(instance.as_value()["metadata"]["annotations"], expected);
    assert_eq!(instance.spec()["domain"]["memory"]["guest"], "2Gi");
}

#[test]
fn a_template_without_a_domain_is_prepared() {
    assert_eq!(prepared(json!({}), &NO_TYPES, &InstanceSettings::default()), json!({}));
}

#[test]
fn a_malformed_template_is_an_error_with_the_whole_path() {
    let template = InstanceTemplate::new(json!({"spec": {"volumes": {}}})).unwrap();
    let error = prepare_instance(&template, &NO_TYPES, &InstanceSettings::default(), MachineLocation::Pool)
        .unwrap_err();
    assert_eq!(error.causes()[0].field, "spec.virtualMachineTemplate.spec.template.spec.volumes");
}
