use proptest::prelude::*;
use rstest::rstest;
use vmpool_engine::model::ObjectId;

use super::super::fixtures;
use super::super::read::NameGenerationSettings;
use super::super::template::canonical_template;
use super::*;

const NAMES: NameGenerationSettings =
    NameGenerationSettings { config_maps: true, secrets: true, ..NameGenerationSettings::NONE };
const LABEL: &str = "kubevirt.io/vm-pool-revision-name";

fn merged(mut value: Value, edit: &Value) -> Value {
    json_patch::merge(&mut value, edit);
    value
}

fn template(edit: &Value) -> Value {
    merged(fixtures::recorded_pool_spec()["virtualMachineTemplate"].clone(), edit)
}

fn of(content: &Value) -> RevisionTemplate<'_> {
    RevisionTemplate { content, names: NAMES, pins: &Value::Null }
}

/// The machine after the update from template `from` to template `to`.
fn updated(live: &Value, from: Option<&Value>, to: &Value) -> Value {
    match update_machine(live, from.map(of), of(to), 0, "herd-2") {
        Some(patch) => merged(live.clone(), &patch),
        None => live.clone(),
    }
}

/// The recorded machine with `edit` by other clients, after the update from the recorded template to an
/// edited one.
fn after(edit: &Value, change: &Value) -> Value {
    updated(&merged(fixtures::recorded_machine(), edit), Some(&template(&json!({}))), &template(change))
}

/// A change of the inner spec.
fn inner(change: &Value) -> Value {
    json!({ "spec": { "template": { "spec": change } } })
}

#[test]
fn nothing_differs_if_the_machine_has_the_template_and_its_revision() {
    let template = template(&json!({}));
    assert_eq!(
        update_machine(&fixtures::recorded_machine(), Some(of(&template)), of(&template), 0, "herd-1"),
        None
    );
    assert_eq!(update_machine(&fixtures::recorded_machine(), None, of(&template), 0, "herd-1"), None);
}

#[test]
fn a_patch_has_only_the_revision_and_what_the_template_changed() {
    let (from, to) = (template(&json!({})), template(&inner(&json!({ "hostname": "h" }))));
    let patch = update_machine(&fixtures::recorded_machine(), Some(of(&from)), of(&to), 0, "herd-2").unwrap();
    assert_eq!(
        patch,
        json!({
            "metadata": { "labels": { LABEL: "herd-2" } },
            "spec": { "template": {
                "metadata": { "labels": { LABEL: "herd-2" } },
                "spec": { "hostname": "h" },
            } },
        })
    );
}

#[rstest]
#[case::false_in_a_plain_field(json!({ "domain": { "devices": { "disableHotplug": false } } }), false)]
#[case::false_in_a_struct_that_is_absent(json!({ "domain": { "resources": { "overcommitGuestOverhead": false } } }), false)]
#[case::false_in_a_pointer(json!({ "domain": { "devices": { "autoattachSerialConsole": false } } }), true)]
fn a_zero_value_that_the_stored_revision_lacks(#[case] change: Value, #[case] is_written: bool) {
    let (stored, pool) = (template(&json!({})), template(&inner(&change)));
    let patch = update_machine(&fixtures::recorded_machine(), Some(of(&stored)), of(&pool), 0, "herd-1");
    assert_eq!(patch.is_some(), is_written, "{patch:?}");
}

#[test]
fn a_patch_changes_neither_owners_nor_finalizers_nor_status() {
    let change = json!({ "metadata": { "labels": { "tier": "a" } }, "spec": { "runStrategy": "Manual" } });
    let (before, after) = (fixtures::recorded_machine(), after(&json!({}), &change));
    for field in ["ownerReferences", "finalizers", "name", "uid", "resourceVersion"] {
        assert_eq!(before["metadata"][field], after["metadata"][field]);
    }
    assert_eq!(before["status"], after["status"]);
}

#[test]
fn labels_and_annotations_of_other_clients_stay() {
    let theirs = json!({ "metadata": { "labels": { "theirs": "1" }, "annotations": { "theirs": "2" } } });
    let change = json!({ "metadata": { "labels": { "tier": "a" }, "annotations": { "note": "n" } } });
    let machine = after(&theirs, &change);
    let labels = json!({ "app": "herd", "theirs": "1", "tier": "a", LABEL: "herd-2" });
    assert_eq!(machine["metadata"]["labels"], labels);
    let annotations = &machine["metadata"]["annotations"];
    assert_eq!((&annotations["theirs"], &annotations["note"]), (&json!("2"), &json!("n")));
    assert_eq!(annotations["kubevirt.io/latest-observed-api-version"], "v1");
}

