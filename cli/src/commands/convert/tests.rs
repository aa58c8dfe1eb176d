use rstest::rstest;
use serde_json::json;
use vmpool_api::diskimage::{VirtualMachine, VmDiskImage};

use super::*;
use crate::testing::{FakeAnswer, answering_cluster};

/// Objects as the other operator stores them, and the machine of the proposal.
const FORMER: &str = "
apiVersion: v1
kind: List
items:
- apiVersion: crd.pelotech.ot/v1alpha1
  kind: VMDiskImage
  metadata:
    name: harrison-vm
    namespace: vmdi-farm
    uid: 0f6d
    resourceVersion: '7'
    labels: {owner: harrison-vm, team: farm}
    annotations: {kubectl.kubernetes.io/last-applied-configuration: '{}'}
    finalizers: [pelotech.ot/vm-disk-image-finalizer]
  spec:
    secretRef: foo-bar
    url: https://s3.us-gov-west-1.amazonaws.com/vm-images/images/harrison-vm/1.0.0/vm.qcow2
    sourceType: s3
    diskSize: 24Gi
    storageClass: gp3
    snapshotClass: ebs-snapshot
  status: {phase: Ready, failureCount: 0}
- apiVersion: crd.pelotech.ot/v1alpha1
  kind: VMDiskImage
  metadata: {name: scratch, namespace: vmdi-farm}
  spec: {secretRef: unused, url: not-provided, sourceType: blank, diskSize: 1Gi}
---
apiVersion: crd.pelotech.ot/v1alpha1
kind: VMDiskImage
metadata: {name: from-registry}
spec:
  secretRef: pull
  certConfigMap: registry-certs
  url: docker://registry.example.com/disks/a:1
  sourceType: registry
  diskSize: 8Gi
---
apiVersion: pelotech.ot/v1alpha1
kind: VirtualMachine
metadata: {name: demo-workspace-1}
spec:
  baseVm: ubuntu_2004_lts_en-us_x64
  version: 2.1.0
  users:
  - {name: demo user, plain_text_passwd: demo-pwd, lock_passwd: false, sudo: 'ALL=(ALL) NOPASSWD:ALL', groups: sudo}
  resources: {cpu: '2', memory: 2Gi, diskSize: 28Gi}
  interfaces:
  - {network: control-net, ipAddress: 10.10.0.161/24}
  vmDiskImageRef: {name: demo-vmdi, namespace: vmdi-farm}
  vmDiskImageTemplate:
    storageClass: gp3
    secretRef: foo-bar
    name: harrison-vm
    url: https://s3.us-gov-west-1.amazonaws.com/vm-images/vm.qcow2
    sourceType: s3
    diskSize: 24Gi
";

fn former(name: &str) -> Value {
    let found = parse_documents(FORMER).unwrap();
    select_objects(found, &[name.to_owned()]).unwrap().remove(0)
}

fn convert(name: &str) -> ConvertedObject {
    convert_object(&former(name), None).unwrap()
}

#[test]
fn an_image_keeps_its_source_and_its_labels() {
    let converted = convert("harrison-vm");
    let expected = json!({
        "apiVersion": "vmpool.dev/v1alpha1", "kind": "VMDiskImage",
        "metadata": { "name": "harrison-vm", "namespace": "vmdi-farm", "labels": { "team": "farm" } },
        "spec": { "sourceType": "s3", "secretRef": "foo-bar", "diskSize": "24Gi", "storageClass": "gp3",
            "url": "https://s3.us-gov-west-1.amazonaws.com/vm-images/images/harrison-vm/1.0.0/vm.qcow2",
            "snapshotClass": "ebs-snapshot" },
    });
    assert_eq!(converted.manifest, expected);
    assert!(converted.notes[0].contains("foo-bar"), "{:?}", converted.notes);
}

#[rstest]
#[case::an_empty_disk("scratch", json!({ "sourceType": "blank", "diskSize": "1Gi" }))]
#[case::a_registry("from-registry", json!({ "sourceType": "registry", "diskSize": "8Gi", "secretRef": "pull",
    "certConfigMap": "registry-certs", "url": "docker://registry.example.com/disks/a:1" }))]
