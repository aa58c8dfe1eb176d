//! What the status of a machine says.

use super::{KubeVirtObjectKind, KubeVirtTestbed, ms, running};
use rstest::rstest;
use serde_json::{Value, json};
use std::time::Duration;

fn ready(stage: &KubeVirtTestbed) -> Value {
    let conditions =
        stage.get(KubeVirtObjectKind::Machine, "a")["status"]["conditions"].as_array().unwrap().clone();
    conditions.into_iter().find(|condition| condition["type"] == "Ready").unwrap()
}

#[test]
fn a_machine_mirrors_the_readiness_of_its_instance() {
    let mut stage = KubeVirtTestbed::new();
    stage.machine("a", "Halted", &[]);
    stage.settle();
    assert_eq!(stage.condition(KubeVirtObjectKind::Machine, "a", "Ready"), "False/VMINotExists");
    assert!(ready(&stage)["lastProbeTime"].is_string());
    let status = stage.get(KubeVirtObjectKind::Machine, "a")["status"].clone();
    assert_eq!((&status["created"], &status["ready"]), (&Value::Null, &Value::Null));
    stage.edit(KubeVirtObjectKind::Machine, "a", &json!({"spec": {"runStrategy": "Always"}}));
    stage.settle();
    let instance = stage.get(KubeVirtObjectKind::Instance, "a")["status"]["conditions"][0].clone();
    assert_eq!(ready(&stage), instance);
    let status = stage.get(KubeVirtObjectKind::Machine, "a")["status"].clone();
    assert_eq!((&status["created"], &status["ready"]), (&json!(true), &json!(true)));
    assert_eq!(
        status["observedGeneration"],
        stage.get(KubeVirtObjectKind::Machine, "a")["metadata"]["generation"]
    );
}

#[test]
fn an_instance_without_conditions_is_reported_as_such() {
    let mut stage = KubeVirtTestbed::new();
    stage.lag.insert(KubeVirtObjectKind::Instance, ms(50));
    stage.machine("a", "Always", &[]);
    stage.settle();
    let reasons = stage.values(KubeVirtObjectKind::Machine, "a", "/status/conditions/0/reason");
    assert!(reasons.contains(&"VMIConditionMissing".to_owned()), "{reasons:?}");
}

#[test]
fn the_condition_ready_is_replaced_only_if_its_status_or_reason_changes() {
    let mut stage = running(&[]);
    let before = ready(&stage);
    let mut conditions = stage.get(KubeVirtObjectKind::Instance, "a")["status"]["conditions"].clone();
    conditions[0]["message"] = json!("a different message");
    conditions[0]["lastTransitionTime"] = json!("2030-01-01T00:00:00Z");
    stage.edit(KubeVirtObjectKind::Instance, "a", &json!({"status": {"conditions": conditions}}));
    stage.settle();
    assert_eq!(ready(&stage), before);
    stage.run(Duration::from_secs(5));
    stage.edit(KubeVirtObjectKind::Machine, "a", &json!({"spec": {"runStrategy": "Halted"}}));
    stage.settle();
    assert_ne!(ready(&stage)["lastTransitionTime"], before["lastTransitionTime"]);
}

#[test]
fn the_usual_states_follow_one_another() {
    let mut stage = running(&["root"]);
    let shown = stage.values(KubeVirtObjectKind::Machine, "a", "/status/printableStatus");
    assert_eq!(shown, ["Provisioning", "Stopped", "Starting", "Running"]);
    stage.delete(KubeVirtObjectKind::Machine, "a");
    stage.settle();
    let shown = stage.values(KubeVirtObjectKind::Machine, "a", "/status/printableStatus");
    assert_eq!(shown, ["Provisioning", "Stopped", "Starting", "Running", "Terminating"]);
}

#[rstest]
#[case::a_migration(json!({"migrationState": {"startTimestamp": "2026-01-01T00:00:00Z"}}), "Migrating")]
#[case::a_finished_migration(
    json!({"migrationState": {"startTimestamp": "2026-01-01T00:00:00Z", "completed": true}}), "Running")]
#[case::a_pause(json!({"conditions": [{"type": "Paused", "status": "True"}]}), "Paused")]
fn states_that_others_write_are_shown(#[case] status: Value, #[case] printable: &str) {
    let mut stage = running(&[]);
    stage.edit(KubeVirtObjectKind::Instance, "a", &json!({ "status": status }));
    stage.settle();
    assert_eq!(stage.printable("a"), printable);
}

