//! Objects by which a user tries to use the memory that all pools share.

use rstest::rstest;
use serde_json::{Value, json};
use vmpool_engine::limits;
use vmpool_engine::model::ScaleDownPolicy;

use super::super::super::objects::{DvpAttachmentObject, DvpDiskObject, DvpMachineObject, DvpPoolObject};
use super::super::{read_attachment, read_disk, read_machine, read_pool};

const PREFIX: &str = "vmpool.virtualization.deckhouse.io";

/// The permitted size of a cached object in addition to a spec of the maximum length.
const SOME: usize = 64 * 1024;

fn hostile_pool() -> Value {
    json!({
        "metadata": { "name": "builders", "namespace": "team-a", "uid": "p" },
        "spec": {
            "replicas": 3,
            "scaleDownPolicy": "OldestFirst",
            "virtualMachineTemplate": { "spec": {
                "blockDeviceRefs": [{ "kind": "VirtualDisk", "name": "root" }],
                "tolerations": vec![json!({ "key": "a" }); 60_000],
            }},
            "virtualDiskTemplates": [{ "name": "root", "spec": {} }],
        },
    })
}

/// A map of many keys that the controller does not use.
fn many_keys() -> Value {
    (0..50_000).map(|number| (format!("k{number}"), json!("v"))).collect()
}

fn taken(object: &impl std::fmt::Debug) -> usize {
    format!("{object:?}").len()
}

#[test]
fn a_pool_with_a_spec_that_is_too_long_is_invalid_and_its_template_is_not_kept() {
    let object: DvpPoolObject = serde_json::from_value(hostile_pool()).unwrap();
    let facts = read_pool(&object);
    assert!(taken(&object) + taken(&facts) < SOME);
    assert!(
        facts.validation_errors[0].contains("more than the limit of 131072"),
        "{:?}",
        facts.validation_errors
    );
    assert_eq!(facts.validation_errors.len(), 1, "{:?}", facts.validation_errors);
    // The count is read, and no machine is removed.
    assert_eq!((facts.desired, facts.scale_down_policy), (3, ScaleDownPolicy::Explicit));
}

/// The pool with a spec of this number of bytes.
fn pool_of(size: usize) -> Value {
    let mut object = hostile_pool();
    let template = &mut object["spec"]["virtualMachineTemplate"]["spec"];
    template["tolerations"] = json!([]);
    template["priorityClassName"] = json!("");
    let padding = size - object["spec"].to_string().len();
    object["spec"]["virtualMachineTemplate"]["spec"]["priorityClassName"] = json!("p".repeat(padding));
    object
}

#[test]
fn a_pool_is_valid_up_to_the_limit_of_its_spec() {
    let validation_errors =
        |size| read_pool(&serde_json::from_value(pool_of(size)).unwrap()).spec.validation_errors;
    assert_eq!(validation_errors(limits::POOL_SPEC), Vec::<String>::new());
    assert_eq!(validation_errors(limits::POOL_SPEC + 1).len(), 1);
}

#[test]
fn of_many_validation_errors_some_are_kept() {
    let mut object = hostile_pool();
    let templates: Vec<Value> = (0..200).map(|number| json!({ "name": format!("t{number}") })).collect();
    object["spec"]["virtualMachineTemplate"]["spec"]["tolerations"] = json!([]);
    object["spec"]["virtualDiskTemplates"] = templates.into();
    assert_eq!(
        read_pool(&serde_json::from_value(object).unwrap()).validation_errors.len(),
        limits::VALIDATION_ERRORS
    );
}

#[test]
fn labels_annotations_and_owners_of_others_are_not_kept() {
    let owners: Vec<Value> = (0..5_000)
        .map(|number| {
            let name = format!("owner-{number}");
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": "u", "controller": number == 4_999 })
        })
        .collect();
    let metadata = json!({
        "name": "a", "namespace": "team-a", "uid": "p",
        "labels": many_keys(), "annotations": many_keys(), "ownerReferences": owners,
    });
    let object = json!({ "metadata": metadata });
    let pool_object: DvpPoolObject = serde_json::from_value(object.clone()).unwrap();
    assert!(taken(&pool_object) < SOME);
    // The controller owner is found at any position.
    let disk = read_disk(&serde_json::from_value::<DvpDiskObject>(object).unwrap());
    assert_eq!(disk.owner.map(|owner| owner.id.name), Some("owner-4999".into()));
}

