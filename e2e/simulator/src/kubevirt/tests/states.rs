//! States of machines and guests that only KubeVirt has, and that knobs set.

use super::{KubeVirtObjectKind, KubeVirtTestbed, running};
use rstest::rstest;
use serde_json::{Value, json};

fn machine(stage: &KubeVirtTestbed) -> Value {
    stage.get(KubeVirtObjectKind::Machine, "a").clone()
}

fn domain(change: &Value) -> Value {
    json!({ "spec": { "template": { "spec": { "domain": change } } } })
}

#[test]
fn a_machine_can_need_a_restart_right_after_one() {
    let mut stage = running(&[]);
    stage.annotate(KubeVirtObjectKind::Machine, "a", "restart-required", Some("true"));
    stage.settle();
    let required =
        |stage: &KubeVirtTestbed| stage.condition(KubeVirtObjectKind::Machine, "a", "RestartRequired");
    assert_eq!(required(&stage), "True/RestartRequired");
    stage.delete(KubeVirtObjectKind::Instance, "a");
    stage.settle();
    assert_eq!((required(&stage), stage.printable("a")), ("True/RestartRequired".into(), "Running".into()));
    // KubeVirt then applies no change to the running guest.
    stage.edit(KubeVirtObjectKind::Machine, "a", &domain(&json!({ "memory": { "guest": "1Gi" } })));
    stage.settle();
    let instance = stage.get(KubeVirtObjectKind::Instance, "a");
    assert_eq!(instance["spec"]["domain"]["memory"]["guest"], "512Mi");
    stage.annotate(KubeVirtObjectKind::Machine, "a", "restart-required", None);
    stage.settle();
    assert_eq!(required(&stage), "absent");
}

#[rstest]
#[case::paused("Paused")]
#[case::migrating("Migrating")]
fn a_running_guest_has_the_state_of_the_knob_and_stays_ready(#[case] state: &str) {
    let mut stage = running(&[]);
    stage.annotate(KubeVirtObjectKind::Machine, "a", "guest-state", Some(state));
    stage.settle();
    assert_eq!(stage.printable("a"), state);
    assert_eq!(machine(&stage)["status"]["ready"], true);
    stage.annotate(KubeVirtObjectKind::Machine, "a", "guest-state", None);
    stage.settle();
    assert_eq!(stage.printable("a"), "Running");
}

#[test]
fn a_machine_is_not_started_while_it_is_restored() {
    let mut stage = KubeVirtTestbed::new();
    stage.knobs(&[("restore-in-progress", "back")]);
    stage.machine("a", "Always", &[]);
    stage.settle();
    assert_eq!(machine(&stage)["status"]["restoreInProgress"], "back");
    assert_eq!(stage.printable("a"), "Stopped");
    stage.knobs(&[]);
    stage.settle();
    assert_eq!(machine(&stage)["status"]["restoreInProgress"], Value::Null);
    assert_eq!(stage.printable("a"), "Running");
}

#[test]
fn a_machine_runs_while_a_snapshot_is_taken_of_it() {
    let mut stage = running(&[]);
    stage.annotate(KubeVirtObjectKind::Machine, "a", "snapshot-in-progress", Some("nightly"));
    stage.settle();
    assert_eq!(machine(&stage)["status"]["snapshotInProgress"], "nightly");
    assert_eq!(stage.printable("a"), "Running");
}

#[test]
fn each_change_of_a_status_is_followed_by_writes_that_say_nothing_new() {
    let versions = |writes: &str| {
        let mut stage = KubeVirtTestbed::new();
        stage.knobs(&[("status-writes", writes)]);
        stage.machine("a", "Always", &[]);
        stage.settle();
        assert_eq!(stage.printable("a"), "Running");
        let probes = stage.values(KubeVirtObjectKind::Machine, "a", "/status/conditions/0/lastProbeTime");
        let version = machine(&stage)["metadata"]["resourceVersion"].clone();
        stage.settle();
        assert_eq!(machine(&stage)["metadata"]["resourceVersion"], version, "they end");
        probes.len()
    };
    let (usual, many) = (versions("1"), versions("8"));
    assert!(many >= usual + 7, "{many} {usual}");
}

/// The fields of a template with an explicit zero, and one that is a pointer in Go.
fn zeros() -> Value {
    json!({
        "cpu": { "cores": 2, "sockets": 0 },
        "features": { "kvm": { "hidden": false } },
        "devices": {
            "disableHotplug": false, "autoattachSerialConsole": false,
            "interfaces": [{ "name": "default", "acpiIndex": 0 }, { "name": "other", "acpiIndex": 7 }],
        },
    })
}

#[test]
fn go_drops_zeros_of_fields_that_are_no_pointers() {
    let mut stage = KubeVirtTestbed::new();
    stage.knobs(&[("go-encoding", "true")]);
    stage.machine("a", "Halted", &[]);
    stage.edit(KubeVirtObjectKind::Machine, "a", &domain(&zeros()));
    stage.edit(KubeVirtObjectKind::Machine, "a", &json!({ "spec": { "runStrategy": "Always" } }));
    stage.settle();
    let instance = stage.get(KubeVirtObjectKind::Instance, "a")["spec"].clone();
    for spec in [&machine(&stage)["spec"]["template"]["spec"], &instance] {
        let domain = &spec["domain"];
        assert_eq!(
            (&domain["cpu"]["cores"], &domain["cpu"]["sockets"]),
            (&json!(2), &Value::Null),
            "{domain}"
        );
        assert_eq!(domain["features"]["kvm"], json!({}), "{domain}");
        assert_eq!(domain["devices"]["disableHotplug"], Value::Null, "{domain}");
        assert_eq!(domain["devices"]["autoattachSerialConsole"], false, "{domain}");
        let interfaces = json!([{ "name": "default" }, { "name": "other", "acpiIndex": 7 }]);
        assert_eq!(domain["devices"]["interfaces"], interfaces, "{domain}");
    }
    assert_eq!(stage.condition(KubeVirtObjectKind::Machine, "a", "RestartRequired"), "absent");
}
