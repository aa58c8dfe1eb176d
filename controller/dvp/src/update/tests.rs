use rstest::rstest;
use serde_json::json;
use vmpool_api::labels;

use super::*;

const TO: &str = "1111111111111111";

fn template() -> Value {
    json!({
        "metadata": { "labels": { "role": "builder" }, "annotations": { "team": "a" } },
        "spec": {
            "virtualMachineClassName": "small",
            "cpu": { "cores": 1, "coreFraction": "25%" },
            "memory": { "size": "1Gi" },
            "blockDeviceRefs": [
                { "kind": "VirtualDisk", "name": "root", "bootOrder": 1 },
                { "kind": "ClusterVirtualImage", "name": "tools" },
                { "kind": "VirtualDisk", "name": "data" },
            ],
        },
    })
}

fn with(edit: impl FnOnce(&mut Value)) -> Value {
    let mut template = template();
    edit(&mut template);
    template
}

/// A machine created from [`template`], as the API server stores it: with defaults and with fields of other
/// clients.
fn live() -> Value {
    json!({
        "metadata": {
            "name": "web-1",
            "uid": "m",
            "resourceVersion": "7",
            "labels": { "role": "builder", "theirs": "x", labels::TEMPLATE_HASH: "0000000000000000" },
            "annotations": {
                "team": "a",
                annotations::PATCHED_TEMPLATE_HASH: "0000000000000000",
                annotations::DISKS: r#"{"root": "web-1-root", "data": "web-data-x"}"#,
            },
        },
        "spec": {
            "virtualMachineClassName": "small",
            "cpu": { "cores": 1, "coreFraction": "25%" },
            "memory": { "size": "1Gi" },
            "runPolicy": "AlwaysOnUnlessStoppedManually",
            "liveMigrationPolicy": "PreferSafe",
            "networks": [{ "type": "Main", "id": 1 }],
            "blockDeviceRefs": [
                { "kind": "VirtualDisk", "name": "web-1-root", "bootOrder": 1 },
                { "kind": "ClusterVirtualImage", "name": "tools" },
                { "kind": "VirtualDisk", "name": "web-data-x" },
                { "kind": "VirtualDisk", "name": "attached-by-hand" },
            ],
        },
        "status": { "phase": "Running" },
    })
}

fn disks() -> Vec<DiskDraft> {
    vec![disk("root", "web-1-root"), disk("data", "web-data-x")]
}

fn disk(template: &str, name: &str) -> DiskDraft {
    DiskDraft::new(name.into(), template.into())
}

fn patch(live: &Value, from: Option<&Value>, to: &Value, disks: &[DiskDraft]) -> Option<Value> {
    update_machine(live, from, &TO.into(), to, disks)
}

/// The machine after the patch. A second update must change nothing.
fn updated(live: &Value, from: Option<&Value>, to: &Value, disks: &[DiskDraft]) -> Value {
    let mut result = live.clone();
    json_patch::merge(&mut result, &patch(live, from, to, disks).expect("something differs"));
    assert_eq!(patch(&result, Some(to), to, disks), None, "a second time nothing differs");
    assert_eq!(result["metadata"]["annotations"][annotations::PATCHED_TEMPLATE_HASH], TO);
    result
}

fn devices_of(machine: &Value) -> Vec<&str> {
    let devices = machine["spec"][devices::FIELD].as_array().unwrap();
    devices.iter().map(|device| device["name"].as_str().unwrap()).collect()
}

#[test]
fn the_same_template_changes_nothing_but_the_marker() {
    assert_eq!(
        patch(&live(), Some(&template()), &template(), &disks()),
        Some(json!({ "metadata": { "annotations": { annotations::PATCHED_TEMPLATE_HASH: TO } } }))
    );
}

#[test]
fn a_changed_field_is_the_only_one_in_the_patch() {
    let to = with(|template| template["spec"]["memory"]["size"] = json!("2Gi"));
    let patch = patch(&live(), Some(&template()), &to, &disks()).unwrap();
    assert_eq!(patch["spec"], json!({ "memory": { "size": "2Gi" } }));
}

