use rstest::rstest;
use serde_json::{Value, json};
use vmpool_api::Quantity;
use vmpool_api::diskimage::VirtualMachine;

use super::*;

fn wrapper(change: impl FnOnce(&mut Value)) -> VirtualMachine {
    let mut object = json!({
        "apiVersion": "vmpool.dev/v1alpha1", "kind": "VirtualMachine",
        "metadata": { "name": "web", "namespace": "team-a", "uid": "uid-web" },
        "spec": {
            "vmDiskImageRef": { "name": "debian", "namespace": "images" },
            "virtualMachineTemplate": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "runStrategy": "Always", "template": {} },
            },
        },
    });
    change(&mut object);
    serde_json::from_value(object).unwrap()
}

fn gib(count: u32) -> Quantity {
    Quantity::new(format!("{count}Gi"))
}

fn size(machine: &Value) -> &Value {
    &machine["spec"]["dataVolumeTemplates"][0]["spec"]["storage"]["resources"]["requests"]["storage"]
}

#[test]
fn a_machine_has_the_disk_and_belongs_to_its_wrapper() {
    let machine = machine_object(&wrapper(|_| ()), &gib(10));
    let owner = &machine["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["uid"], &owner["controller"]), (&json!("uid-web"), &json!(true)));
    assert_eq!(machine["metadata"]["labels"], json!({ "app": "web", WRAPPER_UID: "uid-web" }));
    let template = &machine["spec"]["dataVolumeTemplates"][0];
    assert_eq!(template["metadata"]["name"], "web-root");
    assert_eq!(template["metadata"]["annotations"], json!({ DELETE_AFTER_COMPLETION: "false" }));
    assert_eq!(
        template["spec"]["sourceRef"],
        json!({ "kind": "DataSource", "namespace": "images", "name": "debian" })
    );
    assert_eq!(template["spec"]["storage"].get("storageClassName"), None);
    assert_eq!(size(&machine), "10Gi");
    let instance = &machine["spec"]["template"]["spec"];
    assert_eq!(instance["volumes"], json!([{ "name": "root", "dataVolume": { "name": "web-root" } }]));
    assert_eq!(
        instance["domain"]["devices"]["disks"],
        json!([{ "name": "root", "disk": {}, "bootOrder": 1 }])
    );
}

#[test]
fn sizes_of_the_wrapper_are_written_into_the_machine() {
    let wrapper = wrapper(|object| {
        object["spec"]["resources"] = json!({ "cpu": 4, "memory": "8Gi", "diskSize": "20Gi" });
        object["spec"]["diskName"] = json!("system");
    });
    let machine = machine_object(&wrapper, &gib(10));
    let domain = &machine["spec"]["template"]["spec"]["domain"];
    assert_eq!((&domain["cpu"], &domain["memory"]), (&json!({ "sockets": 4 }), &json!({ "guest": "8Gi" })));
    assert_eq!(size(&machine), "20Gi");
    assert_eq!(machine["spec"]["dataVolumeTemplates"][0]["metadata"]["name"], "web-system");
}

#[test]
fn sizes_that_are_not_set_add_nothing() {
    let wrapper = wrapper(|object| object["spec"]["resources"] = json!({ "diskSize": "20Gi" }));
    let machine = machine_object(&wrapper, &gib(10));
    let domain = machine["spec"]["template"]["spec"]["domain"].as_object().unwrap();
    assert_eq!(domain.keys().collect::<Vec<_>>(), ["devices"]);
}

#[rstest]
#[case::a_disk_of_that_name(json!([{ "name": "root", "cdrom": {} }]), json!([{ "name": "root", "cdrom": {} }]))]
#[case::another_boot_disk(
    json!([{ "name": "iso", "bootOrder": 1 }]),
    json!([{ "name": "iso", "bootOrder": 1 }, { "name": "root", "disk": {} }]))]
#[case::another_disk(
    json!([{ "name": "data" }]),
    json!([{ "name": "data" }, { "name": "root", "disk": {}, "bootOrder": 1 }]))]
fn the_disks_of_the_template_stay(#[case] disks: Value, #[case] expected: Value) {
    let wrapper = wrapper(|object| {
        object["spec"]["virtualMachineTemplate"]["spec"]["template"] =
            json!({ "spec": { "domain": { "devices": { "disks": disks } } } });
    });
    let machine = machine_object(&wrapper, &gib(10));
    assert_eq!(machine["spec"]["template"]["spec"]["domain"]["devices"]["disks"], expected);
}

