use proptest::prelude::*;
use rstest::rstest;

use super::super::fixtures;
use super::*;

const OURS: &str = "pool.kubevirt.io/finalizer";

fn object(finalizers: &[String], owners: &[Value]) -> Value {
    json!({ "metadata": {
        "uid": "u", "resourceVersion": "7", "finalizers": finalizers, "ownerReferences": owners,
    } })
}

fn patched(object: &Value, patch: Value) -> Result<Value, json_patch::PatchError> {
    let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
    let mut result = object.clone();
    json_patch::patch(&mut result, &patch).map(|()| result)
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

const TARGET: PatchTarget<'static> = PatchTarget { uid: "u", resource_version: "7" };

#[rstest]
#[case::none(&[])]
#[case::one(&["theirs"])]
#[case::two(&["a", "b"])]
fn the_finalizer_is_appended_and_removed_again(#[case] finalizers: &[&str]) {
    let finalizers = texts(finalizers);
    let before = object(&finalizers, &[]);
    let with = patched(&before, add_finalizer(TARGET, FinalizerSummary::of(&finalizers)).unwrap()).unwrap();
    let mut expected = finalizers.clone();
    expected.push(OURS.to_owned());
    assert_eq!(with["metadata"]["finalizers"], json!(expected));
    assert_eq!(add_finalizer(TARGET, FinalizerSummary::of(&expected)), None);
    let without = patched(&with, remove_finalizer("u", FinalizerSummary::of(&expected)).unwrap()).unwrap();
    assert_eq!(without, before);
    assert_eq!(remove_finalizer("u", FinalizerSummary::of(&finalizers)), None);
}

#[rstest]
#[case::without_annotations(None)]
#[case::with_annotations(Some(BTreeMap::from([("a/b".to_owned(), "c".to_owned())])))]
fn a_pool_gets_the_record_of_its_machines_once(#[case] annotations: Option<BTreeMap<String, String>>) {
    let mut pool = ObjectMeta {
        name: Some("web".to_owned()),
        uid: Some("u".to_owned()),
        annotations,
        ..ObjectMeta::default()
    };
    let before = json!({ "metadata": pool });
    let with = patched(&before, json!([record_machines_of(&pool).unwrap()])).unwrap();
    let mut expected = pool.annotations.clone().unwrap_or_default();
    expected.insert(MACHINES_OF.to_owned(), "web/u".to_owned());
    assert_eq!(with["metadata"]["annotations"], json!(expected));
    // The record of a former pool stays until a user decides.
    expected.insert(MACHINES_OF.to_owned(), "web/former".to_owned());
    pool.annotations = Some(expected);
    assert_eq!(record_machines_of(&pool), None);
}

#[test]
fn the_finalizer_of_a_changed_object_is_not_added() {
    let mut object = object(&[], &[]);
    object["metadata"]["resourceVersion"] = "8".into();
    patched(&object, add_finalizer(TARGET, FinalizerSummary::default()).unwrap()).unwrap_err();
}

#[test]
fn a_finalizer_of_another_client_is_not_removed() {
    let patch = remove_finalizer("u", FinalizerSummary::of(&texts(&["a", OURS]))).unwrap();
    // Meanwhile another client removed its own finalizer and added another.
    patched(&object(&texts(&[OURS, "b"]), &[]), patch.clone()).unwrap_err();
    let mut another = object(&texts(&["a", OURS]), &[]);
    another["metadata"]["uid"] = "another".into();
    patched(&another, patch).unwrap_err();
}

/// A machine with these owners.
fn metadata(owners: &Value) -> ObjectMeta {
    serde_json::from_value(json!({ "uid": "u", "ownerReferences": owners })).unwrap()
}

fn theirs() -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "t" })
}

#[rstest]
#[case::ours_only(json!([fixtures::recorded_owner_reference()]), json!([]))]
#[case::ours_last(json!([theirs(), fixtures::recorded_owner_reference()]), json!([theirs()]))]
#[case::ours_first(json!([fixtures::recorded_owner_reference(), theirs()]), json!([theirs()]))]
#[case::ours_of_an_older_version(
    json!([{"apiVersion": "pool.kubevirt.io/v1alpha1", "kind": "VirtualMachinePool",
        "name": "herd", "uid": fixtures::POOL_UID,
        "controller": true}]),
    json!([]))]
fn a_release_removes_exactly_the_pool(#[case] before: Value, #[case] after: Value) {
    let finalizers = texts(&["a", OURS, "b"]);
    let object = object(&finalizers, before.as_array().unwrap());
    let patch = release_machine(&metadata(&before), FinalizerSummary::of(&finalizers)).unwrap();
    let result = patched(&object, patch).unwrap();
    assert_eq!(result["metadata"]["ownerReferences"], after);
    assert_eq!(result["metadata"]["finalizers"], json!(["a", "b"]));
    assert_eq!(release_machine(&metadata(&after), FinalizerSummary::of(&texts(&["a", "b"]))), None);
}

