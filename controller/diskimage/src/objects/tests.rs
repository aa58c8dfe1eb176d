use std::collections::BTreeSet;

use rstest::rstest;

use super::*;
use crate::clone_permission::Account;
use crate::model::Transfer;
use crate::read::backing;

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
fn each_source_type_has_its_source(#[case] image: VmDiskImage, #[case] source: Value) {
    assert_eq!(data_volume(&image, &[])["spec"]["source"], source);
}

#[test]
fn the_objects_get_the_class_and_the_labels_that_are_copied() {
    let volume = data_volume(&http(), &copied());
    assert_eq!(volume["spec"]["storage"]["resources"]["requests"]["storage"], "10Gi");
    assert_eq!(volume["spec"]["storage"]["storageClassName"], "fast");
    assert_eq!(volume["metadata"]["annotations"][BIND_IMMEDIATELY], "true");
    let labels = json!({ "instancetype.kubevirt.io/default-preference": "linux", IMAGE_UID: "uid-image" });
    let snapshot = snapshot(&http(), &copied());
    assert_eq!(snapshot["spec"]["volumeSnapshotClassName"], "snap");
    for object in [volume, snapshot, data_source(&http(), DataTarget::Snapshot, &copied())] {
        assert_eq!(object["metadata"]["labels"], labels, "other tools track by label");
    }
}

#[test]
fn what_is_created_is_recognized() {
    let volume = serde_json::from_value(data_volume(&http(), &[])).unwrap();
    let volume = backing::data_volume(&volume);
    assert_eq!(volume.owner.as_deref(), Some("uid-image"));
    assert_eq!(volume.label.as_deref(), Some("uid-image"));
    assert_eq!(volume.object.transfer, Transfer::InProgress);
    let snapshot = serde_json::from_value(snapshot(&http(), &[])).unwrap();
    assert_eq!(backing::snapshot(&snapshot).0.owner.as_deref(), Some("uid-image"));
    for target in [DataTarget::Snapshot, DataTarget::Claim] {
        let source = serde_json::from_value(data_source(&http(), target, &[])).unwrap();
        let source = backing::data_source(&source);
        assert_eq!(source.object.target, Some(target));
        assert_eq!(source.owner.as_deref(), Some("uid-image"));
    }
}

#[test]
fn a_data_source_of_other_data_points_to_nothing_of_the_image() {
    let mut source = data_source(&http(), DataTarget::Snapshot, &[]);
    source["spec"]["source"]["snapshot"]["name"] = json!("other");
    let source = serde_json::from_value(source).unwrap();
    assert_eq!(backing::data_source(&source).object.target, None);
}

#[test]
fn the_role_permits_to_clone_this_image_only() {
    let account = Account { namespace: "team-a".to_owned(), name: "default".to_owned() };
    let permission = ClonePermission {
        name: "vmdi-clone-0123456789".to_owned(),
        source: "debian".to_owned(),
        accounts: BTreeSet::from([account]),
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
