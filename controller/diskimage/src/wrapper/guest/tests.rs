use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::wrapper::objects::{machine_template, template_validation_error};

fn wrapper(change: &Value) -> VirtualMachine {
    let mut object = json!({
        "apiVersion": "vmpool.dev/v1alpha1", "kind": "VirtualMachine",
        "metadata": { "name": "web", "namespace": "team-a", "uid": "uid-web" },
        "spec": {
            "vmDiskImageRef": { "name": "debian" },
            "virtualMachineTemplate": { "spec": { "template": { "spec": {} } } },
        },
    });
    for (field, value) in change.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

/// The wrapper of the proposal.
fn proposed() -> VirtualMachine {
    wrapper(&json!({
        "users": [{ "name": "demo user", "plain_text_passwd": "demo-pwd", "lock_passwd": false,
            "sudo": "ALL=(ALL) NOPASSWD:ALL", "groups": "sudo" }],
        "interfaces": [
            { "network": "control-net", "ipAddress": "10.10.0.161/24" },
            { "network": "networks/bridge.inet" },
        ],
    }))
}

fn instance(wrapper: &VirtualMachine) -> Value {
    machine_template(wrapper)["spec"]["template"]["spec"].clone()
}

fn cloud_init(wrapper: &VirtualMachine) -> Value {
    let instance = instance(wrapper);
    let mut volumes = list_items(&instance["volumes"]);
    volumes.find(|volume| volume["name"] == CLOUD_INIT).unwrap()["cloudInitNoCloud"].clone()
}

fn parse_data(text: &Value) -> Value {
    serde_json::from_str(text.as_str().unwrap().trim_start_matches("#cloud-config\n")).unwrap()
}

#[test]
fn users_are_written_as_cloud_init_reads_them() {
    let data = cloud_init(&proposed());
    assert!(data["userData"].as_str().unwrap().starts_with("#cloud-config\n"), "{data}");
    let users = json!([{ "name": "demo user", "plain_text_passwd": "demo-pwd", "lock_passwd": false,
        "sudo": "ALL=(ALL) NOPASSWD:ALL", "groups": "sudo" }]);
    assert_eq!(parse_data(&data["userData"])["users"], users);
    let disks = &instance(&proposed())["domain"]["devices"]["disks"];
    assert_eq!(disks[1], json!({ "name": CLOUD_INIT, "disk": {} }));
}

#[test]
fn the_guest_finds_each_interface_by_its_hardware_address() {
    let found = instance(&proposed());
    let networks = json!([
        { "name": "control-net", "multus": { "networkName": "control-net" } },
        { "name": "networks-bridge-inet", "multus": { "networkName": "networks/bridge.inet" } },
    ]);
    assert_eq!(found["networks"], networks);
    let interfaces = &found["domain"]["devices"]["interfaces"];
    let address = |at: usize| interfaces[at]["macAddress"].clone();
    assert_eq!(interfaces[0]["bridge"], json!({}));
    assert!(address(0).as_str().unwrap().starts_with("02:") && address(0) != address(1), "{interfaces}");
    let data = parse_data(&cloud_init(&proposed())["networkData"]);
    let expected = json!({
        "control-net": { "match": { "macaddress": address(0) }, "addresses": ["10.10.0.161/24"] },
        "networks-bridge-inet": { "match": { "macaddress": address(1) }, "dhcp4": true },
    });
    assert_eq!((&data["version"], &data["ethernets"]), (&json!(2), &expected));
}

#[test]
fn another_wrapper_has_other_hardware_addresses() {
    let mut other = proposed();
    other.metadata.uid = Some("uid-other".to_owned());
    assert_eq!(instance(&proposed()), instance(&proposed()));
    assert_ne!(instance(&proposed())["domain"], instance(&other)["domain"]);
}

#[test]
fn a_wrapper_without_users_and_interfaces_adds_nothing() {
    let found = instance(&wrapper(&json!({})));
    assert_eq!(found.get("networks"), None);
    assert_eq!(found["volumes"].as_array().map(Vec::len), Some(1));
}

#[test]
fn interfaces_alone_have_user_data_too() {
    let alone = wrapper(&json!({ "interfaces": [{ "network": "a", "ipAddress": "fd00::1/64" }] }));
    assert_eq!(parse_data(&cloud_init(&alone)["userData"]), json!({}));
}

fn template(instance: &Value) -> Value {
    json!({ "spec": { "template": { "spec": instance } } })
}

#[rstest]
#[case::valid(json!({}), None)]
#[case::a_cloud_init_volume(
    json!({ "users": [{ "name": "a" }],
        "virtualMachineTemplate": template(&json!({ "volumes": [{ "name": "c", "cloudInitConfigDrive": {} }] })) }),
    Some(GuestError::CloudInit))]
#[case::a_cloud_init_volume_alone(
    json!({ "virtualMachineTemplate": template(&json!({ "volumes": [{ "name": "c", "cloudInitNoCloud": {} }] })) }),
    None)]
#[case::another_interface(
    json!({ "interfaces": [{ "network": "a" }],
        "virtualMachineTemplate": template(&json!({ "networks": [{ "name": "default", "pod": {} }] })) }),
    Some(GuestError::Networks))]
#[case::one_name(
    json!({ "interfaces": [{ "network": "b" }, { "network": "a/b" }, { "network": "a-b" }] }),
    Some(GuestError::SameName(1, 2)))]
#[case::no_prefix(
    json!({ "interfaces": [{ "network": "a", "ipAddress": "10.0.0.1" }] }), Some(GuestError::Address(0)))]
#[case::a_long_prefix(
    json!({ "interfaces": [{ "network": "a", "ipAddress": "10.0.0.1/33" }] }), Some(GuestError::Address(0)))]
#[case::no_address(
    json!({ "interfaces": [{ "network": "b" }, { "network": "a", "ipAddress": "10.0.0.256/24" }] }),
    Some(GuestError::Address(1)))]
fn a_guest_that_cannot_be_configured_is_refused(#[case] change: Value, #[case] error: Option<GuestError>) {
    let wrapper = wrapper(&change);
    assert_eq!(find_guest_error(&wrapper), error);
    assert_eq!(template_validation_error(&wrapper), error.map(|error| error.to_string()));
}

#[test]
fn more_data_than_kubevirt_accepts_is_refused_without_its_content() {
    let key = "k".repeat(1024);
    let user =
        |name: &str| json!({ "name": name, "plain_text_passwd": "hunter2", "ssh_authorized_keys": [key] });
    let wrapper = wrapper(&json!({ "users": [user("a"), user("b")] }));
    let error = find_guest_error(&wrapper).unwrap();
    assert!(matches!(error, GuestError::TooLong { field: "users", .. }), "{error}");
    assert!(!error.to_string().contains("hunter2"));
}