#[rstest]
#[case::of_another_group(json!({ "apiVersion": "no.such.group/v1" }))]
#[case::of_another_kind(json!({ "kind": "VirtualMachine" }))]
fn a_release_leaves_a_controller_with_the_uid_alone(#[case] edit: Value) {
    let mut owner = fixtures::recorded_owner_reference();
    json_patch::merge(&mut owner, &edit);
    assert_eq!(release_machine(&metadata(&json!([owner])), FinalizerSummary::of(&texts(&[]))), None);
}

#[test]
fn a_detached_machine_loses_only_the_finalizer() {
    let finalizers = texts(&[OURS]);
    let patch = release_machine(&metadata(&json!([theirs()])), FinalizerSummary::of(&finalizers)).unwrap();
    let result = patched(&object(&finalizers, &[theirs()]), patch).unwrap();
    assert_eq!(result["metadata"]["ownerReferences"], json!([theirs()]));
    assert_eq!(result["metadata"]["finalizers"], json!([]));
}

/// A DataVolume of a machine, as KubeVirt creates it.
fn data_volume(owner: &str, labels: &Value) -> Value {
    json!({ "metadata": {
        "name": "root-0", "uid": "d", "resourceVersion": "9", "labels": labels,
        "ownerReferences": [theirs(), {
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "herd-3", "uid": owner,
            "controller": true, "blockOwnerDeletion": true,
        }],
    } })
}

fn preserved(object: &Value) -> Option<Value> {
    let metadata: ObjectMeta = serde_json::from_value(object["metadata"].clone()).unwrap();
    let machine = ObjectId::new("herd-3", fixtures::MACHINE_UID);
    preserve_storage(&metadata, &machine, &ObjectId::new("herd", fixtures::POOL_UID))
}

#[rstest]
#[case::with_labels(json!({"kubevirt.io/created-by": "x"}), json!({
    "kubevirt.io/created-by": "x", "vmpool.dev/preserved-pool": "herd", "vmpool.dev/preserved-ordinal": "3"}))]
#[case::without_labels(json!(null), json!({"vmpool.dev/preserved-pool": "herd", "vmpool.dev/preserved-ordinal": "3"}))]
fn preserved_storage_has_no_machine_and_names_pool_and_ordinal(#[case] labels: Value, #[case] after: Value) {
    let object = data_volume(fixtures::MACHINE_UID, &labels);
    let result = patched(&object, preserved(&object).unwrap()).unwrap();
    assert_eq!(result["metadata"]["ownerReferences"], json!([theirs()]));
    assert_eq!(result["metadata"]["labels"], after);
    assert_eq!(preserved(&result), None);
}

#[test]
fn storage_of_another_machine_is_not_touched() {
    assert_eq!(preserved(&data_volume("another", &json!({}))), None);
    let mut object = data_volume(fixtures::MACHINE_UID, &json!({}));
    object["metadata"]["ownerReferences"][1]["controller"] = false.into();
    assert_eq!(preserved(&object), None, "the machine owns it and does not control it");
}

#[test]
fn storage_whose_owners_changed_is_not_patched() {
    let object = data_volume(fixtures::MACHINE_UID, &json!({ "a": "b" }));
    let patch = preserved(&object).unwrap();
    let mut changed = object;
    changed["metadata"]["ownerReferences"][0] = changed["metadata"]["ownerReferences"][1].take();
    changed["metadata"]["ownerReferences"][1] = theirs();
    patched(&changed, patch).unwrap_err();
}

proptest! {
    #[test]
    fn a_release_keeps_all_other_entries(
        finalizers in prop::collection::vec(prop_oneof![Just("a"), Just("b"), Just(OURS)], 0..5),
        uids in prop::collection::btree_set(prop_oneof![Just("x"), Just("y"), Just(fixtures::POOL_UID)], 0..3),
    ) {
        let finalizers = texts(&finalizers);
        let list: Vec<Value> = uids
            .iter()
            .map(|uid| match *uid {
                fixtures::POOL_UID => fixtures::recorded_owner_reference(),
                uid => json!({ "apiVersion": "v1", "kind": "Pool", "name": "n", "uid": uid }),
            })
            .collect();
        let object = object(&finalizers, &list);
        let patch = release_machine(&metadata(&json!(list)), FinalizerSummary::of(&finalizers));
        let result = patch.map_or(object.clone(), |patch| patched(&object, patch).unwrap());
        let mut expected = finalizers.clone();
        if let Some(place) = expected.iter().position(|finalizer| finalizer == OURS) {
            expected.remove(place);
        }
        prop_assert_eq!(&result["metadata"]["finalizers"], &json!(expected));
        let others: Vec<&Value> = list.iter().filter(|owner| owner["uid"] != fixtures::POOL_UID).collect();
        prop_assert_eq!(&result["metadata"]["ownerReferences"], &json!(others));
    }
}
