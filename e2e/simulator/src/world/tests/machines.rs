//! The phases of a machine.

use super::{DvpTestbed, ms, settings};
use crate::objects::{DvpObjectKind, VD_PROTECTION, VM_CLEANUP};
use rstest::rstest;
use serde_json::json;
use std::time::Duration;

#[test]
fn a_machine_with_its_disk_runs() {
    let mut stage = DvpTestbed::new();
    stage.machine("a", &["a-root"]);
    stage.edit(
        DvpObjectKind::Machine,
        "a",
        &json!({"metadata": {"labels": {"app": "x"}, "annotations": {"note": "hi"}}}),
    );
    stage.disk("a-root");
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Running");
    assert_eq!(stage.condition(DvpObjectKind::Machine, "a", "BlockDevicesReady"), "True/BlockDevicesReady");
    assert_eq!(stage.condition(DvpObjectKind::Machine, "a", "Running"), "True/Running");
    assert_eq!(stage.condition(DvpObjectKind::Machine, "a", "AwaitingRestartToApplyConfiguration"), "absent");
    let status = &stage.get(DvpObjectKind::Machine, "a")["status"];
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(
        status["blockDeviceRefs"],
        json!([{"kind": "VirtualDisk", "name": "a-root", "size": "1Gi", "attached": true, "target": "sda"}])
    );
    let pods = stage.pods();
    assert_eq!(pods.len(), 1);
    let pod = pods[0];
    assert_eq!(status["virtualMachinePods"], json!([{"name": pod["metadata"]["name"], "active": true}]));
    assert_eq!(status["nodeName"], pod["spec"]["nodeName"]);
    let address = &status["ipAddress"];
    assert!(address.as_str().is_some_and(|address| address.starts_with("10.")), "{status}");
    assert!(pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("d8v-a-")));
    assert_eq!(pod["metadata"]["labels"]["app"], "x");
    assert_eq!(pod["metadata"]["annotations"]["note"], "hi");
    assert_eq!(
        pod["spec"]["containers"][0]["resources"]["requests"],
        json!({"cpu": "500m", "memory": "512Mi"})
    );
    assert_eq!(pod["status"]["phase"], "Running");
    assert!(stage.has_finalizer(DvpObjectKind::Machine, "a", VM_CLEANUP));
}

#[test]
fn phases_follow_each_other_after_their_delays() {
    let mut stage = DvpTestbed::new();
    stage.machine("a", &["a-root"]);
    stage.run(ms(50));
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Pending");
    assert_eq!(
        stage.condition(DvpObjectKind::Machine, "a", "BlockDevicesReady"),
        "False/BlockDevicesNotReady"
    );
    let devices = &stage.get(DvpObjectKind::Machine, "a")["status"]["blockDeviceRefs"];
    assert_eq!(*devices, json!([{"kind": "VirtualDisk", "name": "a-root", "size": "0", "attached": false}]));
    stage.disk("a-root");
    stage.run(ms(100));
    assert_eq!(stage.phase(DvpObjectKind::Disk, "a-root"), "Provisioning");
    stage.run(ms(200));
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Starting");
    stage.run(ms(300));
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Running");
}

#[test]
fn a_deleted_machine_shuts_down_is_removed_and_detaches_its_disk() {
    let mut stage = DvpTestbed::new();
    stage.disk("a-root");
    stage.machine("a", &["a-root"]);
    stage.settle();
    stage.delete(DvpObjectKind::Machine, "a");
    stage.run(ms(100));
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Terminating");
    assert!(stage.pods().is_empty());
    assert!(stage.has_finalizer(DvpObjectKind::Disk, "a-root", VD_PROTECTION));
    stage.run(ms(150));
    assert!(stage.find(DvpObjectKind::Machine, "a").is_none());
    assert!(!stage.has_finalizer(DvpObjectKind::Disk, "a-root", VD_PROTECTION));
    assert_eq!(stage.condition(DvpObjectKind::Disk, "a-root", "InUse"), "False/NotInUse");
}

