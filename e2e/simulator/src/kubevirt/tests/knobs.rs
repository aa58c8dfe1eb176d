//! The knobs, and what they are there to show.

use super::{KubeVirtObjectKind, KubeVirtTestbed, ms, running};
use rstest::rstest;
use std::time::Duration;

#[test]
fn a_guest_that_never_gets_ready_runs() {
    let mut stage = KubeVirtTestbed::new();
    stage.knobs(&[("never-ready", "true")]);
    stage.machine("a", "Always", &[]);
    stage.settle();
    assert_eq!(stage.printable("a"), "Running");
    assert_eq!(stage.condition(KubeVirtObjectKind::Machine, "a", "Ready"), "False/ContainersNotReady");
    assert!(stage.get(KubeVirtObjectKind::Machine, "a")["status"]["ready"].is_null());
    stage.knobs(&[]);
    stage.settle();
    assert_eq!(stage.condition(KubeVirtObjectKind::Machine, "a", "Ready"), "True/");
    stage.annotate(KubeVirtObjectKind::Machine, "a", "never-ready", Some("true"));
    stage.settle();
    assert_eq!(stage.condition(KubeVirtObjectKind::Machine, "a", "Ready"), "False/ContainersNotReady");
}

#[test]
fn the_address_of_a_guest_is_that_of_the_knob() {
    let mut stage = KubeVirtTestbed::new();
    stage.machine("a", "Always", &[]);
    stage.annotate(KubeVirtObjectKind::Machine, "a", "address", Some("10.66.10.4"));
    stage.settle();
    let interfaces = &stage.get(KubeVirtObjectKind::Instance, "a")["status"]["interfaces"];
    assert_eq!(interfaces[0]["ipAddress"], "10.66.10.4");
    stage.annotate(KubeVirtObjectKind::Machine, "a", "address", Some("none"));
    stage.settle();
    assert!(stage.get(KubeVirtObjectKind::Instance, "a")["status"]["interfaces"].is_null());
}

#[rstest]
#[case::no_node(("unschedulable", "true"), "PodScheduled", "False/Unschedulable", "ErrorUnschedulable")]
#[case::no_image(("image-pull-error", "ErrImagePull"), "Synchronized", "False/ErrImagePull", "ErrImagePull")]
#[case::no_image_again(
    ("image-pull-error", "ImagePullBackOff"), "Synchronized", "False/ImagePullBackOff", "ImagePullBackOff")]
#[case::no_claim(("missing-claim", "true"), "Synchronized", "False/FailedPvcNotFound", "ErrorPvcNotFound")]
fn a_start_is_held_until_the_knob_goes(
    #[case] knob: (&str, &str),
    #[case] type_: &str,
    #[case] condition: &str,
    #[case] printable: &str,
) {
    let mut stage = KubeVirtTestbed::new();
    stage.machine("a", "Always", &["root"]);
    stage.annotate(KubeVirtObjectKind::Machine, "a", knob.0, Some(knob.1));
    stage.settle();
    assert_eq!(stage.condition(KubeVirtObjectKind::Instance, "a", type_), condition);
    assert_eq!(stage.printable("a"), printable);
    stage.run(Duration::from_hours(1));
    assert_eq!(stage.printable("a"), printable);
    stage.annotate(KubeVirtObjectKind::Machine, "a", knob.0, None);
    stage.settle();
    assert_eq!(stage.printable("a"), "Running");
    assert_eq!(stage.condition(KubeVirtObjectKind::Instance, "a", type_), "absent");
}

#[test]
fn the_pod_shows_why_a_start_is_held() {
    let mut stage = KubeVirtTestbed::new();
    stage.knobs(&[("unschedulable", "true")]);
    stage.machine("a", "Always", &[]);
    stage.settle();
    let pod = stage.pods()[0].to_string();
    assert!(pod.contains("\"reason\":\"Unschedulable\""), "{pod}");
    stage.knobs(&[("image-pull-error", "ErrImagePull")]);
    stage.settle();
    let waiting = &stage.pods()[0]["status"]["containerStatuses"][0]["state"]["waiting"]["reason"];
    assert_eq!(*waiting, "ErrImagePull");
}