#[rstest]
#[case::first(json!(1), json!([{ "name": "root", "disk": {} }]))]
#[case::later(json!(2), json!([{ "name": "root", "disk": {}, "bootOrder": 1 }]))]
fn the_disk_takes_no_boot_order_from_a_network_interface(#[case] order: Value, #[case] expected: Value) {
    let wrapper = wrapper(|object| {
        let interfaces = json!([{ "name": "pxe", "masquerade": {}, "bootOrder": order }]);
        object["spec"]["virtualMachineTemplate"]["spec"]["template"] =
            json!({ "spec": { "domain": { "devices": { "interfaces": interfaces } } } });
    });
    let machine = machine_object(&wrapper, &gib(10));
    assert_eq!(machine["spec"]["template"]["spec"]["domain"]["devices"]["disks"], expected);
}

#[rstest]
#[case::empty(json!({ "template": {} }), None)]
#[case::the_own_volume(
    json!({ "template": { "spec": { "volumes": [{ "name": "root", "dataVolume": { "name": "web-root" } }] } } }),
    None)]
#[case::another_source(
    json!({ "template": { "spec": { "volumes": [{ "name": "root", "dataVolume": { "name": "db-root" } }] } } }),
    Some("another source"))]
#[case::the_name_of_the_data_volume(
    json!({ "template": {}, "dataVolumeTemplates": [{ "metadata": { "name": "web-root" } }] }),
    Some("DataVolume template web-root"))]
#[case::an_account(
    json!({ "template": { "spec": { "serviceAccountName": "Not Valid" } } }),
    Some("service account"))]
#[case::an_empty_account(json!({ "template": { "spec": { "serviceAccountName": "" } } }), None)]
#[case::no_list(json!({ "template": {}, "dataVolumeTemplates": "x" }), Some("is not a list"))]
#[case::no_object(
    json!({ "template": { "spec": { "domain": { "devices": 1 } } } }),
    Some("is not an object"))]
fn a_template_that_collides_with_the_disk_is_unusable(#[case] spec: Value, #[case] expected: Option<&str>) {
    let wrapper = wrapper(|object| object["spec"]["virtualMachineTemplate"]["spec"] = spec);
    let found = template_validation_error(&wrapper);
    assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
    assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()));
    // Rendering does not panic.
    let _ = machine_object(&wrapper, &gib(10));
}

#[test]
fn an_image_has_the_fields_of_the_template_and_no_owner() {
    let wrapper = wrapper(|object| {
        object["spec"]["vmDiskImageTemplate"] = json!({
            "sourceType": "http", "url": "https://images.example/a", "diskSize": "10Gi",
            "ttlAfterUnreferenced": "24h", "labels": { "instancetype.kubevirt.io/default-instancetype": "u1" },
        });
    });
    let image = image_object(&wrapper).unwrap();
    assert_eq!(
        image["metadata"],
        json!({ "name": "debian", "namespace": "images", "finalizers": [IMAGE_PROTECTION],
            "labels": { "instancetype.kubevirt.io/default-instancetype": "u1" } })
    );
    assert_eq!(
        image["spec"],
        json!({ "sourceType": "http", "url": "https://images.example/a", "diskSize": "10Gi",
            "ttlAfterUnreferenced": "24h" })
    );
}

#[test]
fn an_update_contains_the_disk_as_it_is_and_what_was_written_last() {
    let before = wrapper(|_| ());
    let mut live = machine_object(&before, &gib(10));
    // The image has another size by now.
    let after = wrapper(|object| {
        object["spec"]["virtualMachineTemplate"]["spec"]["runStrategy"] = json!("Halted");
        object["spec"]["virtualMachineTemplate"]["metadata"] = Value::Null;
    });
    let planned = machine_template_update(&after, &live);
    let disk = live["spec"]["dataVolumeTemplates"].clone();
    assert_eq!(planned.to["spec"]["dataVolumeTemplates"], disk);
    let from = planned.from.unwrap();
    assert_eq!(from["spec"]["dataVolumeTemplates"], disk);
    assert_eq!(from["metadata"]["labels"]["app"], "web");
    assert_eq!(planned.to["metadata"]["labels"].get("app"), None);
    assert_eq!(planned.to["spec"]["runStrategy"], "Halted");
    live["metadata"]["annotations"][APPLIED_TEMPLATE] = json!("{");
    assert_eq!(machine_template_update(&after, &live).from, None);
}

#[test]
fn a_machine_that_was_just_written_is_current() {
    let wrapper = wrapper(|_| ());
    let machine = machine_object(&wrapper, &gib(10));
    let applied = machine["metadata"]["annotations"][APPLIED_TEMPLATE].as_str().unwrap();
    assert_eq!(template_digest(applied), template_digest(&machine_template(&wrapper).to_string()));
}
