//! Run strategies, requests to start and stop, and failed starts.

use super::{KubeVirtObjectKind, KubeVirtTestbed, machine_spec, ms, running};
use rstest::rstest;
use serde_json::json;
use std::time::Duration;

fn request(stage: &mut KubeVirtTestbed, requests: &serde_json::Value) {
    stage.edit(KubeVirtObjectKind::Machine, "a", &json!({"status": {"stateChangeRequests": requests}}));
}

fn requests_left(stage: &KubeVirtTestbed) -> usize {
    stage.get(KubeVirtObjectKind::Machine, "a")["status"]["stateChangeRequests"]
        .as_array()
        .map_or(0, Vec::len)
}

#[rstest]
#[case::always("Always", "Running")]
#[case::once("Once", "Running")]
#[case::the_first_time_rerun_on_failure("RerunOnFailure", "Running")]
#[case::not_manual("Manual", "Stopped")]
#[case::not_halted("Halted", "Stopped")]
#[case::as_receiver_it_waits("WaitAsReceiver", "WaitingForReceiver")]
fn a_new_machine_starts(#[case] strategy: &str, #[case] printable: &str) {
    let mut stage = KubeVirtTestbed::new();
    stage.machine("a", strategy, &["root"]);
    stage.settle();
    assert_eq!(stage.printable("a"), printable);
    assert_eq!(stage.find(KubeVirtObjectKind::Instance, "a").is_some(), printable != "Stopped");
}

#[rstest]
#[case::true_is_always(true, "Running")]
#[case::false_is_halted(false, "Stopped")]
fn the_older_field_running_is_understood(#[case] running: bool, #[case] printable: &str) {
    let mut stage = KubeVirtTestbed::new();
    let mut spec = machine_spec("", &[]);
    spec["runStrategy"].take();
    spec["running"] = json!(running);
    stage.create(KubeVirtObjectKind::Machine, "a", &json!({ "spec": spec }));
    stage.settle();
    assert_eq!(stage.printable("a"), printable);
}

#[test]
fn halted_stops_a_running_machine_and_always_starts_it_again() {
    let mut stage = running(&[]);
    stage.edit(KubeVirtObjectKind::Machine, "a", &json!({"spec": {"runStrategy": "Halted"}}));
    stage.settle();
    assert!(stage.find(KubeVirtObjectKind::Instance, "a").is_none());
    assert_eq!(stage.printable("a"), "Stopped");
    stage.edit(KubeVirtObjectKind::Machine, "a", &json!({"spec": {"runStrategy": "Always"}}));
    stage.settle();
    assert_eq!(stage.printable("a"), "Running");
}

#[rstest]
#[case::always("Always", true)]
#[case::once("Once", true)]
#[case::not_rerun_on_failure("RerunOnFailure", false)]
#[case::not_manual("Manual", false)]
fn a_deleted_instance_comes_back(#[case] strategy: &str, #[case] back: bool) {
    let mut stage = running(&[]);
    stage.edit(KubeVirtObjectKind::Machine, "a", &json!({"spec": {"runStrategy": strategy}}));
    stage.settle();
    stage.delete(KubeVirtObjectKind::Instance, "a");
    stage.settle();
    assert_eq!(stage.find(KubeVirtObjectKind::Instance, "a").is_some(), back);
    assert_eq!(stage.printable("a"), if back { "Running" } else { "Stopped" });
}

#[rstest]
#[case::always_after_shutdown("Always", "shutdown", true)]
#[case::always_after_crash("Always", "crash", true)]
#[case::rerun_on_failure_not_after_shutdown("RerunOnFailure", "shutdown", false)]
#[case::rerun_on_failure_after_crash("RerunOnFailure", "crash", true)]
#[case::once_not_after_shutdown("Once", "shutdown", false)]
#[case::once_not_after_crash("Once", "crash", false)]
#[case::manual_not_after_crash("Manual", "crash", false)]
fn a_guest_that_ended_is_started_again(#[case] strategy: &str, #[case] knob: &str, #[case] back: bool) {
    let mut stage = running(&[]);
    let uid = stage.uid(KubeVirtObjectKind::Instance, "a");
    stage.edit(KubeVirtObjectKind::Machine, "a", &json!({"spec": {"runStrategy": strategy}}));
    stage.annotate(KubeVirtObjectKind::Machine, "a", knob, Some("true"));
    stage.run(ms(20));
    stage.annotate(KubeVirtObjectKind::Machine, "a", knob, None);
    stage.settle();
    assert_eq!(stage.uid(KubeVirtObjectKind::Instance, "a") != uid, back);
    if back {
        assert_eq!(stage.printable("a"), "Running");
    } else {
        let phase = if knob == "crash" { "Failed" } else { "Succeeded" };
        assert_eq!(stage.phase(KubeVirtObjectKind::Instance, "a"), phase);
        assert_eq!(stage.printable("a"), "Stopped");
    }
}

#[rstest]
#[case::manual("Manual")]
#[case::rerun_on_failure("RerunOnFailure")]
fn stop_and_start_requests_restart_a_machine_that_does_not_restart_by_itself(#[case] strategy: &str) {
    let mut stage = running(&[]);
    stage.edit(KubeVirtObjectKind::Machine, "a", &json!({"spec": {"runStrategy": strategy}}));
    stage.settle();
    let uid = stage.uid(KubeVirtObjectKind::Instance, "a");
    request(&mut stage, &json!([{"action": "Stop", "uid": uid}, {"action": "Start"}]));
    stage.settle();
    assert_ne!(stage.uid(KubeVirtObjectKind::Instance, "a"), uid);
    assert_eq!(stage.printable("a"), "Running");
    assert_eq!(requests_left(&stage), 0);
}