#[test]
fn a_machine_held_back_can_be_deleted() {
    for knob in ["unschedulable", "missing-claim"] {
        let mut stage = KubeVirtTestbed::new();
        stage.knobs(&[(knob, "true")]);
        stage.machine("a", "Always", &["root"]);
        stage.settle();
        stage.delete(KubeVirtObjectKind::Machine, "a");
        stage.settle();
        assert!(stage.find(KubeVirtObjectKind::Machine, "a").is_none(), "{knob}");
        assert!(stage.pods().is_empty(), "{knob}");
    }
}

#[test]
fn a_claim_that_does_not_exist_holds_a_start_without_a_knob() {
    let mut stage = KubeVirtTestbed::new();
    let mut spec = super::machine_spec("Always", &[]);
    spec["template"]["spec"]["volumes"] =
        serde_json::json!([{"name": "x", "persistentVolumeClaim": {"claimName": "absent"}}]);
    stage.create(KubeVirtObjectKind::Machine, "a", &serde_json::json!({ "spec": spec }));
    stage.settle();
    assert_eq!(stage.printable("a"), "ErrorPvcNotFound");
    assert!(stage.pods().is_empty());
    stage.create(
        KubeVirtObjectKind::Claim,
        "absent",
        &serde_json::json!({"spec": {"accessModes": ["ReadWriteOnce"]}}),
    );
    stage.settle();
    assert_eq!(stage.printable("a"), "Running");
}

#[test]
fn a_lost_node_keeps_its_instance_running_not_ready_and_for_ever() {
    let mut stage = running(&[]);
    stage.annotate(KubeVirtObjectKind::Machine, "a", "node-loss", Some("true"));
    stage.settle();
    assert_eq!(stage.printable("a"), "Running");
    assert_eq!(stage.condition(KubeVirtObjectKind::Machine, "a", "Ready"), "False/NodeNotReady");
    let uid = stage.uid(KubeVirtObjectKind::Instance, "a");
    stage.delete(KubeVirtObjectKind::Instance, "a");
    stage.run(Duration::from_hours(1));
    assert_eq!(stage.uid(KubeVirtObjectKind::Instance, "a"), uid);
    assert_eq!(stage.phase(KubeVirtObjectKind::Instance, "a"), "Running");
    assert_eq!(stage.printable("a"), "Stopping");
    stage.annotate(KubeVirtObjectKind::Machine, "a", "node-loss", None);
    stage.settle();
    assert_ne!(stage.uid(KubeVirtObjectKind::Instance, "a"), uid);
    assert_eq!(stage.printable("a"), "Running");
}

#[test]
fn slow_boot_and_slow_shutdown() {
    let mut stage = KubeVirtTestbed::new();
    stage.knobs(&[("start-delay", "3s"), ("stop-delay", "3s")]);
    stage.machine("a", "Always", &[]);
    stage.run(Duration::from_millis(2900));
    assert_eq!(stage.printable("a"), "Starting");
    stage.run(ms(200));
    assert_eq!(stage.printable("a"), "Running");
    stage.delete(KubeVirtObjectKind::Machine, "a");
    stage.run(Duration::from_millis(2900));
    assert_eq!(stage.printable("a"), "Terminating");
    stage.run(ms(200));
    assert!(stage.find(KubeVirtObjectKind::Machine, "a").is_none());
}

#[test]
fn without_live_update_every_change_needs_a_restart() {
    let mut stage = running(&[]);
    stage.annotate(KubeVirtObjectKind::Machine, "a", "live-update", Some("false"));
    let sockets = serde_json::json!({"spec": {"template": {"spec": {"domain": {"cpu": {"sockets": 4}}}}}});
    stage.edit(KubeVirtObjectKind::Machine, "a", &sockets);
    stage.settle();
    assert_eq!(stage.condition(KubeVirtObjectKind::Machine, "a", "RestartRequired"), "True/RestartRequired");
    assert!(stage.get(KubeVirtObjectKind::Instance, "a")["spec"]["domain"]["cpu"]["sockets"].is_null());
    stage.annotate(KubeVirtObjectKind::Machine, "a", "live-update", None);
    stage.settle();
    assert_eq!(stage.condition(KubeVirtObjectKind::Machine, "a", "RestartRequired"), "absent");
    assert_eq!(stage.get(KubeVirtObjectKind::Instance, "a")["spec"]["domain"]["cpu"]["sockets"], 4);
}