/// Two states apply at the same time; the first one in the platform's order is shown.
#[rstest]
#[case::stopping_before_migrating(&[Fact::Migrating, Fact::Deleted], "Stopping")]
#[case::migrating_before_paused(&[Fact::Migrating, Fact::Paused], "Migrating")]
#[case::running_before_a_failed_disk(&[Fact::Disk("Failed")], "Running")]
#[case::running_before_provisioning(&[Fact::Disk("Paused")], "Running")]
fn of_two_states_of_a_running_machine_the_first_is_shown(#[case] facts: &[Fact], #[case] printable: &str) {
    let mut stage = running(&["root"]);
    stage.annotate(KubeVirtObjectKind::Machine, "a", "stop-delay", Some("never"));
    stage.edit(
        KubeVirtObjectKind::Machine,
        "a",
        &json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 9}}}}),
    );
    for fact in facts {
        fact.happen(&mut stage);
    }
    stage.run(ms(500));
    assert_eq!(stage.printable("a"), printable);
}

#[rstest]
#[case::a_missing_claim_before_a_failed_disk(("missing-claim", "true"), "Failed", "ErrorPvcNotFound")]
#[case::a_failed_disk_before_no_node(("unschedulable", "true"), "Failed", "DataVolumeError")]
#[case::no_node_before_provisioning(("unschedulable", "true"), "Paused", "ErrorUnschedulable")]
#[case::provisioning_before_an_image(("image-pull-error", "ErrImagePull"), "Paused", "Provisioning")]
#[case::binding_before_an_image(
    ("image-pull-error", "ErrImagePull"), "WaitForFirstConsumer", "WaitingForVolumeBinding")]
#[case::binding_before_starting(("start-delay", "never"), "PendingPopulation", "WaitingForVolumeBinding")]
#[case::an_image_before_starting(("image-pull-error", "ErrImagePull"), "Succeeded", "ErrImagePull")]
#[case::an_image_again_before_starting(("image-pull-error", "ImagePullBackOff"), "Succeeded", "ImagePullBackOff")]
fn of_two_states_of_a_starting_machine_the_first_is_shown(
    #[case] knob: (&str, &str),
    #[case] disk: &'static str,
    #[case] printable: &str,
) {
    let mut stage = KubeVirtTestbed::new();
    stage.machine("a", "Always", &["root"]);
    stage.annotate(KubeVirtObjectKind::Machine, "a", knob.0, Some(knob.1));
    stage.settle();
    assert!(stage.find(KubeVirtObjectKind::Instance, "a").is_some());
    Fact::Disk(disk).happen(&mut stage);
    stage.settle();
    assert_eq!(stage.printable("a"), printable);
}

#[test]
fn provisioning_is_shown_before_waiting_for_binding() {
    let mut stage = KubeVirtTestbed::new();
    stage.machine("a", "Always", &["root", "data"]);
    stage.run(ms(50));
    stage.annotate(KubeVirtObjectKind::DataVolume, "root", "hold-phase", Some("WaitForFirstConsumer"));
    stage.annotate(KubeVirtObjectKind::DataVolume, "data", "hold-phase", Some("ImportInProgress"));
    stage.settle();
    assert_eq!(stage.printable("a"), "Provisioning");
    stage.annotate(KubeVirtObjectKind::DataVolume, "data", "hold-phase", Some("WaitForFirstConsumer"));
    stage.settle();
    assert_eq!(stage.printable("a"), "WaitingForVolumeBinding");
}

/// What makes a state apply.
#[derive(Debug)]
enum Fact {
    Migrating,
    Paused,
    Deleted,
    Disk(&'static str),
}

impl Fact {
    fn happen(&self, stage: &mut KubeVirtTestbed) {
        let status = match self {
            Self::Migrating => json!({"migrationState": {"startTimestamp": "2026-01-01T00:00:00Z"}}),
            Self::Paused => json!({"conditions": [{"type": "Paused", "status": "True"}]}),
            Self::Deleted => return stage.delete(KubeVirtObjectKind::Instance, "a"),
            Self::Disk(phase) => {
                return stage.annotate(KubeVirtObjectKind::DataVolume, "root", "hold-phase", Some(phase));
            }
        };
        stage.edit(KubeVirtObjectKind::Instance, "a", &json!({ "status": status }));
    }
}

#[test]
fn a_phase_that_fits_no_state_is_unknown() {
    let mut stage = KubeVirtTestbed::new();
    stage.create(KubeVirtObjectKind::Machine, "a", &json!({"spec": super::machine_spec("Manual", &[])}));
    stage.settle();
    let meta = json!({"ownerReferences": [{
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "a",
        "uid": stage.uid(KubeVirtObjectKind::Machine, "a"), "controller": true,
    }]});
    let status = json!({"phase": "Unknown"});
    let instance = json!({"metadata": meta, "spec": {}, "status": status});
    stage.knobs(&[("node-loss", "true")]);
    stage.create(KubeVirtObjectKind::Instance, "a", &instance);
    stage.settle();
    assert_eq!(stage.printable("a"), "Unknown");
}