#[test]
fn a_label_that_the_template_drops_is_removed() {
    let from = template(&json!({ "metadata": { "labels": { "tier": "a" } } }));
    let live = merged(
        fixtures::recorded_machine(),
        &json!({ "metadata": { "labels": { "tier": "a", "theirs": "1" } } }),
    );
    let machine = updated(&live, Some(&from), &template(&json!({})));
    let labels = json!({ "app": "herd", "theirs": "1", LABEL: "herd-2" });
    assert_eq!(machine["metadata"]["labels"], labels);
}

#[test]
fn identity_addresses_and_defaults_stay() {
    let change = inner(&json!({ "domain": {
        "firmware": { "uuid": "from-the-template", "bootloader": { "efi": {} } },
        "cpu": { "cores": 2 },
    } }));
    let domain = &after(&json!({}), &change)["spec"]["template"]["spec"]["domain"];
    assert_eq!(domain["firmware"], json!({ "uuid": "5d3b", "serial": "f1a2", "bootloader": { "efi": {} } }));
    assert_eq!(domain["machine"], json!({ "type": "q35" }));
    assert_eq!(domain["cpu"], json!({ "cores": 2 }));
    assert_eq!(domain["devices"]["interfaces"][0]["macAddress"], "02:00:00:00:00:01");
}

#[test]
fn the_identity_stays_when_the_template_drops_it() {
    let firmware =
        inner(&json!({ "domain": { "firmware": { "uuid": "5d3b", "bootloader": { "bios": {} } } } }));
    let live = merged(fixtures::recorded_machine(), &firmware);
    let machine = updated(&live, Some(&template(&firmware)), &template(&json!({})));
    let firmware = &machine["spec"]["template"]["spec"]["domain"]["firmware"];
    assert_eq!(firmware, &json!({ "uuid": "5d3b", "serial": "f1a2" }));
}

#[test]
fn hot_plugged_volumes_stay_behind_those_of_the_template() {
    let mut live = fixtures::recorded_machine();
    let inner_spec = &mut live["spec"]["template"]["spec"];
    let volume = json!({ "name": "hot", "dataVolume": { "name": "extra", "hotpluggable": true } });
    inner_spec["volumes"].as_array_mut().unwrap().push(volume.clone());
    let disk = json!({ "name": "hot", "disk": { "bus": "scsi" }, "serial": "hot" });
    inner_spec["domain"]["devices"]["disks"].as_array_mut().unwrap().push(disk.clone());
    // The template gets a volume and loses another.
    let mut to = template(&json!({}));
    let inner_spec = &mut to["spec"]["template"]["spec"];
    inner_spec["volumes"][1] = json!({ "name": "scratch", "emptyDisk": { "capacity": "1Gi" } });
    inner_spec["domain"]["devices"]["disks"][1] = json!({ "name": "scratch", "disk": { "bus": "virtio" } });
    let machine = updated(&live, Some(&template(&json!({}))), &to);
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    let inner_spec = &machine["spec"]["template"]["spec"];
    assert_eq!(names(&inner_spec["volumes"]), ["root", "scratch", "sec", "hot"]);
    assert_eq!(names(&inner_spec["domain"]["devices"]["disks"]), ["root", "scratch", "sec", "hot"]);
    assert_eq!(inner_spec["volumes"][3], volume);
    assert_eq!(inner_spec["domain"]["devices"]["disks"][3], disk);
}

#[test]
fn a_volume_that_a_restore_renamed_stays() {
    let mut live = fixtures::recorded_machine();
    live["spec"]["template"]["spec"]["volumes"][0]["dataVolume"]["name"] = "restore-root".into();
    let machine = updated(&live, Some(&template(&json!({}))), &template(&inner(&json!({ "hostname": "h" }))));
    assert_eq!(machine["spec"]["template"]["spec"]["volumes"][0]["dataVolume"]["name"], "restore-root");
    // It also stays if another volume changes,
    let mut to = template(&json!({}));
    to["spec"]["template"]["spec"]["volumes"][1]["configMap"]["name"] = "other".into();
    let volumes = &updated(&live, Some(&template(&json!({}))), &to)["spec"]["template"]["spec"]["volumes"];
    assert_eq!(volumes[0]["dataVolume"]["name"], "restore-root");
    assert_eq!(volumes[1]["configMap"]["name"], "other-0");
}

