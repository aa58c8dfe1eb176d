use std::sync::Arc;

use rstest::rstest;
use serde_json::json;
use vmpool_api::crds::POOL_CRD;
use vmpool_engine::membership::losses::Rehearsal;
use vmpool_engine::model::{Lifetime, MachineActivity, PoolDiskTemplate, ScaleDownPolicy};
use vmpool_engine::revisions::{Fingerprint, RevisionId};
use vmpool_engine::status::StatusSummary;
use vmpool_platform::contract;

use super::names::API_VERSION;
use super::*;

const PREFIX: &str = "vmpool.virtualization.deckhouse.io";

/// A pool with an image between its two disks, as the API server stores it.
fn sample() -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "VirtualMachinePool",
        "metadata": {
            "name": "builders",
            "namespace": "team-a",
            "uid": "9b1c0d4e",
            "resourceVersion": "4711",
            "generation": 3,
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "managedFields": [{ "manager": "kubectl", "operation": "Apply", "apiVersion": API_VERSION,
                "fieldsType": "FieldsV1", "fieldsV1": { "f:spec": {} } }],
        },
        "spec": {
            "replicas": 4,
            "scaleDownPolicy": "OldestFirst",
            "virtualMachineTemplate": {
                "metadata": { "labels": { "role": "builder" }, "annotations": { "team": "a" } },
                "spec": {
                    "virtualMachineClassName": "small",
                    "cpu": { "cores": 1, "coreFraction": "25%" },
                    "memory": { "size": "1Gi" },
                    "blockDeviceRefs": [
                        { "kind": "VirtualDisk", "name": "boot", "bootOrder": 1 },
                        { "kind": "ClusterVirtualImage", "name": "boot" },
                        { "kind": "VirtualDisk", "name": "layers" },
                    ],
                },
            },
            "virtualDiskTemplates": [
                { "name": "boot", "spec": { "dataSource": {
                    "type": "ObjectRef", "objectRef": { "kind": "ClusterVirtualImage", "name": "debian" } } } },
                { "name": "layers", "reclaim": { "onScaleDown": "Delete", "keep": 0 },
                  "spec": { "persistentVolumeClaim": { "size": "20Gi" } } },
            ],
        },
    })
}

fn pool_with(edit: impl FnOnce(&mut Value)) -> DvpPoolObject {
    let mut pool = sample();
    edit(&mut pool);
    serde_json::from_value(pool).unwrap()
}

fn facts(edit: impl FnOnce(&mut Value)) -> ParsedPool {
    Dvp::read_pool(&pool_with(edit))
}

fn draft() -> Draft {
    let disk = |template: &str| DiskDraft::new(format!("builders-7xk2d-{template}").into(), template.into());
    Draft {
        name: "builders-7xk2d".into(),
        number: 5,
        revision: "0123456789abcdef".into(),
        disks: vec![disk("boot"), disk("layers")],
        rehearsal: Rehearsal::None,
        standby: None,
    }
}

/// The identity of the revision of a template.
fn revision(edit: impl FnOnce(&mut Value)) -> RevisionId {
    RevisionId::of(&Dvp::canonical(&Dvp::template(&pool_with(edit))))
}

/// The drafted machine, made from the template of the pool.
fn written(pool: &DvpPoolObject) -> Value {
    Dvp::machine(pool, &Dvp::template(pool), &draft())
}

fn machine_with(edit: impl FnOnce(&mut Value)) -> Machine {
    let mut machine = written(&pool_with(|_| {}));
    machine["metadata"]["uid"] = json!("m");
    edit(&mut machine);
    Dvp::read_machine(&serde_json::from_value(machine).unwrap())
}

#[test]
fn the_contract_is_kept() {
    contract::check_platform_contract::<Dvp>(&sample());
}

