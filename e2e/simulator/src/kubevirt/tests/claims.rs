//! Open claims, and violations.

use super::{KubeVirtObjectKind, KubeVirtTestbed, machine_spec, ms, running};
use crate::shared::DiskViolationKind;
use rstest::rstest;
use serde_json::json;

/// A claim of a user, and two machines that name it.
fn shared(modes: &serde_json::Value) -> KubeVirtTestbed {
    let mut stage = KubeVirtTestbed::new();
    stage.create(KubeVirtObjectKind::Claim, "common", &json!({"spec": {"accessModes": modes}}));
    for name in ["a", "b"] {
        let mut spec = machine_spec("Always", &[]);
        spec["template"]["spec"]["volumes"] =
            json!([{"name": "common", "persistentVolumeClaim": {"claimName": "common"}}]);
        stage.create(KubeVirtObjectKind::Machine, name, &json!({ "spec": spec }));
        stage.settle();
        assert_eq!(stage.printable(name), "Running");
    }
    stage
}

#[test]
fn one_claim_in_two_instances_is_a_violation() {
    let stage = shared(&json!(["ReadWriteOnce"]));
    assert_eq!(stage.violations.len(), 1);
    let violation = &stage.violations[0];
    assert_eq!(violation.problem, DiskViolationKind::DoubleMount);
    assert_eq!(violation.disk, "common");
    assert_eq!(
        violation.machines,
        [stage.uid(KubeVirtObjectKind::Instance, "a"), stage.uid(KubeVirtObjectKind::Instance, "b")]
    );
}

#[rstest]
#[case::written_by_many("ReadWriteMany")]
#[case::read_by_many("ReadOnlyMany")]
fn a_claim_that_is_meant_to_be_shared_is_no_violation(#[case] mode: &str) {
    assert!(shared(&json!([mode])).violations.is_empty());
}

#[test]
fn instances_one_after_another_are_no_violation() {
    let mut stage = shared(&json!(["ReadWriteMany"]));
    stage.edit(KubeVirtObjectKind::Claim, "common", &json!({"spec": {"accessModes": ["ReadWriteOnce"]}}));
    stage.edit(KubeVirtObjectKind::Machine, "b", &json!({"spec": {"runStrategy": "Halted"}}));
    stage.settle();
    stage.delete(KubeVirtObjectKind::Instance, "a");
    stage.settle();
    stage.edit(KubeVirtObjectKind::Machine, "a", &json!({"spec": {"runStrategy": "Halted"}}));
    stage.settle();
    stage.edit(KubeVirtObjectKind::Machine, "b", &json!({"spec": {"runStrategy": "Always"}}));
    stage.settle();
    assert_eq!(stage.printable("b"), "Running");
    assert!(stage.violations.is_empty(), "{:?}", stage.violations);
}

#[test]
fn an_instance_torn_from_its_finalizers_has_its_claim_open_until_its_pod_is_gone() {
    let mut stage = shared(&json!(["ReadWriteMany"]));
    stage.edit(KubeVirtObjectKind::Claim, "common", &json!({"spec": {"accessModes": ["ReadWriteOnce"]}}));
    stage.edit(KubeVirtObjectKind::Machine, "b", &json!({"spec": {"runStrategy": "Halted"}}));
    stage.settle();
    stage.refuse.insert(KubeVirtObjectKind::Pod, "no".to_owned());
    stage.edit(KubeVirtObjectKind::Machine, "a", &json!({"spec": {"runStrategy": "Manual"}}));
    stage.edit(KubeVirtObjectKind::Instance, "a", &json!({"metadata": {"finalizers": null}}));
    stage.delete(KubeVirtObjectKind::Instance, "a");
    stage.run(ms(500));
    assert!(stage.find(KubeVirtObjectKind::Instance, "a").is_none());
    assert_eq!(stage.world.mounts.holders("common"), 1);
    stage.refuse.clear();
    stage.settle();
    assert_eq!(stage.world.mounts.holders("common"), 0);
    stage.edit(KubeVirtObjectKind::Machine, "b", &json!({"spec": {"runStrategy": "Always"}}));
    stage.settle();
    assert_eq!(stage.printable("b"), "Running");
    assert!(stage.violations.is_empty(), "{:?}", stage.violations);
}

#[rstest]
#[case::of_the_data_volume(KubeVirtObjectKind::DataVolume)]
#[case::of_the_claim(KubeVirtObjectKind::Claim)]
fn the_deletion_of_a_disk_that_is_in_use_is_a_violation(#[case] kind: KubeVirtObjectKind) {
    let mut stage = running(&["root"]);
    stage.delete(kind, "root");
    stage.settle();
    assert_eq!(stage.violations.len(), 1, "{:?}", stage.violations);
    let violation = &stage.violations[0];
    assert_eq!(violation.problem, DiskViolationKind::DeletedWhileMounted);
    assert_eq!(violation.disk, "root");
    assert_eq!(violation.machines, [stage.uid(KubeVirtObjectKind::Instance, "a")]);
}

#[test]
fn a_machine_that_is_deleted_after_its_disk_does_not_excuse_it() {
    let mut stage = running(&["root"]);
    stage.annotate(KubeVirtObjectKind::Machine, "a", "stop-delay", Some("5s"));
    stage.delete(KubeVirtObjectKind::DataVolume, "root");
    stage.run(ms(1000));
    stage.delete(KubeVirtObjectKind::Machine, "a");
    stage.settle();
    assert_eq!(stage.violations.len(), 1, "{:?}", stage.violations);
}

#[rstest]
#[case::of_a_stopped_machine("Halted", true)]
#[case::of_a_running_machine("Always", false)]
fn the_deletion_of_a_disk_is_no_violation(#[case] strategy: &str, #[case] innocent: bool) {
    let mut stage = KubeVirtTestbed::new();
    stage.machine("a", strategy, &["root"]);
    stage.settle();
    stage.delete(KubeVirtObjectKind::DataVolume, "root");
    stage.settle();
    assert_eq!(stage.violations.is_empty(), innocent);
}

#[test]
fn a_deleted_machine_takes_its_disks_along_without_violation() {
    let mut stage = running(&["root"]);
    stage.delete(KubeVirtObjectKind::Machine, "a");
    stage.settle();
    assert!(stage.find(KubeVirtObjectKind::DataVolume, "root").is_none());
    assert!(stage.find(KubeVirtObjectKind::Claim, "root").is_none());
    assert!(stage.violations.is_empty(), "{:?}", stage.violations);
}

#[test]
fn a_double_mount_is_found_after_a_restart_of_the_simulator_too() {
    let mut stage = shared(&json!(["ReadWriteOnce"]));
    stage.violations.clear();
    stage.restart_simulator();
    stage.settle();
    assert!(stage.violations.is_empty(), "it was reported before");
    stage.delete(KubeVirtObjectKind::Instance, "b");
    stage.settle();
    assert_eq!(stage.violations.len(), 1, "a still has it open");
}