#[test]
fn a_volume_that_a_user_removed_is_not_attached_again() {
    let mut live = fixtures::recorded_machine();
    live["spec"]["template"]["spec"]["volumes"].as_array_mut().unwrap().remove(1);
    live["spec"]["template"]["spec"]["domain"]["devices"]["disks"].as_array_mut().unwrap().remove(1);
    let mut to = template(&json!({}));
    to["spec"]["template"]["spec"]["volumes"][2]["secret"]["secretName"] = "other".into();
    let machine = updated(&live, Some(&template(&json!({}))), &to);
    let volumes = machine["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
    assert_eq!(volumes.len(), 2);
    assert_eq!(volumes[1]["secret"]["secretName"], "other-0");
    // It also stays detached if the template changes this volume.
    to["spec"]["template"]["spec"]["volumes"][1]["configMap"]["name"] = "other".into();
    let machine = updated(&live, Some(&template(&json!({}))), &to);
    assert_eq!(machine["spec"]["template"]["spec"]["volumes"].as_array().unwrap().len(), 2);
}

#[rstest]
#[case::a_source_of_another_type(json!({"dataVolume": {"name": "root-0"}}), json!({"containerDisk": {"image": "i"}}), json!({"containerDisk": {"image": "i"}}))]
#[case::a_source_that_a_user_changed(json!({"persistentVolumeClaim": {"claimName": "c"}}), json!({"dataVolume": {"name": "b"}}), json!({"dataVolume": {"name": "b"}}))]
fn no_field_of_the_former_source_of_a_volume_stays(
    #[case] live: Value,
    #[case] template_volume: Value,
    #[case] expected: Value,
) {
    let named = |volume: &Value| merged(json!({ "name": "root" }), volume);
    let mut machine = fixtures::recorded_machine();
    machine["spec"]["template"]["spec"]["volumes"][0] = named(&live);
    let mut to = template(&json!({}));
    to["spec"]["template"]["spec"]["volumes"][0] = named(&template_volume);
    for from in [Some(template(&json!({}))), None] {
        let result = updated(&machine, from.as_ref(), &to);
        assert_eq!(result["spec"]["template"]["spec"]["volumes"][0], named(&expected));
    }
}

#[test]
fn a_disk_of_another_kind_keeps_nothing_that_the_server_filled_in() {
    let mut live = fixtures::recorded_machine();
    live["spec"]["template"]["spec"]["domain"]["devices"]["disks"][0]["disk"]["readonly"] = true.into();
    let mut to = template(&json!({}));
    to["spec"]["template"]["spec"]["domain"]["devices"]["disks"][0] = json!({ "name": "root", "lun": {} });
    let result = updated(&live, Some(&template(&json!({}))), &to);
    let disks = &result["spec"]["template"]["spec"]["domain"]["devices"]["disks"];
    assert_eq!(disks[0], json!({ "name": "root", "lun": {} }));
}

#[test]
fn the_source_of_a_data_volume_template_is_replaced_as_a_whole() {
    let mut live = fixtures::recorded_machine();
    live["spec"]["dataVolumeTemplates"][0]["metadata"]["annotations"] = json!({ "theirs": "1" });
    live["spec"]["dataVolumeTemplates"][0]["spec"]["source"]["registry"]["pullMethod"] = "pod".into();
    let mut to = template(&json!({}));
    to["spec"]["dataVolumeTemplates"][0]["spec"] =
        json!({ "source": { "blank": {} }, "pvc": { "volumeMode": "Block" } });
    let result = updated(&live, Some(&template(&json!({}))), &to);
    assert_eq!(
        result["spec"]["dataVolumeTemplates"],
        json!([{
            "metadata": { "name": "root-0", "annotations": { "theirs": "1" } },
            "spec": { "source": { "blank": {} }, "pvc": { "volumeMode": "Block" } },
        }])
    );
}

#[rstest]
#[case::a_stop_stays(json!({"runStrategy": "Halted"}), json!({"hostname": "h"}), json!({"runStrategy": "Halted"}))]
#[case::a_stop_in_the_older_spelling_stays(
    json!({"runStrategy": null, "running": false}), json!({"hostname": "h"}), json!({"running": false}))]