#[test]
fn the_grace_period_limits_the_stop() {
    let mut stage = DvpTestbed::new();
    stage.machine("a", &[]);
    stage.edit(DvpObjectKind::Machine, "a", &json!({"spec": {"terminationGracePeriodSeconds": 1}}));
    stage.annotate(DvpObjectKind::Machine, "a", "stop-delay", Some("1h"));
    stage.settle();
    stage.delete(DvpObjectKind::Machine, "a");
    stage.run(ms(900));
    assert!(stage.find(DvpObjectKind::Machine, "a").is_some());
    stage.run(ms(200));
    assert!(stage.find(DvpObjectKind::Machine, "a").is_none());
}

#[test]
fn a_machine_that_never_ran_is_removed_immediately() {
    let mut stage = DvpTestbed::new();
    stage.machine("a", &["missing"]);
    stage.settle();
    stage.delete(DvpObjectKind::Machine, "a");
    stage.run(ms(10));
    assert!(stage.find(DvpObjectKind::Machine, "a").is_none());
}

#[rstest]
#[case::always_on_boots_again("AlwaysOn", "Running", 1)]
#[case::unless_stopped_manually_stays_off("AlwaysOnUnlessStoppedManually", "Stopped", 0)]
fn after_a_guest_shutdown(#[case] policy: &str, #[case] phase: &str, #[case] pods: usize) {
    let mut stage = DvpTestbed::new();
    stage.disk("a-root");
    stage.machine("a", &["a-root"]);
    stage.edit(DvpObjectKind::Machine, "a", &json!({"spec": {"runPolicy": policy}}));
    stage.settle();
    let before = stage.pods()[0]["metadata"]["name"].clone();
    stage.annotate(DvpObjectKind::Machine, "a", "shutdown", Some("now"));
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), phase);
    assert_eq!(stage.pods().len(), pods);
    assert!(stage.pods().iter().all(|pod| pod["metadata"]["name"] != before));
    let in_use = if pods == 0 { "False/NotInUse" } else { "True/AttachedToVirtualMachine" };
    assert_eq!(stage.condition(DvpObjectKind::Disk, "a-root", "InUse"), in_use);
    // The knob acts once per value.
    let writes = stage.written();
    stage.settle();
    assert_eq!(stage.written(), writes);
}

#[rstest]
#[case::manual("Manual", "Stopped")]
#[case::always_off("AlwaysOff", "Stopped")]
#[case::always_on("AlwaysOn", "Running")]
fn a_new_machine_under(#[case] policy: &str, #[case] phase: &str) {
    let mut stage = DvpTestbed::new();
    stage.machine("a", &[]);
    stage.edit(DvpObjectKind::Machine, "a", &json!({"spec": {"runPolicy": policy}}));
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), phase);
}

#[test]
fn the_run_policy_changes_without_a_restart() {
    let mut stage = DvpTestbed::new();
    stage.machine("a", &[]);
    stage.settle();
    stage.edit(DvpObjectKind::Machine, "a", &json!({"spec": {"runPolicy": "AlwaysOff"}}));
    stage.run(ms(100));
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Stopping");
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Stopped");
    stage.edit(DvpObjectKind::Machine, "a", &json!({"spec": {"runPolicy": "AlwaysOn"}}));
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Running");
}

#[test]
fn the_observed_generation_follows_after_the_evaluation() {
    let mut stage = DvpTestbed::new();
    stage.machine("a", &[]);
    stage.settle();
    stage.annotate(DvpObjectKind::Machine, "a", "evaluation-delay", Some("2s"));
    stage.edit(DvpObjectKind::Machine, "a", &json!({"spec": {"liveMigrationPolicy": "AlwaysSafe"}}));
    stage.run(ms(1900));
    assert_eq!(stage.get(DvpObjectKind::Machine, "a")["status"]["observedGeneration"], 1);
    stage.run(ms(200));
    assert_eq!(stage.get(DvpObjectKind::Machine, "a")["status"]["observedGeneration"], 2);
}

