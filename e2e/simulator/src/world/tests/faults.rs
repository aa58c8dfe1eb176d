//! The knobs.

use super::{DvpTestbed, ms};
use crate::objects::{DvpObjectKind, VM_CLEANUP};
use rstest::rstest;
use serde_json::json;
use std::time::Duration;

#[rstest]
#[case::by_another_value(Some("10ms"))]
#[case::by_its_removal(None)]
fn a_blocked_stop_continues_when_the_knob_changes(#[case] value: Option<&str>) {
    let mut stage = DvpTestbed::new();
    stage.machine("a", &[]);
    stage.annotate(DvpObjectKind::Machine, "a", "stop-delay", Some("never"));
    stage.settle();
    stage.delete(DvpObjectKind::Machine, "a");
    stage.run(Duration::from_hours(1));
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Terminating");
    stage.annotate(DvpObjectKind::Machine, "a", "stop-delay", value);
    stage.settle();
    assert!(stage.find(DvpObjectKind::Machine, "a").is_none());
}

#[test]
fn a_machine_on_a_lost_node_is_degraded_and_does_not_end_until_the_node_returns() {
    let mut stage = DvpTestbed::new();
    stage.machine("a", &[]);
    stage.settle();
    stage.annotate(DvpObjectKind::Machine, "a", "node-loss", Some("true"));
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Degraded");
    stage.delete(DvpObjectKind::Machine, "a");
    stage.run(Duration::from_hours(1));
    assert!(stage.has_finalizer(DvpObjectKind::Machine, "a", VM_CLEANUP));
    stage.annotate(DvpObjectKind::Machine, "a", "node-loss", None);
    stage.settle();
    assert!(stage.find(DvpObjectKind::Machine, "a").is_none());
}

#[test]
fn a_knob_of_the_namespace_blocks_every_start() {
    let mut stage = DvpTestbed::new();
    stage.knobs(&[("start-delay", "never")]);
    stage.machine("a", &[]);
    stage.machine("b", &[]);
    stage.annotate(DvpObjectKind::Machine, "b", "start-delay", Some("1ms"));
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Starting");
    assert_eq!(stage.phase(DvpObjectKind::Machine, "b"), "Running");
    stage.knobs(&[]);
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Running");
}

#[test]
fn the_address_of_a_guest_is_that_of_the_knob_while_it_runs() {
    let mut stage = DvpTestbed::new();
    stage.machine("a", &[]);
    stage.settle();
    for (knob, address) in [("10.66.10.4", json!("10.66.10.4")), ("none", json!(null))] {
        stage.annotate(DvpObjectKind::Machine, "a", "address", Some(knob));
        stage.settle();
        assert_eq!(stage.get(DvpObjectKind::Machine, "a")["status"]["ipAddress"], address);
    }
    stage.annotate(DvpObjectKind::Machine, "a", "address", None);
    stage.edit(DvpObjectKind::Machine, "a", &json!({"spec": {"runPolicy": "AlwaysOff"}}));
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Stopped");
    assert!(stage.get(DvpObjectKind::Machine, "a")["status"]["ipAddress"].is_null());
}

#[test]
fn without_finalizers_a_machine_is_removed_immediately() {
    let mut stage = DvpTestbed::new();
    stage.knobs(&[("skip-finalizers", "true"), ("stop-delay", "never")]);
    stage.disk("d");
    stage.machine("a", &["d"]);
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Running");
    assert!(!stage.has_finalizer(DvpObjectKind::Machine, "a", VM_CLEANUP));
    stage.delete(DvpObjectKind::Machine, "a");
    assert!(stage.find(DvpObjectKind::Machine, "a").is_none());
    stage.machine("b", &["d"]);
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "b"), "Running");
    assert_eq!(stage.pods().len(), 1);
    assert!(stage.violations.is_empty());
}

#[test]
fn the_next_n_disks_of_a_namespace_fail_permanently() {
    let mut stage = DvpTestbed::new();
    stage.knobs(&[("fail-provisioning", "2")]);
    for name in ["a", "b", "c"] {
        stage.disk(name);
        stage.settle();
    }
    let phases: Vec<_> = ["a", "b", "c"].iter().map(|name| stage.phase(DvpObjectKind::Disk, name)).collect();
    assert_eq!(phases, ["Failed", "Failed", "Ready"]);
    assert_eq!(stage.condition(DvpObjectKind::Disk, "a", "Ready"), "False/ProvisioningFailed");
    // A new value resets the count. A knob of a disk applies to this disk.
    stage.knobs(&[("fail-provisioning", "1")]);
    stage.disk("d");
    stage.knobs(&[]);
    stage.disk("e");
    stage.annotate(DvpObjectKind::Disk, "e", "fail-provisioning", Some("1"));
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Disk, "d"), "Ready");
    assert_eq!(stage.phase(DvpObjectKind::Disk, "e"), "Failed");
}