#[case::a_start_stays(json!({"runStrategy": "Once"}), json!({"hostname": "h"}), json!({"runStrategy": "Once"}))]
fn a_start_or_stop_by_a_user_stays(#[case] live: Value, #[case] change: Value, #[case] expected: Value) {
    let spec = &after(&json!({ "spec": live }), &inner(&change))["spec"];
    assert_eq!((&spec["runStrategy"], &spec["running"]), (&expected["runStrategy"], &expected["running"]));
}

#[rstest]
#[case::another_strategy(
    json!({"runStrategy": "Always"}), json!({"runStrategy": "Manual"}), json!({"runStrategy": "Manual"}))]
#[case::another_strategy_after_a_stop(
    json!({"runStrategy": "Halted"}), json!({"runStrategy": "Manual"}), json!({"runStrategy": "Manual"}))]
#[case::the_older_spelling(
    json!({"runStrategy": "Always"}), json!({"runStrategy": null, "running": false}), json!({"running": false}))]
#[case::only_another_spelling(
    json!({"runStrategy": "Always"}), json!({"runStrategy": null, "running": true}), json!({"runStrategy": "Always"}))]
#[case::no_strategy(json!({"runStrategy": "Always"}), json!({"runStrategy": null}), json!({"runStrategy": "Always"}))]
fn a_changed_run_strategy_is_written(#[case] live: Value, #[case] change: Value, #[case] expected: Value) {
    let spec = &after(&json!({ "spec": live }), &json!({ "spec": change }))["spec"];
    assert_eq!((&spec["runStrategy"], &spec["running"]), (&expected["runStrategy"], &expected["running"]));
}

#[test]
fn without_a_stored_revision_nothing_is_removed_and_a_stop_stays() {
    let live = merged(
        fixtures::recorded_machine(),
        &json!({ "spec": { "runStrategy": "Halted", "template": { "spec": { "subdomain": "theirs" } } } }),
    );
    let machine = updated(&live, None, &template(&inner(&json!({ "hostname": "h" }))));
    assert_eq!(machine["spec"]["runStrategy"], "Halted");
    let spec = &machine["spec"]["template"]["spec"];
    assert_eq!((&spec["hostname"], &spec["subdomain"]), (&json!("h"), &json!("theirs")));
}

#[rstest]
#[case::the_same_type(json!({"name": "small", "kind": "VirtualMachineInstancetype"}), json!("small-v1"))]
#[case::another_name(json!({"name": "large"}), json!(null))]
#[case::another_kind(json!({"kind": "VirtualMachineClusterInstancetype"}), json!(null))]
#[case::its_own_revision(json!({"name": "large", "revisionName": "large-v3"}), json!("large-v3"))]
fn a_captured_revision_belongs_to_one_instance_type(#[case] change: Value, #[case] expected: Value) {
    let matcher = json!({ "name": "small", "kind": "VirtualMachineInstancetype" });
    let from = template(&json!({ "spec": { "instancetype": matcher } }));
    let mut live = merged(fixtures::recorded_machine(), &json!({ "spec": { "instancetype": matcher } }));
    live["spec"]["instancetype"]["revisionName"] = "small-v1".into();
    let to = template(&merged(
        json!({ "spec": { "instancetype": matcher, "template": { "spec": { "hostname": "h" } } } }),
        &json!({ "spec": { "instancetype": change } }),
    ));
    let machine = updated(&live, Some(&from), &to);
    assert_eq!(machine["spec"]["instancetype"]["revisionName"], expected);
    let removed = updated(&live, Some(&from), &template(&json!({})));
    assert_eq!(removed["spec"]["instancetype"], Value::Null);
}

#[test]
fn the_names_of_both_revisions_are_numbered_as_each_says() {
    // The former revision appended no ordinal to names of Secrets, and the wanted one does.
    let content = template(&json!({}));
    let mut live = fixtures::recorded_machine();
    live["spec"]["template"]["spec"]["volumes"][2]["secret"]["secretName"] = "cred".into();
    let former = NameGenerationSettings { secrets: false, ..NAMES };
    let from = RevisionTemplate { content: &content, names: former, pins: &Value::Null };
    let to = template(&inner(&json!({ "hostname": "h" })));
    let patch = update_machine(&live, Some(from), of(&to), 0, "herd-2").unwrap();
    let machine = merged(live, &patch);
    assert_eq!(machine["spec"]["template"]["spec"]["volumes"][2]["secret"]["secretName"], "cred-0");
}