#[test]
fn labels_and_annotations_are_copied_to_the_pod_and_removed_again() {
    let mut stage = DvpTestbed::new();
    stage.machine("a", &[]);
    stage.settle();
    stage.edit(
        DvpObjectKind::Machine,
        "a",
        &json!({"metadata": {"labels": {"colour": "red"}, "annotations": {"n": "1"}}}),
    );
    stage.settle();
    assert_eq!(stage.pods()[0]["metadata"]["labels"]["colour"], "red");
    assert_eq!(stage.pods()[0]["metadata"]["annotations"]["n"], "1");
    stage.edit(DvpObjectKind::Machine, "a", &json!({"metadata": {"labels": {"colour": null}}}));
    stage.settle();
    assert!(stage.pods()[0]["metadata"]["labels"]["colour"].is_null());
}

#[test]
fn a_machine_whose_pod_was_deleted_boots_again() {
    let mut stage = DvpTestbed::new();
    stage.disk("a-root");
    stage.machine("a", &["a-root"]);
    stage.settle();
    let pod = stage.pods()[0]["metadata"]["name"].as_str().unwrap().to_owned();
    stage.delete(DvpObjectKind::Pod, &pod);
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Running");
    assert_ne!(stage.pods()[0]["metadata"]["name"], pod.as_str());
    assert!(stage.violations.is_empty());
}

#[test]
fn devices_are_attached_and_detached_while_the_machine_runs() {
    let mut stage = DvpTestbed::new();
    stage.disk("root");
    stage.disk("data");
    stage.machine("a", &["root"]);
    stage.settle();
    let root = json!({"kind": "VirtualDisk", "name": "root"});
    let data = json!({"kind": "VirtualDisk", "name": "data"});
    stage.edit(DvpObjectKind::Machine, "a", &json!({"spec": {"blockDeviceRefs": [root, data]}}));
    stage.run(ms(60));
    assert_eq!(stage.get(DvpObjectKind::Machine, "a")["status"]["blockDeviceRefs"][1]["attached"], false);
    stage.settle();
    let device = &stage.get(DvpObjectKind::Machine, "a")["status"]["blockDeviceRefs"][1];
    assert_eq!((&device["attached"], &device["hotplugged"]), (&json!(true), &json!(true)));
    assert_eq!(stage.condition(DvpObjectKind::Disk, "data", "InUse"), "True/AttachedToVirtualMachine");
    stage.edit(DvpObjectKind::Machine, "a", &json!({"spec": {"blockDeviceRefs": [root]}}));
    stage.settle();
    assert_eq!(
        stage.get(DvpObjectKind::Machine, "a")["status"]["blockDeviceRefs"].as_array().map(Vec::len),
        Some(1)
    );
    assert_eq!(stage.condition(DvpObjectKind::Disk, "data", "InUse"), "False/NotInUse");
    assert!(!stage.has_finalizer(DvpObjectKind::Disk, "data", VD_PROTECTION));
}