fn an_image_has_only_the_fields_of_its_source(#[case] name: &str, #[case] spec: Value) {
    assert_eq!(convert(name).manifest["spec"], spec);
}

#[test]
fn all_manifests_have_the_types_of_the_api() {
    for object in parse_documents(FORMER).unwrap() {
        let manifest = convert_object(&object, None).unwrap().manifest;
        let typed = match manifest["kind"].as_str() {
            Some("VMDiskImage") => {
                serde_json::to_value(serde_json::from_value::<VmDiskImage>(manifest.clone()).unwrap())
                    .unwrap()
            }
            _ => serde_json::to_value(serde_json::from_value::<VirtualMachine>(manifest.clone()).unwrap())
                .unwrap(),
        };
        assert_eq!(typed, manifest, "a field is lost");
    }
}

#[test]
fn copied_data_needs_neither_the_url_nor_the_secret() {
    let copied = CopiedData { suffix: "-v2".to_owned() };
    let manifest = convert_object(&former("harrison-vm"), Some(&copied)).unwrap().manifest;
    assert_eq!(manifest["metadata"]["name"], "harrison-vm-v2");
    let spec = json!({ "sourceType": "snapshot", "sourceName": "harrison-vm", "diskSize": "24Gi", "storageClass": "gp3",
        "snapshotClass": "ebs-snapshot" });
    assert_eq!(manifest["spec"], spec);
    let wrapper = convert_object(&former("demo-workspace-1"), Some(&copied)).unwrap().manifest;
    assert_eq!(
        wrapper["spec"]["vmDiskImageRef"],
        json!({ "name": "demo-vmdi-v2", "namespace": "vmdi-farm" })
    );
    assert_eq!(wrapper["spec"].get("vmDiskImageTemplate"), None);
}

#[test]
fn the_machine_of_the_proposal_becomes_a_wrapper() {
    let ConvertedObject { manifest, notes } = convert("demo-workspace-1");
    let former = former("demo-workspace-1");
    for field in ["users", "interfaces", "resources", "vmDiskImageRef"] {
        assert_eq!(manifest["spec"][field], former["spec"][field]);
    }
    assert_eq!(manifest["spec"]["vmDiskImageTemplate"]["diskSize"], "24Gi");
    let notes = notes.join("\n");
    assert!(notes.contains("baseVm, version are left out") && notes.contains("clear text"), "{notes}");
    assert!(!notes.contains("demo-pwd"), "{notes}");
}

#[rstest]
#[case::no_url(json!({ "sourceType": "s3", "url": "not-provided", "diskSize": "1Gi" }), "needs one")]
#[case::a_local_url(json!({ "sourceType": "s3", "url": "http://127.0.0.1/a", "diskSize": "1Gi" }), "loopback")]
#[case::another_type(json!({ "sourceType": "ftp", "diskSize": "1Gi" }), "sourceType")]
#[case::no_size(json!({ "sourceType": "blank" }), "diskSize")]
fn an_image_that_cannot_be_imported_is_refused(#[case] spec: Value, #[case] expected: &str) {
    let object = json!({ "apiVersion": "crd.pelotech.ot/v1alpha1", "kind": "VMDiskImage", "spec": spec });
    let error = format!("{:#}", convert_object(&object, None).unwrap_err());
    assert!(error.contains(expected), "{error}");
}

#[test]
fn objects_of_other_groups_are_refused() {
    assert!(convert_object(&json!({ "apiVersion": "v1", "kind": "Pod" }), None).is_err());
    assert!(select_objects(parse_documents(FORMER).unwrap(), &["other".to_owned()]).is_err());
    assert!(select_objects(Vec::new(), &[]).is_err());
}

#[tokio::test]
async fn the_objects_of_the_namespace_are_listed() {
    let cluster = answering_cluster(|target| {
        let path = "/apis/crd.pelotech.ot/v1alpha1/namespaces/team-a/vmdiskimages";
        assert_eq!(target.split('?').next(), Some(path));
        FakeAnswer::list(&[former("scratch")])
    });
    let arguments = ConvertImagesArguments { images: Vec::new(), filename: None, suffix: None };
    print_converted_images(&cluster, &arguments).await.unwrap();
}