#[test]
fn a_manual_machine_starts_and_stops_on_request() {
    let mut stage = KubeVirtTestbed::new();
    stage.machine("a", "Manual", &[]);
    stage.settle();
    request(&mut stage, &json!([{"action": "Start", "data": {"paused": "false"}}]));
    stage.settle();
    assert_eq!(stage.printable("a"), "Running");
    assert_eq!(requests_left(&stage), 0);
    let uid = stage.uid(KubeVirtObjectKind::Instance, "a");
    request(&mut stage, &json!([{"action": "Stop", "uid": uid}]));
    stage.settle();
    assert_eq!(stage.printable("a"), "Stopped");
    assert_eq!(requests_left(&stage), 0);
}

#[test]
fn a_request_to_stop_an_instance_that_is_gone_is_dropped() {
    let mut stage = running(&[]);
    let uid = stage.uid(KubeVirtObjectKind::Instance, "a");
    request(&mut stage, &json!([{"action": "Stop", "uid": "an earlier one"}]));
    stage.settle();
    assert_eq!(stage.uid(KubeVirtObjectKind::Instance, "a"), uid);
    assert_eq!(requests_left(&stage), 0);
}

#[test]
fn a_halted_machine_ignores_requests_to_start() {
    let mut stage = KubeVirtTestbed::new();
    stage.machine("a", "Halted", &[]);
    stage.settle();
    request(&mut stage, &json!([{"action": "Start"}]));
    stage.settle();
    assert!(stage.find(KubeVirtObjectKind::Instance, "a").is_none());
}

fn fail_count(stage: &KubeVirtTestbed) -> u64 {
    stage.get(KubeVirtObjectKind::Machine, "a")["status"]["startFailure"]["consecutiveFailCount"]
        .as_u64()
        .unwrap_or(0)
}

#[test]
fn failed_starts_are_counted_and_retried_with_a_growing_backoff() {
    let mut stage = KubeVirtTestbed::new();
    stage.machine("a", "Always", &[]);
    stage.annotate(KubeVirtObjectKind::Machine, "a", "fail-start", Some("true"));
    stage.run(Duration::from_secs(2));
    assert_eq!(fail_count(&stage), 1);
    let failure = stage.get(KubeVirtObjectKind::Machine, "a")["status"]["startFailure"].clone();
    let failed = stage.values(KubeVirtObjectKind::Instance, "a", "/metadata/uid");
    assert_eq!(failure["lastFailedVMIUID"], *failed[0]);
    assert_eq!(stage.printable("a"), "CrashLoopBackOff");
    assert!(stage.find(KubeVirtObjectKind::Instance, "a").is_none());
    let retry: jiff::Timestamp = failure["retryAfterTimestamp"].as_str().unwrap().parse().unwrap();
    let wait = retry.duration_since(stage.now).as_secs();
    assert!((7..=14).contains(&wait), "{wait} s of 10 to 15 are left");
    stage.run(Duration::from_secs(u64::try_from(wait).unwrap() + 3));
    assert_eq!(fail_count(&stage), 2);
    stage.run(Duration::from_secs(37));
    assert_eq!(fail_count(&stage), 2, "the second backoff has 40 s at least");
    stage.run(Duration::from_secs(30));
    assert_eq!(fail_count(&stage), 3);
    let shown = stage.values(KubeVirtObjectKind::Machine, "a", "/status/printableStatus");
    assert_eq!(shown.iter().filter(|shown| *shown == "CrashLoopBackOff").count(), 3);
    assert!(shown.contains(&"Starting".to_owned()) && !shown.contains(&"Running".to_owned()), "{shown:?}");
}

#[test]
fn the_count_of_failed_starts_ends_with_a_guest_that_runs() {
    let mut stage = KubeVirtTestbed::new();
    stage.machine("a", "Always", &[]);
    stage.annotate(KubeVirtObjectKind::Machine, "a", "start-backoff", Some("100ms"));
    stage.annotate(KubeVirtObjectKind::Machine, "a", "fail-start", Some("2"));
    stage.settle();
    assert_eq!(
        stage.values(KubeVirtObjectKind::Machine, "a", "/status/startFailure/consecutiveFailCount"),
        ["1", "2"]
    );
    assert_eq!(stage.printable("a"), "Running");
    assert_eq!(fail_count(&stage), 0);
    stage.delete(KubeVirtObjectKind::Instance, "a");
    stage.settle();
    assert_eq!(stage.printable("a"), "Running", "the knob has taken effect twice");
}

#[rstest]
#[case::halted("Halted")]
#[case::manual("Manual")]
fn a_strategy_that_does_not_retry_forgets_failed_starts(#[case] strategy: &str) {
    let mut stage = KubeVirtTestbed::new();
    stage.machine("a", "Always", &[]);
    stage.annotate(KubeVirtObjectKind::Machine, "a", "fail-start", Some("true"));
    stage.run(Duration::from_secs(2));
    assert_eq!(fail_count(&stage), 1);
    stage.edit(KubeVirtObjectKind::Machine, "a", &json!({"spec": {"runStrategy": strategy}}));
    stage.settle();
    assert_eq!(fail_count(&stage), 0);
    assert_eq!(stage.printable("a"), "Stopped");
}

#[test]
fn an_instance_that_is_deleted_before_it_ran_is_no_failed_start() {
    let mut stage = KubeVirtTestbed::new();
    stage.machine("a", "Always", &[]);
    stage.annotate(KubeVirtObjectKind::Machine, "a", "start-delay", Some("never"));
    stage.settle();
    stage.delete(KubeVirtObjectKind::Instance, "a");
    stage.settle();
    assert_eq!(fail_count(&stage), 0);
    assert_eq!(stage.printable("a"), "Starting");
}