#[test]
fn a_new_class_resets_a_fraction_that_the_old_one_filled_in() {
    let without_fraction = |class: &str| {
        with(|template| {
            template["spec"]["virtualMachineClassName"] = json!(class);
            template["spec"]["cpu"] = json!({ "cores": 1 });
        })
    };
    let result = updated(&live(), Some(&without_fraction("small")), &without_fraction("large"), &disks());
    assert_eq!(result["spec"]["virtualMachineClassName"], "large");
    assert_eq!(result["spec"]["cpu"], json!({ "cores": 1 }));
}

#[test]
fn labels_and_annotations_come_and_go_and_those_of_others_stay() {
    let to = with(|template| {
        template["metadata"] = json!({ "labels": { "tier": "one" } });
    });
    let result = updated(&live(), Some(&template()), &to, &disks());
    assert_eq!(
        result["metadata"]["labels"],
        json!({ "tier": "one", "theirs": "x", labels::TEMPLATE_HASH: "0000000000000000" }),
        "the label follows when the revision is in effect"
    );
    assert_eq!(result["metadata"]["annotations"].get("team"), None);
}

#[test]
fn a_template_cannot_touch_our_keys() {
    let forged = |template: &mut Value| {
        template["metadata"]["labels"][labels::POOL_UID] = json!("forged");
        template["metadata"]["annotations"][annotations::PATCHED_TEMPLATE_HASH] = json!("forged");
    };
    let (plain, forged) = (template(), with(forged));
    for (from, to) in [(&plain, &forged), (&forged, &plain)] {
        let patch = patch(&live(), Some(from), to, &disks()).unwrap();
        assert!(!patch.to_string().contains("forged") && !patch.to_string().contains("pool-uid"), "{patch}");
        assert_eq!(patch["metadata"]["annotations"][annotations::PATCHED_TEMPLATE_HASH], TO);
    }
}

#[test]
fn what_a_webhook_filled_in_is_not_taken_away() {
    let to = with(|template| template["spec"]["networks"] = json!([{ "type": "Main" }]));
    let patch = patch(&live(), Some(&template()), &to, &disks()).unwrap();
    assert_eq!(patch.get("spec"), None, "the network's number is the platform's: {patch}");
}

#[test]
fn one_kind_of_provisioning_takes_the_place_of_another_even_without_a_base() {
    let mut live = live();
    live["spec"]["provisioning"] =
        json!({ "type": "UserDataRef", "userDataRef": { "kind": "Secret", "name": "s" } });
    let provisioning = json!({ "type": "UserData", "userData": "#cloud-config" });
    let to = with(|template| template["spec"]["provisioning"] = provisioning.clone());
    assert_eq!(updated(&live, None, &to, &disks())["spec"]["provisioning"], provisioning);
}

#[rstest]
#[case::an_added_template_gets_its_place(
    json!([{ "kind": "VirtualDisk", "name": "root", "bootOrder": 1 }, { "kind": "VirtualDisk", "name": "cache" },
        { "kind": "ClusterVirtualImage", "name": "tools" }, { "kind": "VirtualDisk", "name": "data" }]),
    vec![disk("cache", "web-1-cache")],
    vec!["web-1-root", "web-1-cache", "tools", "web-data-x", "attached-by-hand"])]
#[case::an_image_goes(
    json!([{ "kind": "VirtualDisk", "name": "root", "bootOrder": 1 }, { "kind": "VirtualDisk", "name": "data" }]),
    vec![],
    vec!["web-1-root", "web-data-x", "attached-by-hand"])]
#[case::an_image_comes(
    json!([{ "kind": "VirtualDisk", "name": "root", "bootOrder": 1 }, { "kind": "VirtualImage", "name": "tools" },
        { "kind": "ClusterVirtualImage", "name": "tools" }, { "kind": "VirtualDisk", "name": "data" }]),
    vec![],
    vec!["web-1-root", "tools", "tools", "web-data-x", "attached-by-hand"])]