#[test]
fn a_pool_reads_as_its_owner_wrote_it() {
    let pool = facts(|_| {});
    assert_eq!((&*pool.namespace, &*pool.id.name, pool.id.uid.as_str()), ("team-a", "builders", "9b1c0d4e"));
    assert_eq!((pool.desired, pool.generation, pool.deleting), (4, 3, false));
    assert_eq!(pool.scale_down_policy, ScaleDownPolicy::OldestFirst);
    let own = |name: &str, source: &serde_json::Value| PoolDiskTemplate {
        source: Some(Fingerprint::of(source)),
        ..PoolDiskTemplate::new(name, Lifetime::Ephemeral)
    };
    let image =
        json!({ "type": "ObjectRef", "objectRef": { "kind": "ClusterVirtualImage", "name": "debian" } });
    let layers = PoolDiskTemplate { size: Some(20 << 30), ..own("layers", &json!(null)) };
    assert_eq!(pool.disks, [own("boot", &image), layers]);
    assert!(pool.validation_errors.is_empty());
}

#[test]
fn a_machine_is_written_with_every_marker_and_owned_by_its_pool() {
    let machine = written(&pool_with(|_| {}));
    assert_eq!(
        machine["metadata"],
        json!({
            "name": "builders-7xk2d",
            "namespace": "team-a",
            "labels": {
                "role": "builder",
                format!("{PREFIX}/pool-uid"): "9b1c0d4e",
                format!("{PREFIX}/pool"): "builders",
                format!("{PREFIX}/template-hash"): "0123456789abcdef",
            },
            "annotations": {
                "team": "a",
                format!("{PREFIX}/patched-template-hash"): "0123456789abcdef",
                format!("{PREFIX}/disks"):
                    r#"{"boot":"builders-7xk2d-boot","layers":"builders-7xk2d-layers"}"#,
            },
            "ownerReferences": [{
                "apiVersion": "virtualization.deckhouse.io/v1alpha2",
                "kind": "VirtualMachinePool",
                "name": "builders",
                "uid": "9b1c0d4e",
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        })
    );
}

#[test]
fn placeholders_are_resolved_in_their_place_and_images_stay() {
    let machine = written(&pool_with(|_| {}));
    let mut expected = sample()["spec"]["virtualMachineTemplate"]["spec"].clone();
    expected["blockDeviceRefs"] = json!([
        { "kind": "VirtualDisk", "name": "builders-7xk2d-boot", "bootOrder": 1 },
        { "kind": "ClusterVirtualImage", "name": "boot" },
        { "kind": "VirtualDisk", "name": "builders-7xk2d-layers" },
    ]);
    assert_eq!(machine["spec"], expected);
    let positions: Vec<_> = machine_with(|_| {})
        .disks
        .iter()
        .map(|disk| (disk.template.as_deref().unwrap().to_owned(), disk.position))
        .collect();
    assert_eq!(positions, [("boot".to_owned(), 0), ("layers".to_owned(), 2)]);
}

#[test]
fn labels_of_the_user_never_override_ours() {
    let pool = pool_with(|pool| {
        let metadata = &mut pool["spec"]["virtualMachineTemplate"]["metadata"];
        for key in ["pool-uid", "pool", "template-hash"] {
            metadata["labels"][format!("{PREFIX}/{key}")] = json!("forged");
        }
        for key in ["disks", "patched-template-hash"] {
            metadata["annotations"][format!("{PREFIX}/{key}")] = json!("forged");
        }
    });
    assert!(!written(&pool).to_string().contains("forged"));
}

#[test]
fn a_template_without_metadata_makes_a_machine_with_ours() {
    let pool = pool_with(|pool| {
        pool["spec"]["virtualMachineTemplate"].as_object_mut().unwrap().remove("metadata");
    });
    let machine = written(&pool);
    assert_eq!(machine["metadata"]["labels"].as_object().unwrap().len(), 3);
}

#[test]
fn a_disk_is_a_copy_of_its_template_and_owned_by_its_machine() {
    let machine = ObjectId::new("builders-7xk2d", "m");
    let disk = <Dvp as Disks<DvpPoolObject, DvpMachineObject>>::object(
        &pool_with(|_| {}),
        &machine,
        &draft().disks[1],
    )
    .unwrap();
    assert_eq!(
        disk,
        json!({
            "apiVersion": "virtualization.deckhouse.io/v1alpha2",
            "kind": "VirtualDisk",
            "metadata": {
                "name": "builders-7xk2d-layers",
                "namespace": "team-a",
                "labels": {
                    format!("{PREFIX}/pool-uid"): "9b1c0d4e",
                    format!("{PREFIX}/pool"): "builders",
                    format!("{PREFIX}/disk-template"): "layers",
                },
                "ownerReferences": [{
                    "apiVersion": "virtualization.deckhouse.io/v1alpha2",
                    "kind": "VirtualMachine",
                    "name": "builders-7xk2d",
                    "uid": "m",
                    "controller": true,
                    "blockOwnerDeletion": true,
                }],
            },
            "spec": { "persistentVolumeClaim": { "size": "20Gi" } },
        })
    );
}

/// All defaults of the CRD's template, as path and value. Lists are skipped, because their defaults would
/// depend on positions.
fn defaults() -> Vec<(String, Value)> {
    fn walk(schema: &Value, path: &str, found: &mut Vec<(String, Value)>) {
        if !schema["default"].is_null() {
            found.push((path.to_owned(), schema["default"].clone()));
        }
        for (name, below) in schema["properties"].as_object().into_iter().flatten() {
            walk(below, &format!("{path}/{name}"), found);
        }
    }
    let crd: Value = serde_yaml_ng::from_str(POOL_CRD.yaml).unwrap();
    let template =
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/virtualMachineTemplate";
    let mut found = Vec::new();
    walk(crd.pointer(template).unwrap(), "", &mut found);
    found
}

/// Sets a value and creates the objects on the way.
fn set(root: &mut Value, path: &str, value: Value) {
    *path.split('/').skip(1).fold(root, |place, key| &mut place[key]) = value;
}

#[test]
fn a_default_that_is_spelled_out_is_no_other_template() {
    let defaults = defaults();
    assert!(defaults.len() >= 8, "{defaults:?}");
    for (path, value) in defaults {
        // The fields next to the default exist with and without it.
        let (parent, key) = path.rsplit_once('/').unwrap();
        let absent = revision(|pool| {
            set(&mut pool["spec"]["virtualMachineTemplate"], &format!("{parent}/beside"), json!("it"));
        });
        let spelled = revision(|pool| {
            let template = &mut pool["spec"]["virtualMachineTemplate"];
            set(template, &format!("{parent}/beside"), json!("it"));
            set(template, &format!("{parent}/{key}"), value);
        });
        assert_eq!(absent, spelled, "{path}");
    }
}

#[rstest]
#[case::a_null(|pool: &mut Value| pool["spec"]["virtualMachineTemplate"]["spec"]["affinity"] = Value::Null)]
#[case::an_empty_object(|pool: &mut Value| {
    pool["spec"]["virtualMachineTemplate"]["spec"]["nodeSelector"] = json!({});
})]
#[case::the_order_of_keys(|pool: &mut Value| {
    let spec = &mut pool["spec"]["virtualMachineTemplate"]["spec"];
    let keys: Vec<(String, Value)> = spec.as_object().unwrap().clone().into_iter().rev().collect();
    *spec = Value::Object(keys.into_iter().collect());
})]
#[case::the_count(|pool: &mut Value| pool["spec"]["replicas"] = json!(9))]
#[case::the_disk_templates(|pool: &mut Value| {
    pool["spec"]["virtualDiskTemplates"][1]["spec"]["persistentVolumeClaim"]["size"] = json!("30Gi");
})]
fn the_revision_stays_with(#[case] edit: fn(&mut Value)) {
    assert_eq!(revision(edit), revision(|_| {}));
}

