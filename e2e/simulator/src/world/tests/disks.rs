//! The stages of a disk.

use super::{DvpTestbed, id, ms};
use crate::objects::{DvpObjectKind, MOUNT_LOG, VD_CLEANUP, VD_PROTECTION};
use rstest::rstest;
use serde_json::json;

#[test]
fn a_disk_is_copied_when_its_image_is_ready() {
    let mut stage = DvpTestbed::new();
    let source = json!({"type": "ObjectRef", "objectRef": {"kind": "ClusterVirtualImage", "name": "alpine"}});
    stage.create(DvpObjectKind::Disk, "d", &json!({"spec": {"dataSource": source}}));
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Disk, "d"), "Pending");
    stage.create(DvpObjectKind::ClusterImage, "alpine", &json!({"spec": {}}));
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::ClusterImage, "alpine"), "Ready");
    assert_eq!(stage.phase(DvpObjectKind::Disk, "d"), "Ready");
    assert_eq!(stage.condition(DvpObjectKind::Disk, "d", "Ready"), "True/Ready");
    let status = &stage.get(DvpObjectKind::Disk, "d")["status"];
    assert_eq!(status["capacity"], "256Mi");
    assert!(status["target"]["persistentVolumeClaimName"].is_string());
    assert!(stage.has_finalizer(DvpObjectKind::Disk, "d", VD_CLEANUP));
}

#[test]
fn an_image_with_a_phase_is_not_changed() {
    let mut stage = DvpTestbed::new();
    stage.create(DvpObjectKind::Image, "mine", &json!({"spec": {}, "status": {"phase": "Provisioning"}}));
    let source = json!({"type": "ObjectRef", "objectRef": {"kind": "VirtualImage", "name": "mine"}});
    stage.create(DvpObjectKind::Disk, "d", &json!({"spec": {"dataSource": source}}));
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Image, "mine"), "Provisioning");
    assert_eq!(stage.phase(DvpObjectKind::Disk, "d"), "Pending");
    stage.edit(DvpObjectKind::Image, "mine", &json!({"status": {"phase": "Ready"}}));
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Disk, "d"), "Ready");
}

#[rstest]
#[case::blank_without_a_size(json!({}), "Failed")]
#[case::of_an_unknown_class(json!({"persistentVolumeClaim": {"size": "1Gi", "storageClassName": "none"}}), "Pending")]
#[case::of_no_class(json!({"persistentVolumeClaim": {"size": "1Gi"}}), "Ready")]
#[case::from_a_url(json!({"dataSource": {"type": "HTTP"}, "persistentVolumeClaim": {"size": 1024}}), "Ready")]
#[case::to_be_uploaded(json!({"dataSource": {"type": "Upload"}}), "WaitForUserUpload")]
#[case::from_a_snapshot(
    json!({"dataSource": {"type": "ObjectRef", "objectRef": {"kind": "VirtualDiskSnapshot", "name": "s"}}}),
    "Pending"
)]
fn a_disk(#[case] spec: serde_json::Value, #[case] phase: &str) {
    let mut stage = DvpTestbed::new();
    stage.create(DvpObjectKind::Disk, "d", &json!({ "spec": spec }));
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Disk, "d"), phase);
}

#[test]
fn a_disk_that_waits_for_its_first_consumer_is_bound_by_the_first_start() {
    let mut stage = DvpTestbed::new();
    let claim = json!({"size": "1Gi", "storageClassName": "later"});
    stage.create(DvpObjectKind::Disk, "d", &json!({"spec": {"persistentVolumeClaim": claim}}));
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Disk, "d"), "WaitForFirstConsumer");
    assert!(stage.get(DvpObjectKind::Disk, "d")["status"]["capacity"].is_null());
    stage.machine("a", &["d"]);
    stage.edit(DvpObjectKind::Machine, "a", &json!({"spec": {"runPolicy": "Manual"}}));
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Disk, "d"), "WaitForFirstConsumer");
    assert_eq!(
        stage.condition(DvpObjectKind::Machine, "a", "BlockDevicesReady"),
        "False/WaitingForWaitForFirstConsumerBlockDevicesToBeReady"
    );
    stage.edit(DvpObjectKind::Machine, "a", &json!({"spec": {"runPolicy": "AlwaysOn"}}));
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Running");
    assert_eq!(stage.phase(DvpObjectKind::Disk, "d"), "Ready");
    assert_eq!(stage.get(DvpObjectKind::Disk, "d")["status"]["capacity"], "1Gi");
}

#[test]
fn a_deleted_disk_in_use_is_removed_when_the_machine_stops() {
    let mut stage = DvpTestbed::new();
    stage.disk("d");
    stage.machine("a", &["d"]);
    stage.settle();
    stage.delete(DvpObjectKind::Disk, "d");
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Disk, "d"), "Terminating");
    assert!(stage.has_finalizer(DvpObjectKind::Disk, "d", VD_PROTECTION));
    stage.delete(DvpObjectKind::Machine, "a");
    stage.settle();
    assert!(stage.find(DvpObjectKind::Disk, "d").is_none());
}