#[test]
fn a_crashed_machine_is_degraded_until_the_knob_is_removed() {
    let mut stage = DvpTestbed::new();
    stage.disk("d");
    stage.machine("a", &["d"]);
    stage.settle();
    stage.annotate(DvpObjectKind::Machine, "a", "crash", Some("true"));
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Degraded");
    assert_eq!(stage.pods()[0]["status"]["phase"], "Failed");
    assert_eq!(stage.condition(DvpObjectKind::Disk, "d", "InUse"), "True/AttachedToVirtualMachine");
    stage.annotate(DvpObjectKind::Machine, "a", "crash", None);
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Running");
    assert_eq!(stage.pods()[0]["status"]["phase"], "Running");
}

#[test]
fn a_flapping_phase_changes_at_the_given_rate_until_the_knob_is_removed() {
    let mut stage = DvpTestbed::new();
    stage.machine("a", &[]);
    stage.settle();
    stage.writes.clear();
    stage.annotate(DvpObjectKind::Machine, "a", "flap-phase", Some("4"));
    stage.run(Duration::from_secs(5));
    let writes = stage.written();
    assert!((19..=21).contains(&writes), "{writes} changes in 5 s");
    stage.annotate(DvpObjectKind::Machine, "a", "flap-phase", None);
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "a"), "Running");
    stage.writes.clear();
    stage.settle();
    assert_eq!(stage.written(), 0);
}

#[test]
fn an_unrelated_annotation_is_changed_without_changes_of_the_pod() {
    let mut stage = DvpTestbed::new();
    stage.machine("a", &[]);
    stage.settle();
    stage.writes.clear();
    stage.annotate(DvpObjectKind::Machine, "a", "bump-annotations", Some("10"));
    stage.run(Duration::from_secs(3));
    let bumped =
        stage.get(DvpObjectKind::Machine, "a")["metadata"]["annotations"]["simulator.vmpool.dev/bumped"]
            .clone();
    let bumped: u64 = bumped.as_str().unwrap().parse().unwrap();
    assert!((28..=30).contains(&bumped), "{bumped} changes in 3 s");
    assert_eq!(stage.writes.len(), 1, "only the machine is written: {:?}", stage.writes.keys());
}

#[test]
fn without_the_lock_two_machines_use_one_disk_and_the_violation_is_recorded() {
    let mut stage = DvpTestbed::new();
    stage.disk("d");
    stage.machine("a", &["d"]);
    stage.settle();
    stage.machine("b", &["d"]);
    stage.annotate(DvpObjectKind::Machine, "b", "ignore-mounts", Some("true"));
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "b"), "Running");
    assert_eq!(stage.violations.len(), 1);
    let uid = |name| stage.get(DvpObjectKind::Machine, name)["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(stage.violations[0].machines, [uid("a"), uid("b")]);
    assert_eq!(stage.violations[0].disk, "d");
}

#[test]
fn a_machine_whose_finalizer_was_removed_uses_its_disk_until_its_pod_is_deleted() {
    let mut stage = DvpTestbed::new();
    stage.disk("d");
    stage.machine("a", &["d"]);
    stage.settle();
    // The Pod cannot be deleted for some time, but the machine's object is removed.
    stage.refuse.insert(DvpObjectKind::Pod, "no".to_owned());
    stage.delete(DvpObjectKind::Machine, "a");
    stage.force_finalizer_off("a");
    stage.run(ms(500));
    assert!(stage.find(DvpObjectKind::Machine, "a").is_none());
    stage.refuse.clear();
    stage.machine("b", &["d"]);
    stage.run(ms(60));
    assert_eq!(stage.violations.len(), 1, "b started while a's guest still ran");
    stage.settle();
    assert_eq!(stage.phase(DvpObjectKind::Machine, "b"), "Running");
    assert_eq!(stage.violations.len(), 1);
}

#[test]
fn an_unlimited_delay_causes_no_writes() {
    let mut stage = DvpTestbed::new();
    stage.machine("a", &[]);
    stage.knobs(&[("start-delay", "never"), ("provisioning-delay", "never")]);
    stage.disk("d");
    stage.settle();
    stage.edit(DvpObjectKind::Machine, "a", &json!({"metadata": {"labels": {"x": "y"}}}));
    stage.settle();
    stage.writes.clear();
    stage.run(Duration::from_hours(1));
    assert_eq!(stage.written(), 0);
    assert_eq!(stage.world.next_due(), None);
}