#[rstest]
#[case::a_larger_machine("cpu", json!({"cores": 4, "coreFraction": "25%"}))]
#[case::another_class("virtualMachineClassName", json!("big"))]
#[case::another_grace_period("terminationGracePeriodSeconds", json!(5))]
#[case::without_the_boot_device("blockDeviceRefs", json!([]))]
fn requires_a_restart(#[case] path: &str, #[case] value: serde_json::Value) {
    let mut stage = DvpTestbed::new();
    stage.disk("root");
    stage.machine("a", &["root"]);
    stage.settle();
    let before = stage.get(DvpObjectKind::Machine, "a")["spec"].clone();
    stage.edit(DvpObjectKind::Machine, "a", &json!({"spec": {path: value}}));
    stage.settle();
    assert_eq!(
        stage.condition(DvpObjectKind::Machine, "a", "AwaitingRestartToApplyConfiguration"),
        "True/ChangesPendingRestart"
    );
    assert_eq!(
        stage.condition(DvpObjectKind::Machine, "a", "ConfigurationApplied"),
        "False/ConfigurationNotApplied"
    );
    assert_eq!(stage.get(DvpObjectKind::Machine, "a")["status"]["restartAwaitingChanges"][0]["path"], path);
    assert_eq!(stage.get(DvpObjectKind::Machine, "a")["status"]["blockDeviceRefs"][0]["attached"], true);
    // If the spec again equals the running one, no change is pending.
    let back = before.get(path).cloned().unwrap_or_default();
    stage.edit(DvpObjectKind::Machine, "a", &json!({"spec": {path: back}}));
    stage.settle();
    assert_eq!(stage.condition(DvpObjectKind::Machine, "a", "AwaitingRestartToApplyConfiguration"), "absent");
}

#[test]
fn automatic_approval_restarts_the_machine_unless_a_knob_blocks_it() {
    let mut stage = DvpTestbed::new();
    stage.machine("a", &[]);
    stage.edit(
        DvpObjectKind::Machine,
        "a",
        &json!({"spec": {"disruptions": {"restartApprovalMode": "Automatic"}}}),
    );
    stage.annotate(DvpObjectKind::Machine, "a", "hold-restart", Some("true"));
    stage.settle();
    let before = stage.pods()[0]["metadata"]["name"].clone();
    stage.edit(DvpObjectKind::Machine, "a", &json!({"spec": {"memory": {"size": "1Gi"}}}));
    stage.settle();
    assert_eq!(stage.pods()[0]["metadata"]["name"], before);
    stage.annotate(DvpObjectKind::Machine, "a", "hold-restart", None);
    stage.run(ms(100));
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Stopping");
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Running");
    assert_ne!(stage.pods()[0]["metadata"]["name"], before);
    assert_eq!(stage.pods()[0]["spec"]["containers"][0]["resources"]["requests"]["memory"], "1Gi");
    assert_eq!(stage.condition(DvpObjectKind::Machine, "a", "AwaitingRestartToApplyConfiguration"), "absent");
}

#[test]
fn a_machine_with_more_than_sixteen_devices_does_not_start() {
    let mut stage = DvpTestbed::new();
    let disks: Vec<String> = (0..17).map(|n| format!("d{n}")).collect();
    stage.machine("a", &disks.iter().map(String::as_str).collect::<Vec<_>>());
    stage.settle();
    assert_eq!(
        stage.condition(DvpObjectKind::Machine, "a", "BlockDevicesReady"),
        "False/BlockDeviceLimitExceeded"
    );
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Pending");
}

#[test]
fn a_machine_runs_without_a_pod_if_pods_are_disabled() {
    let mut stage = DvpTestbed::with(super::SimulatorSettings { pods: false, ..settings() });
    stage.disk("root");
    stage.machine("a", &["root"]);
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Running");
    assert!(stage.pods().is_empty());
    stage.delete(DvpObjectKind::Machine, "a");
    stage.run(Duration::from_secs(1));
    assert!(stage.find(DvpObjectKind::Machine, "a").is_none());
}

/// The definition of the platform requires the size of each device in the status.
#[test]
fn a_device_without_a_capacity_has_a_size_in_the_status() {
    let mut stage = DvpTestbed::new();
    stage.machine("a", &["missing", "a-root"]);
    stage.settle();
    let devices = stage.get(DvpObjectKind::Machine, "a")["status"]["blockDeviceRefs"].as_array().unwrap();
    assert_eq!(devices.len(), 2);
    assert!(devices.iter().all(|device| device["size"].is_string()), "{devices:?}");
}
