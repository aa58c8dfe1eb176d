use std::collections::BTreeSet;

use rstest::rstest;

use super::*;
use crate::clone_permission::Account;
use crate::model::{DataKind, Transfer};
use crate::read::backing::{self, OwnedObject};

const OWNER: &str = "uid-image";
const OTHER: &str = "uid-other";

fn image(spec: &Value) -> VmDiskImage {
    serde_json::from_value(json!({
        "apiVersion": API_VERSION,
        "kind": "VMDiskImage",
        "metadata": {
            "name": "debian", "namespace": "images", "uid": "uid-image",
            "labels": { "instancetype.kubevirt.io/default-preference": "linux", "argocd.argoproj.io/instance": "a" },
        },
        "spec": spec,
    }))
    .unwrap()
}

fn http() -> VmDiskImage {
    image(&json!({ "sourceType": "http", "url": "https://h/a.raw", "diskSize": "10Gi", "secretRef": "s",
        "certConfigMap": "c", "checksum": "md5:0", "storageClass": "fast", "snapshotClass": "snap" }))
}

fn copied() -> Vec<String> {
    vec!["instancetype.kubevirt.io/".to_owned()]
}

#[rstest]
#[case::http(http(), json!({ "http": { "url": "https://h/a.raw", "secretRef": "s", "certConfigMap": "c", "checksum": "md5:0" } }))]
#[case::s3(
    image(&json!({ "sourceType": "s3", "url": "https://h/b/a", "diskSize": "1Gi", "secretRef": "s" })),
    json!({ "s3": { "url": "https://h/b/a", "secretRef": "s" } })
)]
#[case::registry(
    image(&json!({ "sourceType": "registry", "url": "docker://h/a", "diskSize": "1Gi", "certConfigMap": "c" })),
    json!({ "registry": { "url": "docker://h/a", "certConfigMap": "c" } })
)]
#[case::blank(image(&json!({ "sourceType": "blank", "diskSize": "1Gi" })), json!({ "blank": {} }))]
#[case::options_of_http(
    image(&json!({ "sourceType": "http", "url": "https://h/a", "diskSize": "1Gi", "insecureSkipVerify": true,
        "extraHeaders": ["X-Mirror: eu"], "secretExtraHeaders": ["token"] })),
    json!({ "http": { "url": "https://h/a", "insecureSkipVerify": true, "extraHeaders": ["X-Mirror: eu"],
        "secretExtraHeaders": ["token"] } })
)]
#[case::a_registry_by_a_node(
    image(&json!({ "sourceType": "registry", "url": "docker://h/a", "diskSize": "1Gi", "pullMethod": "node" })),
    json!({ "registry": { "url": "docker://h/a", "pullMethod": "node" } })
)]
#[case::gcs(
    image(&json!({ "sourceType": "gcs", "url": "gs://b/a", "diskSize": "1Gi", "secretRef": "s" })),
    json!({ "gcs": { "url": "gs://b/a", "secretRef": "s" } })
)]
#[case::a_claim_of_its_namespace(
    image(&json!({ "sourceType": "pvc", "sourceName": "golden", "diskSize": "1Gi" })),
    json!({ "pvc": { "namespace": "images", "name": "golden" } })
)]
#[case::a_snapshot_of_its_namespace(
    image(&json!({ "sourceType": "snapshot", "sourceName": "golden", "diskSize": "1Gi" })),
    json!({ "snapshot": { "namespace": "images", "name": "golden" } })
)]
#[case::upload(image(&json!({ "sourceType": "upload", "diskSize": "1Gi" })), json!({ "upload": {} }))]
fn each_source_type_has_its_source(#[case] image: VmDiskImage, #[case] source: Value) {
    assert_eq!(data_volume_object(&image, &[])["spec"]["source"], source);
}