#[rstest]
#[case::the_processors("/spec/cpu/cores", json!(2))]
#[case::a_value_that_is_not_the_default("/spec/osType", json!("Windows"))]
#[case::the_approval("/spec/disruptions/restartApprovalMode", json!("Automatic"))]
#[case::a_label("/metadata/labels/role", json!("tester"))]
#[case::an_annotation("/metadata/annotations/team", json!("b"))]
#[case::a_field_that_we_do_not_know("/spec/newField", json!(1))]
#[case::the_devices("/spec/blockDeviceRefs", json!([{ "kind": "VirtualDisk", "name": "boot" }]))]
fn the_revision_changes_with(#[case] path: &str, #[case] value: Value) {
    let changed = revision(|pool| set(&mut pool["spec"]["virtualMachineTemplate"], path, value));
    assert_ne!(changed, revision(|_| {}));
}

#[test]
fn the_revision_of_a_template_is_for_ever() {
    // The value is fixed: another hash would make all machines of all users outdated.
    assert_eq!(revision(|_| {}), RevisionId::from("c4c279fb796abc04"));
}

#[test]
fn counters_are_published_when_they_are_zero() {
    let revision = RevisionId::from("0123456789abcdef");
    let summary = StatusSummary {
        observed_generation: 3,
        replicas: 0,
        ready: 0,
        available: 0,
        updated: 0,
        restart_pending: 0,
        draining: 0,
        image_outdated: 0,
        next_number: Some(0),
        healed: 0,
        revision,
        used_copies: Arc::default(),
        standby: vmpool_engine::standby::StandbyCounts::default(),
    };
    let status = Dvp::status(
        &pool_with(|_| {}),
        &ComputedStatus { summary, conditions: Vec::new(), activity: Vec::new() },
        StatusFields::All,
    );
    assert_eq!(
        status,
        json!({
            "observedGeneration": 3,
            "replicas": 0,
            "readyReplicas": 0,
            "updatedReplicas": 0,
            "restartPendingReplicas": 0,
            "nextMachineNumber": 0,
            "desiredTemplateHash": "0123456789abcdef",
            "selector": format!("{PREFIX}/pool-uid=9b1c0d4e"),
            "conditions": [],
        })
    );
}