#[test]
fn a_disk_expands_if_its_class_allows_and_does_not_shrink() {
    let mut stage = DvpTestbed::new();
    stage.disk("d");
    stage.settle();
    let resize = |size: &str| json!({"spec": {"persistentVolumeClaim": {"size": size}}});
    stage.edit(DvpObjectKind::Disk, "d", &resize("2Gi"));
    stage.run(ms(50));
    assert_eq!(stage.phase(DvpObjectKind::Disk, "d"), "Resizing");
    assert_eq!(stage.condition(DvpObjectKind::Disk, "d", "Resizing"), "True/InProgress");
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Disk, "d"), "Ready");
    assert_eq!(stage.get(DvpObjectKind::Disk, "d")["status"]["capacity"], "2Gi");
    assert_eq!(stage.condition(DvpObjectKind::Disk, "d", "Resizing"), "absent");
    stage.edit(DvpObjectKind::Disk, "d", &resize("1Gi"));
    stage.settle();
    assert_eq!(stage.get(DvpObjectKind::Disk, "d")["status"]["capacity"], "2Gi");
    // The other class does not allow expansion.
    let rigid = json!({"spec": {"persistentVolumeClaim": {"size": "1Gi", "storageClassName": "later"}}});
    stage.create(DvpObjectKind::Disk, "rigid", &rigid);
    stage.machine("a", &["rigid"]);
    stage.settle();
    stage.edit(DvpObjectKind::Disk, "rigid", &resize("2Gi"));
    stage.settle();
    assert_eq!(stage.get(DvpObjectKind::Disk, "rigid")["status"]["capacity"], "1Gi");
    assert_eq!(stage.condition(DvpObjectKind::Disk, "rigid", "Resizing"), "False/NotAvailable");
}

#[test]
fn every_start_is_recorded_in_the_disks_log() {
    let mut stage = DvpTestbed::new();
    stage.disk("d");
    stage.machine("a", &["d"]);
    stage.settle();
    let uid = stage.get(DvpObjectKind::Machine, "a")["metadata"]["uid"].as_str().unwrap().to_owned();
    stage.delete(DvpObjectKind::Machine, "a");
    stage.settle();
    stage.machine("b", &["d"]);
    stage.settle();
    let second = stage.get(DvpObjectKind::Machine, "b")["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(
        stage.get(DvpObjectKind::Disk, "d")["metadata"]["annotations"][MOUNT_LOG],
        format!("{uid},{second}")
    );
    // The length of the log is limited.
    stage.edit(DvpObjectKind::Machine, "b", &json!({"spec": {"runPolicy": "AlwaysOn"}}));
    for round in 1..=40 {
        stage.annotate(DvpObjectKind::Machine, "b", "shutdown", Some(&format!("{round}ms")));
        stage.settle();
    }
    let log = stage.get(DvpObjectKind::Disk, "d")["metadata"]["annotations"][MOUNT_LOG].as_str().unwrap();
    assert_eq!(log.split(',').count(), 32);
}

#[test]
fn a_machine_does_not_start_with_a_disk_attached_to_another() {
    let mut stage = DvpTestbed::new();
    stage.disk("d");
    stage.machine("a", &["d"]);
    stage.settle();
    stage.machine("b", &["d"]);
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "b"), "Pending");
    assert_eq!(
        stage.condition(DvpObjectKind::Machine, "b", "BlockDevicesReady"),
        "False/BlockDevicesNotReady"
    );
    assert_eq!(
        stage.get(DvpObjectKind::Disk, "d")["status"]["attachedToVirtualMachines"],
        json!([{"name": "a", "mounted": true}, {"name": "b", "mounted": false}])
    );
    stage.delete(DvpObjectKind::Machine, "a");
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "b"), "Running");
    assert!(stage.violations.is_empty());
}

#[test]
fn a_disk_of_a_stopped_machine_can_be_attached_to_another() {
    let mut stage = DvpTestbed::new();
    stage.disk("d");
    stage.machine("a", &["d"]);
    stage.settle();
    stage.edit(DvpObjectKind::Machine, "a", &json!({"spec": {"runPolicy": "AlwaysOff"}}));
    stage.settle();
    assert_eq!(
        stage.get(DvpObjectKind::Disk, "d")["status"]["attachedToVirtualMachines"],
        json!([{"name": "a", "mounted": false}])
    );
    stage.machine("b", &["d"]);
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "b"), "Running");
    stage.edit(DvpObjectKind::Machine, "a", &json!({"spec": {"runPolicy": "AlwaysOn"}}));
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Pending");
    assert!(stage.violations.is_empty());
}

#[test]
fn a_new_object_with_the_same_name_has_no_history() {
    let mut stage = DvpTestbed::new();
    stage.disk("d");
    stage.settle();
    stage.knobs(&[("provisioning-delay", "never")]);
    // The object is replaced between two steps of the simulator.
    stage.delete(DvpObjectKind::Disk, "d");
    stage.edit(DvpObjectKind::Disk, "d", &json!({"metadata": {"finalizers": null}}));
    stage.disk("d");
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Disk, "d"), "Provisioning");
    assert!(stage.writes.contains_key(&id(DvpObjectKind::Disk, "d")));
}