#[test]
fn a_machine_keeps_its_host_name_until_the_setting_is_gone() {
    let names = NameGenerationSettings { hostname: true, ..NAMES };
    let content = template(&json!({}));
    let from = RevisionTemplate { content: &content, names, pins: &Value::Null };
    let mut live = fixtures::recorded_machine();
    live["spec"]["template"]["spec"]["hostname"] = "herd-0".into();
    let changed = template(&inner(&json!({ "terminationGracePeriodSeconds": 7 })));
    let hostname = |names: NameGenerationSettings| {
        let to = RevisionTemplate { content: &changed, names, pins: &Value::Null };
        let patch = update_machine(&live, Some(from), to, 0, "herd-2").unwrap();
        merged(live.clone(), &patch)["spec"]["template"]["spec"]["hostname"].clone()
    };
    assert_eq!(hostname(names), "herd-0");
    assert_eq!(hostname(NAMES), Value::Null);
}

#[test]
fn revision_labels_are_restored() {
    let live = merged(
        fixtures::recorded_machine(),
        &json!({ "metadata": { "labels": { LABEL: null } }, "spec": { "template": { "metadata": { "labels": null } } } }),
    );
    let template = template(&json!({}));
    let machine = updated(&live, Some(&template), &template);
    assert_eq!(machine["metadata"]["labels"][LABEL], "herd-2");
    assert_eq!(machine["spec"]["template"]["metadata"]["labels"][LABEL], "herd-2");
}

#[rstest]
#[case::null(json!(null))]
#[case::a_text(json!("x"))]
#[case::unexpected_types(json!({"metadata": [], "spec": {"template": 1, "dataVolumeTemplates": "x", "instancetype": 3}}))]
#[case::unexpected_items(
    json!({"spec": {"template": {"metadata": {"labels": 1}, "spec": {"volumes": [1, {}], "domain": []}}, "dataVolumeTemplates": [null]}}))]
fn templates_and_machines_of_any_type_are_merged(#[case] content: Value) {
    let usual = template(&json!({}));
    let live = merged(json!({ "metadata": {} }), &content);
    for (live, from, to) in [
        (&fixtures::recorded_machine(), &usual, &content),
        (&fixtures::recorded_machine(), &content, &usual),
        (&live, &usual, &usual),
    ] {
        updated(live, Some(from), to);
        updated(live, None, to);
    }
}

fn volume(name: &'static str) -> impl Strategy<Value = Option<Value>> {
    let source = prop_oneof![
        Just(json!({ "dataVolume": { "name": "root" } })),
        Just(json!({ "persistentVolumeClaim": { "claimName": "shared" } })),
        Just(json!({ "emptyDisk": { "capacity": "1Gi" } })),
        Just(json!({ "secret": { "secretName": "cred" } })),
    ];
    prop::option::of(source.prop_map(move |source| merged(json!({ "name": name }), &source)))
}

/// A template of the pool.
fn any_template() -> impl Strategy<Value = Value> {
    let volumes = (volume("a"), volume("b"), volume("c"))
        .prop_map(|(a, b, c)| [a, b, c].into_iter().flatten().collect::<Vec<_>>());
    let labels = prop::collection::btree_map("[xyz]", "[12]", 0..3);
    let hostname = prop::option::of("[hk]");
    let sockets = prop::option::of(1..3);
    let strategy = prop_oneof![
        Just(json!({ "runStrategy": "Always" })),
        Just(json!({ "runStrategy": "Manual" })),
        Just(json!({ "running": true })),
    ];
    let interface = prop_oneof![Just("masquerade"), Just("bridge")];
    (volumes, labels, hostname, sockets, strategy, interface).prop_map(
        |(volumes, labels, hostname, sockets, strategy, interface)| {
            let mut spec = json!({
                "domain": { "devices": { "interfaces": [{ "name": "default", interface: {} }] } },
                "networks": [{ "name": "default", "pod": {} }],
            });
            if !volumes.is_empty() {
                spec["domain"]["devices"]["disks"] =
                    volumes.iter().map(|volume| json!({ "name": volume["name"], "disk": { "bus": "virtio" } })).collect();
                spec["volumes"] = volumes.into();
            }
            if let Some(hostname) = hostname {
                spec["hostname"] = hostname.into();
            }
            if let Some(sockets) = sockets {
                spec["domain"]["cpu"] = json!({ "sockets": sockets });
            }
            let spec = json!({
                "dataVolumeTemplates": [{ "metadata": { "name": "root" }, "spec": { "source": { "blank": {} } } }],
                "template": { "metadata": { "labels": labels }, "spec": spec },
            });
            json!({ "metadata": { "labels": labels }, "spec": merged(spec, &strategy) })
        },
    )
}