#[rstest]
#[case::a_counter("replicas")]
#[case::the_hash("desiredTemplateHash")]
#[case::the_selector("selector")]
fn a_status_that_lacks_something_is_not_a_published_one(#[case] field: &str) {
    let pool = pool_with(|_| {});
    let revision = RevisionId::from("a");
    let summary = StatusSummary {
        observed_generation: 3,
        replicas: 1,
        ready: 1,
        available: 1,
        updated: 1,
        restart_pending: 0,
        draining: 2,
        image_outdated: 1,
        next_number: Some(0),
        healed: 0,
        revision,
        used_copies: Arc::default(),
        standby: vmpool_engine::standby::StandbyCounts::default(),
    };
    let status = Dvp::status(
        &pool,
        &ComputedStatus { summary: summary.clone(), conditions: Vec::new(), activity: Vec::new() },
        StatusFields::All,
    );
    let with = |status: Value| facts(|pool| pool["status"] = status).spec.published.summary;
    assert_eq!(with(status.clone()), Some(summary));
    let mut incomplete = status;
    incomplete.as_object_mut().unwrap().remove(field);
    assert_eq!(with(incomplete), None);
}

#[rstest]
#[case::not_json("soon")]
#[case::another_form(r#"["boot"]"#)]
#[case::numbers(r#"{"boot": 1}"#)]
fn a_disk_map_that_cannot_be_read_fills_no_template(#[case] text: &str) {
    let machine =
        machine_with(|machine| machine["metadata"]["annotations"][format!("{PREFIX}/disks")] = json!(text));
    assert_eq!(machine.disks.len(), 2);
    assert!(machine.disks.iter().all(|disk| disk.template.is_none()));
}

#[rstest]
#[case("12", None)]
#[case("9-3", None)]
#[case("64-128", Some((64, 128)))]
fn a_block_that_cannot_be_read_is_none(#[case] text: &str, #[case] expected: Option<(u64, u64)>) {
    let pool = facts(|pool| pool["metadata"]["annotations"][format!("{PREFIX}/names")] = json!(text));
    assert_eq!(pool.name_block.map(|block| (block.first, block.end)), expected);
    assert!(pool.validation_errors.is_empty());
}