#[case::the_order_follows_the_template(
    json!([{ "kind": "VirtualDisk", "name": "data" }, { "kind": "VirtualDisk", "name": "root", "bootOrder": 1 },
        { "kind": "ClusterVirtualImage", "name": "tools" }]),
    vec![],
    vec!["web-data-x", "web-1-root", "tools", "attached-by-hand"])]
#[case::a_disk_is_exchanged_in_its_place(
    template()["spec"]["blockDeviceRefs"].clone(),
    vec![disk("data", "web-data-y")],
    vec!["web-1-root", "tools", "web-data-y", "attached-by-hand"])]
fn devices_follow_the_template(
    #[case] refs: Value,
    #[case] changed: Vec<DiskDraft>,
    #[case] expected: Vec<&str>,
) {
    let to = with(|template| template["spec"]["blockDeviceRefs"] = refs);
    let mut disks = disks();
    disks.retain(|disk| !changed.iter().any(|changed| changed.template == disk.template));
    disks.extend(changed);
    let result = updated(&live(), Some(&template()), &to, &disks);
    assert_eq!(devices_of(&result), expected);
    let map = result["metadata"]["annotations"][annotations::DISKS].as_str().unwrap();
    for disk in &disks {
        assert!(map.contains(&*disk.name), "{map}");
    }
}

/// The template without its data disk.
fn without_data() -> Value {
    with(|template| drop(template["spec"]["blockDeviceRefs"].as_array_mut().unwrap().remove(2)))
}