#[test]
fn the_objects_get_the_class_and_the_labels_that_are_copied() {
    let volume = data_volume_object(&http(), &copied());
    assert_eq!(volume["spec"]["storage"]["resources"]["requests"]["storage"], "10Gi");
    assert_eq!(volume["spec"]["storage"]["storageClassName"], "fast");
    let annotations = &volume["metadata"]["annotations"];
    assert_eq!(
        (&annotations[BIND_IMMEDIATELY], &annotations[DELETE_AFTER_COMPLETION]),
        (&json!("true"), &json!("false"))
    );
    let labels = json!({ "instancetype.kubevirt.io/default-preference": "linux", IMAGE_UID: "uid-image" });
    let snapshot = snapshot_object(&http(), &copied());
    assert_eq!(snapshot["spec"]["volumeSnapshotClassName"], "snap");
    for object in [volume, snapshot, data_source_object(&http(), DataTarget::Snapshot, &copied())] {
        assert_eq!(object["metadata"]["labels"], labels, "other tools track by label");
    }
}

#[test]
fn what_is_created_is_recognized() {
    let volume = serde_json::from_value(data_volume_object(&http(), &[])).unwrap();
    let volume = backing::read_data_volume(&volume);
    assert!(volume.is_of("uid-image") && !volume.is_of("uid-other"));
    assert_eq!(volume.controller(), None, "the image controls nothing");
    assert_eq!(volume.object.transfer, Transfer::InProgress);
    let snapshot = serde_json::from_value(snapshot_object(&http(), &[])).unwrap();
    let snapshot = backing::read_snapshot(&snapshot).0;
    assert!(snapshot.is_of("uid-image") && snapshot.controller().is_none());
    for target in [DataTarget::Snapshot, DataTarget::Claim] {
        let source = serde_json::from_value(data_source_object(&http(), target, &[])).unwrap();
        let source = backing::read_data_source(&source);
        assert_eq!(source.object.target, Some(target));
        assert!(source.is_of("uid-image") && source.controller().is_none());
    }
}

#[rstest]
#[case::with_the_label(json!({ IMAGE_UID: "uid-image" }), json!([]), Some(false))]
#[case::of_an_earlier_version(json!({ IMAGE_UID: "uid-image" }), json!([("uid-image", true)]), Some(true))]
#[case::of_an_earlier_version_without_its_label(json!({}), json!([("uid-image", true)]), Some(true))]
#[case::with_another_owner(json!({ IMAGE_UID: "uid-image" }), json!([("uid-other", false)]), Some(false))]
#[case::that_another_object_controls(json!({ IMAGE_UID: "uid-image" }), json!([("uid-other", true)]), None)]
#[case::of_another_image(json!({ IMAGE_UID: "uid-other" }), json!([]), None)]
#[case::without_a_label(json!({}), json!([]), None)]
fn an_object_belongs_to_an_image(#[case] labels: Value, #[case] owners: Value, #[case] owned: Option<bool>) {
    let (found, is_owned) = found(labels, &owners, "uid-former");
    assert_eq!((found, is_owned), (owned.is_some(), owned == Some(true)));
}

#[rstest]
#[case::without_its_label(json!({}), json!([]), true)]
#[case::with_the_label_of_another_image(json!({ IMAGE_UID: "uid-other" }), json!([]), true)]
#[case::that_another_object_controls(json!({ IMAGE_UID: "uid-image" }), json!([("uid-other", true)]), false)]
fn the_object_that_the_status_names_belongs_to_the_image(
    #[case] labels: Value,
    #[case] owners: Value,
    #[case] expected: bool,
) {
    assert_eq!(found(labels, &owners, "uid-volume").0, expected);
}