#[rstest]
#[case::absent(None, Lifetime::Ephemeral)]
#[case::delete(Some("Delete"), Lifetime::Ephemeral)]
#[case::retain(Some("Retain"), Lifetime::Retained)]
#[case::a_word_of_tomorrow(Some("Archive"), Lifetime::Retained)]
fn a_disk_lives_as_its_policy_says(#[case] policy: Option<&str>, #[case] lifetime: Lifetime) {
    let pool = facts(|pool| {
        pool["spec"]["virtualDiskTemplates"][0]["reclaim"] = json!({ "onScaleDown": policy });
    });
    assert_eq!(pool.disks[0].lifetime, lifetime);
}

#[rstest]
#[case("NewestFirst", ScaleDownPolicy::NewestFirst)]
#[case("OldestFirst", ScaleDownPolicy::OldestFirst)]
#[case("Explicit", ScaleDownPolicy::Explicit)]
fn the_policy_decides_the_order_of_scale_down(#[case] word: &str, #[case] policy: ScaleDownPolicy) {
    let pool = facts(|pool| pool["spec"]["scaleDownPolicy"] = json!(word));
    assert_eq!((pool.scale_down_policy, pool.validation_errors.len()), (policy, 0));
}

#[rstest]
#[case::an_unknown_policy("scaleDownPolicy", json!("Random"), "Random")]
#[case::a_negative_count("replicas", json!(-3), "-3")]
fn what_cannot_be_read_costs_no_machine(#[case] field: &str, #[case] value: Value, #[case] word: &str) {
    let pool = facts(|pool| pool["spec"][field] = value);
    assert_eq!(pool.scale_down_policy, ScaleDownPolicy::Explicit);
    let found = [pool.spec.validation_errors, pool.spec.invalid_settings].concat();
    assert!(found.len() == 1 && found[0].contains(word), "{found:?}");
}

#[test]
fn an_absent_count_is_zero() {
    let pool = facts(|pool| pool["spec"]["replicas"] = Value::Null);
    assert_eq!((pool.desired, pool.validation_errors.len()), (0, 0));
}

#[rstest]
#[case("Running", MachineActivity::Running)]
#[case("Migrating", MachineActivity::Running)]
#[case("Pending", MachineActivity::NotRunning)]
#[case("Stopped", MachineActivity::Stopped)]
#[case("Degraded", MachineActivity::NotRunning)]
#[case("", MachineActivity::NotRunning)]
fn a_machine_is_ready_while_its_guest_runs(#[case] phase: &str, #[case] activity: MachineActivity) {
    let machine = machine_with(|machine| machine["status"] = json!({ "phase": phase }));
    assert_eq!(machine.activity, activity);
}

#[rstest]
#[case("True", true)]
#[case("False", false)]
fn a_machine_says_that_it_waits_for_a_restart(#[case] status: &str, #[case] pending: bool) {
    let machine = machine_with(|machine| {
        // DVP omits fields that the standard type requires.
        machine["status"]["conditions"] =
            json!([{ "type": "AwaitingRestartToApplyConfiguration", "status": status }]);
    });
    assert_eq!(machine.restart_pending, pending);
}

#[test]
fn only_a_controller_is_an_owner() {
    let machine =
        machine_with(|machine| machine["metadata"]["ownerReferences"][0]["controller"] = json!(false));
    assert_eq!(machine.owner, None);
}