#[test]
fn a_machine_is_kept_with_no_more_devices_than_any_machine_has() {
    let device = |number: usize| json!({ "kind": "VirtualDisk", "name": format!("d{number}") });
    let devices: Vec<Value> = (0..50_000).map(device).collect();
    let object = json!({
        "metadata": { "name": "a", "uid": "a" },
        "spec": { "blockDeviceRefs": devices }, "status": { "blockDeviceRefs": devices },
    });
    let machine = read_machine(&serde_json::from_value::<DvpMachineObject>(object).unwrap());
    assert_eq!((machine.disks.len(), machine.lingering.len()), (limits::ENTRIES, 0));
    assert_eq!(&*machine.disks[16].disk, "d16");
}

#[rstest]
#[case::a_device(json!({ "spec": { "blockDeviceRefs": [{ "kind": "VirtualDisk", "name": long() }] } }))]
#[case::a_revision(json!({ "metadata": { "annotations": { format!("{PREFIX}/patched-template-hash"): long() } } }))]
#[case::a_claim(json!({ "metadata": { "annotations": { format!("{PREFIX}/claimed-by"): long() } } }))]
#[case::an_owner(json!({ "metadata": { "ownerReferences": [
    { "apiVersion": "v1", "kind": "ConfigMap", "name": long(), "uid": long(), "controller": true }] } }))]
#[case::a_template(json!({
    "metadata": { "annotations": { format!("{PREFIX}/disks"): json!({ long(): "d" }).to_string() } },
    "spec": { "blockDeviceRefs": [{ "kind": "VirtualDisk", "name": "d" }] } }))]
#[case::an_attachment(json!({ "spec": { "blockDeviceRef": { "kind": "VirtualDisk", "name": long() } } }))]
fn a_name_that_is_longer_than_any_is_not_kept(#[case] body: Value) {
    let mut object = json!({ "metadata": { "name": "a", "uid": "a" } });
    json_patch::merge(&mut object, &body);
    let machine = read_machine(&serde_json::from_value::<DvpMachineObject>(object.clone()).unwrap());
    let disk = read_disk(&serde_json::from_value::<DvpDiskObject>(object.clone()).unwrap());
    let attachment = read_attachment(&serde_json::from_value::<DvpAttachmentObject>(object).unwrap());
    assert!(taken(&(machine, disk, attachment)) < 4096);
}

fn long() -> String {
    "x".repeat(100_000)
}

/// A value of this number of nested lists: JSON of a few kilobytes that decoders refuse.
fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(0), |inner, _| json!([inner]))
}

#[rstest]
#[case::a_template("/spec/virtualMachineTemplate/spec/provisioning")]
#[case::metadata_of_a_template("/spec/virtualMachineTemplate/metadata")]
#[case::a_count("/spec/replicas")]
#[case::a_rollout("/spec/rollout")]
#[case::a_history("/spec/revisionHistoryLimit")]
#[case::a_disk_template("/spec/virtualDiskTemplates/0/spec")]
#[case::a_reclaim_policy("/spec/virtualDiskTemplates/0/reclaim")]
#[case::a_foreign_field("/spec/foreign")]
fn a_pool_with_deep_nesting_is_invalid_and_keeps_its_machines(#[case] field: &str) {
    let mut object = hostile_pool();
    object["spec"]["virtualMachineTemplate"]["spec"]["tolerations"] = json!([]);
    let (parent, key) = field.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[key] = nested(500);
    // The object is decoded from text, as from the API server.
    let object: DvpPoolObject = serde_json::from_str(&object.to_string()).unwrap();
    let facts = read_pool(&object);
    assert_eq!(facts.scale_down_policy, ScaleDownPolicy::Explicit, "no machine is removed");
    assert_eq!(facts.desired, if field == "/spec/replicas" { 0 } else { 3 });
    assert!(
        facts.validation_errors.iter().any(|flaw| flaw.contains("nested")),
        "{:?}",
        facts.validation_errors
    );
}