/// The machine that the controller created from a template.
fn created(content: &Value, revision: &str) -> Value {
    let pool = ObjectId::new("herd", fixtures::POOL_UID);
    let mut machine = machine::machine_object("rec", &pool, of(content), 0, revision);
    machine["metadata"]["uid"] = "m".into();
    machine["metadata"]["resourceVersion"] = "1".into();
    machine
}

/// What other clients write to a machine.
fn foreign(machine: &mut Value) {
    machine["metadata"]["labels"]["theirs"] = "l".into();
    machine["metadata"]["annotations"] = json!({ "theirs": "a" });
    machine["spec"]["template"]["metadata"]["annotations"] = json!({ "topology": "t" });
    let spec = &mut machine["spec"]["template"]["spec"];
    spec["domain"]["firmware"] = json!({ "uuid": "u", "serial": "s" });
    spec["domain"]["devices"]["interfaces"][0]["macAddress"] = "02:00".into();
    for (path, item) in [
        ("/volumes", json!({ "name": "hot", "dataVolume": { "name": "hot", "hotpluggable": true } })),
        ("/domain/devices/disks", json!({ "name": "hot", "disk": { "bus": "scsi" } })),
    ] {
        match spec.pointer_mut(path).and_then(Value::as_array_mut) {
            Some(list) => list.push(item),
            None if path == "/volumes" => spec["volumes"] = json!([item]),
            None => spec["domain"]["devices"]["disks"] = json!([item]),
        }
    }
}

/// Template metadata and spec of a machine, to be compared like a template.
fn comparable(machine: &Value) -> Value {
    let mut content = canonical_template(machine);
    // Both spellings mean the same.
    if let Some(spec) = content["spec"].as_object_mut()
        && spec.remove("running") == Some(json!(true))
    {
        spec.insert("runStrategy".to_owned(), "Always".into());
    }
    content
}

proptest! {
    #[test]
    fn a_machine_without_foreign_fields_equals_a_new_one(from in any_template(), to in any_template()) {
        let result = updated(&created(&from, "herd-1"), Some(&from), &to);
        prop_assert_eq!(comparable(&result), comparable(&created(&to, "herd-2")));
    }

    #[test]
    fn a_second_update_finds_nothing(from in any_template(), to in any_template(), theirs: bool) {
        let mut live = created(&from, "herd-1");
        if theirs {
            foreign(&mut live);
        }
        let result = updated(&live, Some(&from), &to);
        prop_assert_eq!(update_machine(&result, Some(of(&to)), of(&to), 0, "herd-2"), None);
        prop_assert_eq!(update_machine(&result, Some(of(&from)), of(&to), 0, "herd-2"), None);
    }

    #[test]
    fn what_other_clients_wrote_stays(from in any_template(), to in any_template()) {
        let mut live = created(&from, "herd-1");
        foreign(&mut live);
        for base in [Some(&from), None] {
            let result = updated(&live, base, &to);
            prop_assert_eq!(&result["metadata"]["labels"]["theirs"], "l");
            prop_assert_eq!(&result["metadata"]["annotations"]["theirs"], "a");
            prop_assert_eq!(&result["spec"]["template"]["metadata"]["annotations"]["topology"], "t");
            let spec = &result["spec"]["template"]["spec"];
            prop_assert_eq!(&spec["domain"]["firmware"], &json!({ "uuid": "u", "serial": "s" }));
            prop_assert_eq!(&spec["domain"]["devices"]["interfaces"][0]["macAddress"], "02:00");
            for list in [&spec["volumes"], &spec["domain"]["devices"]["disks"]] {
                prop_assert!(list.as_array().unwrap().iter().any(|item| item["name"] == "hot"), "{}", spec);
            }
        }
    }

    #[test]
    fn a_stop_survives_unless_the_template_changes_the_strategy(from in any_template(), to in any_template()) {
        let mut live = created(&from, "herd-1");
        run_strategy::remove_run_strategy(&mut live["spec"]);
        live["spec"]["runStrategy"] = "Halted".into();
        let strategy = |template: &Value| template["spec"]["runStrategy"] == "Manual";
        let result = updated(&live, Some(&from), &to);
        let is_halted = result["spec"]["runStrategy"] == "Halted";
        prop_assert_eq!(is_halted, strategy(&from) == strategy(&to));
        prop_assert!(result["spec"]["runStrategy"].is_null() || result["spec"]["running"].is_null());
    }
}