/// Whether a DataVolume belongs to the image, whose status has this UID, and whether the image owns it.
fn found(labels: Value, owners: &Value, recorded: &str) -> (bool, bool) {
    let mut object = data_volume_object(&http(), &[]);
    object["metadata"]["labels"] = labels;
    object["metadata"]["uid"] = json!("uid-volume");
    let owners = owners.as_array().unwrap().iter().map(|owner| {
        json!({ "apiVersion": API_VERSION, "kind": "VMDiskImage", "name": "debian",
            "uid": owner[0], "controller": owner[1] })
    });
    object["metadata"]["ownerReferences"] = owners.collect();
    let stored = backing::read_data_volume(&serde_json::from_value(object).unwrap());
    let mut image = crate::read::image::read_image(&http(), &[]);
    image.status.data_volume = Some(recorded.to_owned());
    let found = OwnedObject::found(Some(&stored), &image, DataKind::DataVolume);
    let owned = OwnedObject::owned(Some(&stored), &image, DataKind::DataVolume);
    assert!(owned.as_ref().is_none_or(|(_, uid)| uid == "uid-volume"), "{owned:?}");
    (found.ours().is_some(), owned.is_some())
}

#[rstest]
#[case::as_they_were_created(|_: &mut VmDiskImage, _: &mut Value| {}, None)]
#[case::after_a_label_of_the_image_changed(
    |image: &mut VmDiskImage, _: &mut Value| set(image, PREFERENCE, "windows"),
    Some(json!({ "labels": { PREFERENCE: "windows" }, "annotations": { COPIED_LABELS: PREFERENCE } }))
)]
#[case::after_the_image_got_another_one(
    |image: &mut VmDiskImage, _: &mut Value| set(image, "instancetype.kubevirt.io/a", "b"),
    Some(json!({ "labels": { "instancetype.kubevirt.io/a": "b" },
        "annotations": { COPIED_LABELS: format!("instancetype.kubevirt.io/a,{PREFERENCE}") } }))
)]
#[case::after_the_image_lost_its_label(
    |image: &mut VmDiskImage, _: &mut Value| image.metadata.labels = None,
    Some(json!({ "labels": { PREFERENCE: null }, "annotations": { COPIED_LABELS: null } }))
)]
#[case::after_the_object_lost_a_label(
    |_: &mut VmDiskImage, object: &mut Value| drop(object["labels"].as_object_mut().unwrap().remove(PREFERENCE)),
    Some(json!({ "labels": { PREFERENCE: "linux" }, "annotations": { COPIED_LABELS: PREFERENCE } }))
)]
#[case::after_the_object_lost_all(
    |_: &mut VmDiskImage, object: &mut Value| object["labels"] = Value::Null,
    Some(json!({ "labels": { PREFERENCE: "linux", IMAGE_UID: "uid-image" },
        "annotations": { COPIED_LABELS: PREFERENCE } }))
)]
#[case::with_a_label_of_a_user(
    |_: &mut VmDiskImage, object: &mut Value| object["labels"]["instancetype.kubevirt.io/mine"] = json!("a"),
    None
)]
#[case::of_an_earlier_version_without_the_annotation(
    |image: &mut VmDiskImage, object: &mut Value| {
        image.metadata.labels = None;
        object["annotations"] = Value::Null;
    },
    None
)]
fn objects_keep_the_labels_of_the_image(
    #[case] change: fn(&mut VmDiskImage, &mut Value),
    #[case] expected: Option<Value>,
) {
    let mut image = http();
    let mut object = data_source_object(&image, DataTarget::Snapshot, &copied())["metadata"].take();
    change(&mut image, &mut object);
    let stored: ObjectMeta = serde_json::from_value(object.clone()).unwrap();
    let patch = label_patch(&image, &copied(), ImageObjectLabels::read(&stored).as_deref());
    assert_eq!(patch, expected.map(|metadata| json!({ "metadata": metadata })));
    if let Some(patch) = patch {
        json_patch::merge(&mut object, &patch["metadata"]);
        let stored: ObjectMeta = serde_json::from_value(object).unwrap();
        assert_eq!(
            label_patch(&image, &copied(), ImageObjectLabels::read(&stored).as_deref()),
            None,
            "it writes once"
        );
    }
}