#[test]
fn a_stored_object_keeps_what_is_read_and_nothing_that_is_large() {
    let pool = pool_with(|_| {});
    let metadata = &pool.metadata;
    assert_eq!(metadata.managed_fields, None);
    assert_eq!(metadata.resource_version.as_deref(), Some("4711"));
    assert_eq!((metadata.generation, metadata.uid.as_deref()), (Some(3), Some("9b1c0d4e")));
    assert!(metadata.creation_timestamp.is_some());

    let mut body = written(&pool);
    body["metadata"]["managedFields"] = sample()["metadata"]["managedFields"].clone();
    body["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
    let machine: DvpMachineObject = serde_json::from_value(body).unwrap();
    assert_eq!(machine.metadata.managed_fields, None);
    assert!(machine.metadata.owner_references.is_some() && machine.metadata.annotations.is_some());
    assert!(Dvp::read_machine(&machine).terminating);
}

#[rstest]
#[case::no_policy("/spec/scaleDownPolicy", Value::Null, "scaleDownPolicy")]
#[case::a_policy_of_another_type("/spec/scaleDownPolicy", json!({}), "scaleDownPolicy")]
#[case::a_count_of_another_type("/spec/replicas", json!("four"), "four")]
#[case::no_template("/spec/virtualMachineTemplate", Value::Null, "virtualMachineTemplate")]
#[case::a_template_of_another_type("/spec/virtualMachineTemplate", json!("small"), "virtualMachineTemplate")]
#[case::no_spec("/spec", Value::Null, "scaleDownPolicy")]
#[case::a_disk_template_without_a_name("/spec/virtualDiskTemplates/0/name", Value::Null, "no name")]
#[case::a_guest_without_provisioning("/spec/virtualMachineTemplate/spec/osType", json!("Legacy"), "Legacy")]
#[case::an_unused_disk("/spec/virtualMachineTemplate/spec/blockDeviceRefs/2/kind", json!("VirtualImage"), "layers")]
#[case::a_foreign_disk("/spec/virtualMachineTemplate/spec/blockDeviceRefs/2/name", json!("data"), "data")]
#[case::a_disk_twice("/spec/virtualMachineTemplate/spec/blockDeviceRefs/2/name", json!("boot"), "boot twice")]
#[case::two_disk_templates_of_one_name("/spec/virtualDiskTemplates/1/name", json!("boot"), "are called boot")]
fn a_pool_that_no_schema_of_ours_would_let_through_has_a_flaw(
    #[case] path: &str,
    #[case] value: Value,
    #[case] word: &str,
) {
    let pool = facts(|pool| match pool.pointer_mut(path) {
        Some(place) => *place = value,
        None => set(pool, path, value),
    });
    assert_eq!(pool.scale_down_policy, ScaleDownPolicy::Explicit);
    let found = [pool.spec.validation_errors, pool.spec.invalid_settings].concat();
    assert!(found.iter().any(|found| found.contains(word)), "{found:?}");
}

#[test]
fn a_flaw_is_short_enough_for_a_status() {
    let pool = facts(|pool| pool["spec"]["scaleDownPolicy"] = json!("x".repeat(100_000)));
    assert!(pool.invalid_settings[0].len() <= 1000, "{}", pool.invalid_settings[0].len());
}

#[rstest]
#[case::of_another_type(json!({ "reclaim": { "onScaleDown": 1 } }), Lifetime::Retained)]
#[case::no_object(json!({ "reclaim": ["Retain"] }), Lifetime::Retained)]
#[case::empty(json!({ "reclaim": {} }), Lifetime::Ephemeral)]
#[case::null(json!({ "reclaim": null }), Lifetime::Ephemeral)]
fn a_policy_that_cannot_be_read_costs_no_disk(#[case] edit: Value, #[case] lifetime: Lifetime) {
    let pool = facts(|pool| pool["spec"]["virtualDiskTemplates"][0]["reclaim"] = edit["reclaim"].clone());
    assert_eq!(pool.disks[0].lifetime, lifetime);
}

#[test]
fn a_status_of_another_controller_is_read_as_far_as_possible() {
    let published = facts(|pool| {
        pool["status"] = json!({
            "replicas": -1,
            "readyReplicas": "two",
            "selector": null,
            "conditions": [
                { "type": "Theirs", "status": "True" },
                { "status": "True" },
                "odd",
                { "type": "Dated", "status": "False", "reason": "R", "message": "M",
                    "lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": 2 },
            ],
        });
    })
    .spec
    .published;
    assert_eq!(published.summary, None);
    let kinds: Vec<&str> = published.conditions.iter().map(|condition| &*condition.kind).collect();
    assert_eq!(kinds, ["Theirs", "Dated"]);
    let dated = &published.conditions[1];
    assert_eq!((&*dated.reason, &*dated.message, dated.observed_generation), ("R", "M", Some(2)));
    assert_eq!(dated.last_transition.to_string(), "2026-01-02T03:04:05Z");
}

#[test]
fn a_device_that_cannot_be_read_keeps_its_place() {
    let machine = machine_with(|machine| {
        machine["spec"]["blockDeviceRefs"] = json!([
            { "kind": "VirtualDisk" }, { "name": "lost" }, 7, null, { "kind": "VirtualDisk", "name": "builders-7xk2d-boot" },
        ]);
    });
    let disks: Vec<_> = machine.disks.iter().map(|disk| (&*disk.disk, disk.position)).collect();
    assert_eq!(disks, [("builders-7xk2d-boot", 4)]);
}

#[rstest]
#[case::nulls(json!({ "spec": null, "status": null }))]
#[case::other_types(json!({ "spec": 1, "status": [] }))]
#[case::other_types_inside(json!({ "spec": { "blockDeviceRefs": {} }, "status": { "phase": 1, "conditions": [1, {}] } }))]
fn a_machine_that_makes_no_sense_is_a_machine_that_does_not_run(#[case] body: Value) {
    let machine = machine_with(|machine| {
        for key in ["spec", "status"] {
            machine[key] = body[key].clone();
        }
    });
    assert_eq!((machine.activity, machine.disks.len()), (MachineActivity::NotRunning, 0));
    assert!(machine.belongs_to(&ObjectId::new("builders", "9b1c0d4e")), "it is in the pool nevertheless");
}

#[rstest]
#[case::not_a_list("{}", "not a JSON list")]
#[case::an_entry_without_a_uid(r#"[{"name":"web-a"}]"#, "missing field `uid`")]
#[case::an_empty_name(r#"[{"name":"","uid":"u"}]"#, "entry 0")]
fn an_unreadable_removal_record_is_a_validation_error_and_deletes_no_machine(
    #[case] text: &str,
    #[case] word: &str,
) {
    let key = vmpool_api::annotations::SCALE_DOWN_TARGETS;
    let pool = facts(|pool| pool["metadata"]["annotations"] = json!({ key: text }));
    assert!(pool.record.is_empty());
    assert_eq!(pool.scale_down_policy, ScaleDownPolicy::Explicit);
    assert!(
        pool.validation_errors[0].contains(key) && pool.validation_errors[0].contains(word),
        "{:?}",
        pool.validation_errors
    );
}

#[test]
fn a_record_of_named_machines_is_no_flaw() {
    let key = vmpool_api::annotations::SCALE_DOWN_TARGETS;
    let text = r#"[{"name":"web-a","uid":"1"},{"name":"web-b","uid":"2","reserved":"r"}]"#;
    let pool = facts(|pool| pool["metadata"]["annotations"] = json!({ key: text }));
    assert_eq!((pool.record.to_string().as_str(), pool.validation_errors.len()), (text, 0));
    assert_eq!(pool.scale_down_policy, ScaleDownPolicy::OldestFirst);
}

#[test]
fn empty_names_are_left_out_of_machines_and_of_the_identity_of_the_template() {
    let names = |pool: &mut Value| {
        let spec = &mut pool["spec"]["virtualMachineTemplate"]["spec"];
        for name in ["virtualMachineClassName", "priorityClassName", "virtualMachineIPAddressName"] {
            spec[name] = json!("");
        }
        spec["networks"] = json!([{ "type": "Main", "name": "", "ipAddressName": "" }]);
    };
    let absent = |pool: &mut Value| {
        let spec = pool["spec"]["virtualMachineTemplate"]["spec"].as_object_mut().unwrap();
        spec.remove("virtualMachineClassName");
        spec.insert("networks".to_owned(), json!([{ "type": "Main" }]));
    };
    assert_eq!(revision(names), revision(absent));
    let machine = written(&pool_with(names));
    let spec = machine["spec"].as_object().unwrap();
    for name in ["virtualMachineClassName", "priorityClassName", "virtualMachineIPAddressName"] {
        assert!(!spec.contains_key(name), "{name}: {machine}");
    }
    assert_eq!(machine["spec"]["networks"], json!([{ "type": "Main" }]));
}