/// All machines of a revision use the same copies, so a matcher that a user changed is set back, unlike other
/// edits.
#[rstest]
#[case::another_copy(json!({ "name": "small", "revisionName": "by-hand" }))]
#[case::another_type(json!({ "name": "large" }))]
#[case::none(Value::Null)]
fn the_next_update_sets_a_changed_reference_back(#[case] by_hand: Value) {
    let content = template(&json!({ "spec": { "instancetype": { "name": "small" } } }));
    let next = merged(content.clone(), &inner(&json!({ "hostname": "h" })));
    let pins = json!({ "instancetype": { "matcher": { "name": "small", "revisionName": "pin" } } });
    let pinned = |content| RevisionTemplate { pins: &pins, ..of(content) };
    let mut live = fixtures::recorded_machine();
    live["spec"]["instancetype"] = by_hand;
    live["spec"]["preference"] = json!({ "name": "by-hand" });
    let patch = update_machine(&live, Some(pinned(&content)), pinned(&next), 0, "herd-2").unwrap();
    let machine = merged(live, &patch);
    assert_eq!(machine["spec"]["instancetype"], pins["instancetype"]["matcher"]);
    assert_eq!(machine["spec"].get("preference"), None);
}

/// The template with a second DataVolume of this name.
fn with_second(name: &str) -> Value {
    let mut template = template(&json!({}));
    let spec = &mut template["spec"];
    let mut second = spec["dataVolumeTemplates"][0].clone();
    second["metadata"]["name"] = name.into();
    spec["dataVolumeTemplates"].as_array_mut().unwrap().push(second);
    let volume = json!({ "name": name, "dataVolume": { "name": name } });
    spec["template"]["spec"]["volumes"].as_array_mut().unwrap().push(volume);
    template
}

fn former(machine: &Value) -> &Value {
    &machine["metadata"]["annotations"][FORMER_STORAGE]
}

#[test]
fn the_storage_that_an_update_takes_out_of_the_machine_is_recorded_until_it_returns() {
    let (one, two) = (template(&json!({})), with_second("logs"));
    let with_logs = updated(&fixtures::recorded_machine(), Some(&one), &two);
    assert_eq!(with_logs["spec"]["dataVolumeTemplates"][1]["metadata"]["name"], "logs-0");
    assert_eq!(*former(&with_logs), Value::Null);
    let without = updated(&with_logs, Some(&two), &one);
    assert_eq!(without["spec"]["dataVolumeTemplates"].as_array().unwrap().len(), 1);
    assert_eq!(*former(&without), "logs-0");
    // A later update adds to the record.
    let changed = updated(&without, Some(&one), &template(&inner(&json!({ "hostname": "h" }))));
    assert_eq!(*former(&changed), "logs-0");
    let more =
        updated(&updated(&changed, Some(&one), &with_second("cache")), Some(&with_second("cache")), &one);
    assert_eq!(*former(&more), "cache-0,logs-0");
    let back = updated(&without, Some(&one), &two);
    assert_eq!(*former(&back), Value::Null);
}

#[test]
fn the_storage_of_a_volume_that_a_user_removed_is_recorded_when_the_template_drops_it() {
    let (one, two) = (template(&json!({})), with_second("logs"));
    // The user removed the volume and its DataVolume template.
    let live = fixtures::recorded_machine();
    assert_eq!(*former(&updated(&live, Some(&two), &one)), "logs-0");
    assert_eq!(*former(&updated(&live, None, &one)), Value::Null);
}

#[test]
fn a_record_that_cannot_be_read_names_no_storage() {
    let long = "x".repeat(300);
    let text = format!(",,{long},root-0,{}", "a,".repeat(1000));
    let names: Vec<&str> = dropped_storage::recorded_storage_names(&text).collect();
    assert_eq!((names.len(), names[0], names[1]), (256, "root-0", "a"));
}