#[test]
fn the_disk_of_a_removed_template_goes_from_the_machine_and_from_its_map() {
    let result = updated(&live(), Some(&template()), &without_data(), &[disk("root", "web-1-root")]);
    assert_eq!(devices_of(&result), ["web-1-root", "tools", "attached-by-hand"]);
    assert_eq!(result["metadata"]["annotations"][annotations::DISKS], r#"{"root":"web-1-root"}"#);
}

#[test]
fn the_disk_that_a_machine_booted_from_stays_where_it_is_as_long_as_the_plan_keeps_it() {
    let to = with(|template| {
        template["spec"]["blockDeviceRefs"] = json!([
            { "kind": "VirtualDisk", "name": "system", "bootOrder": 1 },
            { "kind": "VirtualDisk", "name": "data", "bootOrder": 2 },
        ]);
    });
    let kept = [disk("system", "web-1-system"), disk("data", "web-data-x"), disk("root", "web-1-root")];
    let result = updated(&live(), Some(&template()), &to, &kept);
    assert_eq!(devices_of(&result), ["web-1-root", "web-1-system", "web-data-x", "attached-by-hand"]);
    let orders: Vec<_> = result["spec"][devices::FIELD].as_array().unwrap()[..3]
        .iter()
        .map(|device| device["bootOrder"].as_u64().unwrap())
        .collect();
    assert_eq!(orders, [1, 2, 3], "it is still the first device, and boot orders are unique");

    let freed = updated(&result, Some(&to), &to, &kept[..2]);
    assert_eq!(devices_of(&freed), ["web-1-system", "web-data-x", "attached-by-hand"]);
    assert_eq!(freed["spec"][devices::FIELD][0]["bootOrder"], 1);
}

#[test]
fn a_boot_order_set_by_hand_stays_until_the_template_sets_another() {
    let mut live = live();
    live["spec"]["blockDeviceRefs"][2]["bootOrder"] = json!(2);
    assert!(patch(&live, Some(&template()), &template(), &disks()).unwrap().get("spec").is_none());
    let to = with(|template| template["spec"]["blockDeviceRefs"][2]["bootOrder"] = json!(3));
    let result = updated(&live, Some(&template()), &to, &disks());
    assert_eq!(result["spec"]["blockDeviceRefs"][2]["bootOrder"], 3);
}

#[test]
fn a_template_that_no_disk_fills_is_never_written_by_its_name() {
    let to = with(|template| {
        template["spec"]["blockDeviceRefs"]
            .as_array_mut()
            .unwrap()
            .push(json!({ "kind": "VirtualDisk", "name": "cache" }));
    });
    let result = updated(&live(), Some(&template()), &to, &disks());
    assert!(!devices_of(&result).contains(&"cache"));
}

#[test]
fn a_list_never_becomes_empty() {
    let to = with(|template| template["spec"]["blockDeviceRefs"] = json!([]));
    let mut live = live();
    live["spec"]["blockDeviceRefs"].as_array_mut().unwrap().pop();
    let result = updated(&live, Some(&template()), &to, &[]);
    assert_eq!(devices_of(&result).len(), 3);
}

mod foreign {
    //! Machines that another controller of the same API created.

    use super::*;

    /// A machine that it finished: with an 8-digit label, the marker of the written revision, and no disk
    /// map.
    fn settled() -> Value {
        let mut machine = live();
        machine["metadata"]["labels"] = json!({ "role": "builder", labels::TEMPLATE_HASH: "5d3c9a41" });
        machine["metadata"]["annotations"] =
            json!({ "team": "a", annotations::PATCHED_TEMPLATE_HASH: "5d3c9a41" });
        machine["spec"]["blockDeviceRefs"].as_array_mut().unwrap().pop();
        machine
    }

    #[test]
    fn a_settled_one_gets_nothing_but_its_markers() {
        let patch = patch(&settled(), None, &template(), &disks());
        let markers = json!({
            annotations::PATCHED_TEMPLATE_HASH: TO,
            annotations::DISKS: r#"{"data":"web-data-x","root":"web-1-root"}"#,
        });
        assert_eq!(patch, Some(json!({ "metadata": { "annotations": markers } })));
    }

    #[test]
    fn devices_that_it_appended_stay_in_their_order() {
        let mut machine = settled();
        machine["spec"]["blockDeviceRefs"].as_array_mut().unwrap().swap(1, 2);
        let patch = patch(&machine, None, &template(), &disks()).unwrap();
        assert_eq!(patch.get("spec"), None, "{patch}");
    }

    #[test]
    fn a_reference_that_it_never_resolved_gets_a_disk_in_its_place() {
        let mut machine = settled();
        machine["spec"]["blockDeviceRefs"][2]["name"] = json!("data");
        let result =
            updated(&machine, None, &template(), &[disk("root", "web-1-root"), disk("data", "web-1-data")]);
        assert_eq!(devices_of(&result), ["web-1-root", "tools", "web-1-data"]);
    }

    #[test]
    fn a_disk_that_is_only_called_like_a_template_stays() {
        let mut machine = settled();
        let stranger = json!({ "kind": "VirtualDisk", "name": "data" });
        machine["spec"]["blockDeviceRefs"].as_array_mut().unwrap().push(stranger);
        let result = updated(&machine, None, &template(), &disks());
        assert_eq!(devices_of(&result), ["web-1-root", "tools", "web-data-x", "data"]);
    }

    #[test]
    fn what_differs_is_put_right_and_nothing_is_taken_away() {
        let mut machine = settled();
        machine["spec"]["cpu"]["cores"] = json!(4);
        machine["spec"]["nodeSelector"] = json!({ "zone": "a" });
        let result = updated(&machine, None, &template(), &disks());
        assert_eq!(result["spec"]["cpu"]["cores"], 1);
        assert_eq!(result["spec"]["nodeSelector"], json!({ "zone": "a" }));
    }
}

#[test]
fn a_device_that_a_person_removed_is_not_attached_again_and_stays_in_the_disk_map() {
    let mut live = live();
    live["spec"]["blockDeviceRefs"].as_array_mut().unwrap().remove(2);
    let to = with(|template| template["spec"]["memory"]["size"] = json!("2Gi"));
    let result = updated(&live, Some(&template()), &to, &[disk("root", "web-1-root")]);
    assert_eq!(devices_of(&result), ["web-1-root", "tools", "attached-by-hand"]);
    let map = result["metadata"]["annotations"][annotations::DISKS].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(map).unwrap(),
        json!({ "root": "web-1-root", "data": "web-data-x" })
    );
}
