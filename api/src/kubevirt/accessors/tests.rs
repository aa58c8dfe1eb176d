use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn machine(status: Value) -> VirtualMachine {
    let mut machine: VirtualMachine = read(json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {},
        "spec": {"template": {"spec": {"domain": {"devices": {}}}}},
    }));
    machine.status = Some(read(status));
    machine
}

#[rstest]
#[case::absent(None, 1)]
#[case::zero(Some(0), 0)]
#[case::some(Some(7), 7)]
#[case::negative(Some(-1), 0)]
fn desired_replicas_default_to_one(#[case] replicas: Option<i32>, #[case] desired: usize) {
    let mut pool = VirtualMachinePool::default();
    pool.spec.replicas = replicas;
    assert_eq!(pool.desired_replicas(), desired);
}

#[rstest]
#[case::absent(json!({}), SortPolicy::Random)]
#[case::named(json!({"sortPolicy": "Oldest"}), SortPolicy::Oldest)]
#[case::unknown(json!({"sortPolicy": "Alphabetical"}), SortPolicy::Random)]
#[case::of_kubevirt_1_6(json!({"basePolicy": "DescendingOrder"}), SortPolicy::DescendingOrder)]
#[case::the_new_name_wins(json!({"sortPolicy": "Newest", "basePolicy": "DescendingOrder"}), SortPolicy::Newest)]
#[case::not_a_text(json!({"basePolicy": 3}), SortPolicy::Random)]
fn the_order_is_random_unless_named(#[case] policy: Value, #[case] order: SortPolicy) {
    assert_eq!(read::<SelectionPolicy>(policy).order(), order);
}

#[rstest]
#[case::absent(json!({}), 3, Ok("5m0s"))]
#[case::set(json!({"startUpFailureThreshold": 4, "minFailingToStartDuration": "90s"}), 4, Ok("1m30s"))]
#[case::not_a_duration(json!({"minFailingToStartDuration": "soon"}), 3, Err(()))]
fn autohealing_has_defaults(#[case] healing: Value, #[case] threshold: i64, #[case] time: Result<&str, ()>) {
    let healing: Autohealing = read(healing);
    assert_eq!(healing.threshold(), threshold);
    let found = healing.failing_time().map(|time| time.to_string());
    assert_eq!(found.as_deref().map_err(|_| ()), time);
}

#[rstest]
#[case::neither(json!({}), None)]
#[case::running(json!({"running": true}), Some(RunStrategy::Always))]
#[case::not_running(json!({"running": false}), Some(RunStrategy::Halted))]
#[case::strategy(json!({"runStrategy": "Manual"}), Some(RunStrategy::Manual))]
#[case::unknown(json!({"runStrategy": "Sometimes"}), None)]
fn running_is_an_older_spelling(#[case] mut spec: Value, #[case] strategy: Option<RunStrategy>) {
    spec["template"] = json!({"spec": {"domain": {"devices": {}}}});
    assert_eq!(read::<VirtualMachineSpec>(spec).effective_run_strategy(), strategy);
}

#[test]
fn a_machine_reports_its_state() {
    let failing = machine(json!({
        "printableStatus": "CrashLoopBackOff",
        "startFailure": {"consecutiveFailCount": 2},
        "conditions": [{"type": "Ready", "status": "False"}],
    }));
    assert_eq!(failing.printable_status(), Some(PrintableStatus::CrashLoopBackOff));
    assert_eq!((failing.failed_starts(), failing.is_ready()), (2, false));
    assert!(failing.condition("Ready").is_some_and(Condition::is_false));

    let ready = machine(json!({"conditions": [{"type": "Ready", "status": "True"}]}));
    assert_eq!((ready.printable_status(), ready.failed_starts(), ready.is_ready()), (None, 0, true));

    let unclear = machine(json!({"conditions": [{"type": "Ready", "status": "Unknown"}]}));
    let condition = unclear.condition("Ready").unwrap();
    assert!(!condition.is_true() && !condition.is_false());
    assert_eq!(unclear.condition("Paused"), None);
}

#[rstest]
#[case::empty("", None)]
#[case::running("Running", Some(InstancePhase::Running))]
#[case::of_a_newer_kubevirt("Dreaming", None)]
fn an_unknown_phase_is_none(#[case] phase: &str, #[case] known: Option<InstancePhase>) {
    let instance: VirtualMachineInstance = read(json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {},
        "spec": {"domain": {"devices": {}}},
        "status": {"phase": phase},
    }));
    assert_eq!(instance.phase(), known);
}

#[test]
fn a_volume_reports_its_phase() {
    let volume: DataVolume = read(json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "DataVolume",
        "metadata": {},
        "spec": {},
        "status": {"phase": "PVCBound"},
    }));
    assert_eq!(volume.phase(), Some(DataVolumePhase::PVCBound));
}

#[test]
fn the_installation_names_the_flags_of_its_programs() {
    let kubevirt: KubeVirt = read(json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "KubeVirt",
        "metadata": {},
        "spec": {"customizeComponents": {"flags": {"controller": {"pool-controller-threads": "0"}}}},
    }));
    assert_eq!(kubevirt.controller_flag("pool-controller-threads"), Some("0"));
    assert_eq!(kubevirt.controller_flag("v"), None);
}