const PREFERENCE: &str = "instancetype.kubevirt.io/default-preference";

fn set(image: &mut VmDiskImage, label: &str, value: &str) {
    image.metadata.labels.get_or_insert_default().insert(label.to_owned(), value.to_owned());
}

#[rstest]
#[case::from_its_creation(json!([OWNER]), json!({ IMAGE_UID: "uid-image", "a": "b" }), json!([]))]
#[case::beside_another_one(json!([OTHER, OWNER]), json!({ IMAGE_UID: "uid-image", "a": "b" }), json!([OTHER]))]
#[case::without_the_label(json!([OWNER]), json!({ "a": "b" }), json!([]))]
#[case::without_labels(json!([OWNER]), Value::Null, json!([]))]
fn an_object_loses_its_owner_and_stays_an_object_of_the_image(
    #[case] owners: Value,
    #[case] labels: Value,
    #[case] left: Value,
) {
    let owners: Vec<Value> = owners
        .as_array()
        .unwrap()
        .iter()
        .map(|uid| json!({ "apiVersion": API_VERSION, "kind": "VMDiskImage", "name": "debian", "uid": uid }))
        .collect();
    let mut object = json!({ "metadata": { "name": "debian", "uid": "uid-volume", "resourceVersion": "1", "ownerReferences": owners } });
    if !labels.is_null() {
        object["metadata"]["labels"] = labels.clone();
    }
    let metadata: ObjectMeta = serde_json::from_value(object["metadata"].clone()).unwrap();
    let operations: json_patch::Patch =
        serde_json::from_value(owner_removal_patch(&metadata, OWNER).unwrap()).unwrap();
    // What other clients have changed meanwhile stays.
    object["metadata"]["annotations"] = json!({ "c": "d" });
    json_patch::patch(&mut object, &operations).unwrap();
    let uids: Vec<&Value> =
        object["metadata"]["ownerReferences"].as_array().unwrap().iter().map(|owner| &owner["uid"]).collect();
    assert_eq!(json!(uids), left);
    let mut expected = labels;
    expected[IMAGE_UID] = json!("uid-image");
    assert_eq!(object["metadata"]["labels"], expected);
    // An object of another one, and one whose owners have changed, stays.
    assert_eq!(owner_removal_patch(&metadata, "uid-next"), None);
    for changed in [json!({ "uid": "uid-next" }), json!({ "ownerReferences": [] })] {
        let mut object = json!({ "metadata": { "uid": "uid-volume", "labels": {}, "ownerReferences": [] } });
        json_patch::merge(&mut object, &json!({ "metadata": changed }));
        json_patch::patch(&mut object, &operations).unwrap_err();
    }
}

#[test]
fn a_data_source_of_other_data_points_to_nothing_of_the_image() {
    let mut source = data_source_object(&http(), DataTarget::Snapshot, &[]);
    source["spec"]["source"]["snapshot"]["name"] = json!("other");
    let source = serde_json::from_value(source).unwrap();
    assert_eq!(backing::read_data_source(&source).object.target, None);
}

#[test]
fn the_role_permits_to_clone_this_image_only() {
    let account = Account { namespace: "team-a".to_owned(), name: "default".to_owned() };
    let permission = ClonePermission {
        name: "vmdi-clone-0123456789".to_owned(),
        source: "debian".to_owned(),
        accounts: BTreeSet::from([account]),
        left_out: Vec::new(),
    };
    let role = clone_role(&http(), &permission);
    assert_eq!(
        role["rules"],
        json!([{ "apiGroups": ["cdi.kubevirt.io"], "resources": ["datavolumes/source"],
            "resourceNames": ["debian"], "verbs": ["create"] }])
    );
    let binding = clone_role_binding(&http(), &permission);
    assert_eq!(
        binding["subjects"],
        json!([{ "kind": "ServiceAccount", "namespace": "team-a", "name": "default" }])
    );
    assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
}