#[test]
fn a_guest_that_cannot_be_migrated_gets_no_hot_plug() {
    let mut stage = running(&[]);
    stage.annotate(KubeVirtObjectKind::Machine, "a", "hold-hot-plug", Some("true"));
    let sockets = serde_json::json!({"spec": {"template": {"spec": {"domain": {"cpu": {"sockets": 4}}}}}});
    stage.edit(KubeVirtObjectKind::Machine, "a", &sockets);
    stage.settle();
    assert_eq!(stage.get(KubeVirtObjectKind::Instance, "a")["spec"]["domain"]["cpu"]["sockets"], 4);
    let has = |stage: &KubeVirtTestbed| {
        stage.get(KubeVirtObjectKind::Instance, "a")["status"]["currentCPUTopology"]["sockets"].clone()
    };
    assert_eq!(has(&stage), 1);
    assert_eq!(stage.condition(KubeVirtObjectKind::Instance, "a", "HotVCPUChange"), "True/NotMigratable");
    assert_eq!(stage.condition(KubeVirtObjectKind::Machine, "a", "RestartRequired"), "absent");
    stage.annotate(KubeVirtObjectKind::Machine, "a", "hold-hot-plug", None);
    stage.settle();
    assert_eq!(has(&stage), 4);
    assert_eq!(stage.condition(KubeVirtObjectKind::Instance, "a", "HotVCPUChange"), "absent");
}

#[test]
fn a_namespace_fails_the_next_n_copies() {
    let mut stage = KubeVirtTestbed::new();
    stage.knobs(&[("fail-provisioning", "1")]);
    for name in ["a", "b"] {
        stage.machine(name, "Always", &[&format!("disk-{name}")]);
        stage.settle();
    }
    assert_eq!(stage.phase(KubeVirtObjectKind::DataVolume, "disk-a"), "Failed");
    assert_eq!(stage.printable("a"), "DataVolumeError");
    assert!(stage.find(KubeVirtObjectKind::Instance, "a").is_none());
    assert_eq!(stage.printable("b"), "Running");
}

#[rstest]
#[case::of_any_kind("Error")]
#[case::of_the_image("ImagePullFailed")]
fn an_import_error_holds_the_copy(#[case] reason: &str) {
    let mut stage = KubeVirtTestbed::new();
    stage.machine("a", "Always", &["root"]);
    stage.run(ms(50));
    stage.annotate(KubeVirtObjectKind::DataVolume, "root", "import-error", Some(reason));
    stage.settle();
    assert_eq!(stage.phase(KubeVirtObjectKind::DataVolume, "root"), "ImportInProgress");
    assert_eq!(stage.condition(KubeVirtObjectKind::DataVolume, "root", "Running"), format!("False/{reason}"));
    assert_eq!(stage.printable("a"), "DataVolumeError");
    stage.annotate(KubeVirtObjectKind::DataVolume, "root", "import-error", None);
    stage.settle();
    assert_eq!(stage.printable("a"), "Running");
}

#[rstest]
#[case::bound("PVCBound", "Provisioning")]
#[case::paused("Paused", "Provisioning")]
#[case::unknown("Unknown", "Provisioning")]
#[case::failed("Failed", "DataVolumeError")]
#[case::cloned_by_the_driver("CSICloneInProgress", "Provisioning")]
fn a_data_volume_is_held_in_any_phase(#[case] phase: &str, #[case] printable: &str) {
    let mut stage = KubeVirtTestbed::new();
    stage.machine("a", "Always", &["root"]);
    stage.run(ms(50));
    stage.annotate(KubeVirtObjectKind::DataVolume, "root", "hold-phase", Some(phase));
    stage.settle();
    assert_eq!(stage.phase(KubeVirtObjectKind::DataVolume, "root"), phase);
    assert_eq!(stage.printable("a"), printable);
    stage.annotate(KubeVirtObjectKind::DataVolume, "root", "hold-phase", None);
    stage.settle();
    let after = if phase == "Failed" { "DataVolumeError" } else { "Running" };
    assert_eq!(stage.printable("a"), after);
}

#[test]
fn a_wait_for_ever_costs_nothing() {
    let mut stage = KubeVirtTestbed::new();
    stage.knobs(&[("start-delay", "never"), ("provisioning-delay", "never")]);
    stage.machine("a", "Always", &[]);
    stage.machine("b", "Always", &["root"]);
    stage.settle();
    stage.writes.clear();
    stage.run(Duration::from_hours(1));
    assert!(stage.writes.is_empty(), "{:?}", stage.writes);
    assert_eq!(stage.world.next_due(), None);
}
