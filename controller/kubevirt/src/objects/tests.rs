use rstest::rstest;
use serde_json::{Value, json};
use vmpool_api::kubevirt::values::{PrintableStatus, RunStrategy};

use super::super::fixtures;
use super::*;

fn machine(edit: impl FnOnce(&mut Value)) -> KubeVirtMachineObject {
    let mut machine = fixtures::recorded_machine();
    edit(&mut machine);
    serde_json::from_value(machine).unwrap()
}

#[test]
fn caches_keep_no_finalizers_labels_and_foreign_annotations() {
    let pool: KubeVirtPoolObject = serde_json::from_value(fixtures::recorded_pool()).unwrap();
    let machine = machine(|_| ());
    let instance: InstanceObject = serde_json::from_value(fixtures::recorded_instance()).unwrap();
    for metadata in [&pool.metadata, &machine.metadata, &instance.metadata] {
        assert_eq!(metadata.labels, None);
        assert_eq!(metadata.annotations, None);
        assert_eq!(metadata.finalizers, None);
        assert_eq!(metadata.managed_fields, None);
        assert!(metadata.uid.is_some() && metadata.resource_version.is_some());
    }
    assert_eq!(
        machine.finalizers,
        FinalizerSummary { count: 2, position: Some(1), dependents_first: false, orphans: false }
    );
    assert_eq!(
        pool.finalizers,
        FinalizerSummary { count: 1, position: Some(0), dependents_first: false, orphans: false }
    );
}

#[test]
fn annotations_of_vmpool_are_kept() {
    let machine = machine(|machine| {
        machine["metadata"]["annotations"] = json!({ "vmpool.dev/a": "1", "other/b": "2" });
    });
    let kept: Vec<_> = machine.metadata.annotations.unwrap().into_iter().collect();
    assert_eq!(kept, [("vmpool.dev/a".to_owned(), "1".to_owned())]);
}

#[test]
fn the_spec_of_a_pool_is_read_back_whole() {
    let pool: KubeVirtPoolObject = serde_json::from_value(fixtures::recorded_pool()).unwrap();
    assert_eq!(pool.spec(), fixtures::recorded_pool_spec());
    assert_eq!(pool.template(), fixtures::recorded_pool_spec()["virtualMachineTemplate"]);
    assert_eq!(pool.spec_error(), None);
}

#[test]
fn of_a_spec_that_is_too_long_only_the_count_is_kept() {
    let mut pool = fixtures::recorded_pool();
    pool["spec"]["virtualMachineTemplate"]["metadata"]["annotations"] = json!({ "a": "x".repeat(200_000) });
    let pool: KubeVirtPoolObject = serde_json::from_value(pool).unwrap();
    assert_eq!(pool.spec(), json!({ "replicas": 2 }));
    assert_eq!(pool.template(), Value::Null);
    assert!(pool.spec_error().unwrap().contains("shorten virtualMachineTemplate"));
}

#[rstest]
#[case::no_spec("spec", json!(null))]
#[case::a_spec_of_another_type("spec", json!([1]))]
#[case::a_status_of_another_type("status", json!("x"))]
#[case::inner_fields_of_another_type(
    "spec", json!({"runStrategy": 1, "running": "x", "dataVolumeTemplates": {}, "template": {"metadata": 1, "spec": []}}))]
#[case::lists_of_another_type(
    "spec", json!({"dataVolumeTemplates": [1, {"metadata": []}], "template": {"spec": {"volumes": [1, {"dataVolume": 1}]}}}))]
#[case::conditions_of_another_type("status", json!({"conditions": [1, {"type": 2}], "startFailure": [], "printableStatus": {}}))]
fn an_object_with_unexpected_types_is_decoded(#[case] field: &str, #[case] value: Value) {
    let edit = |mut object: Value| {
        object[field] = value.clone();
        object
    };
    serde_json::from_value::<KubeVirtMachineObject>(edit(fixtures::recorded_machine())).unwrap();
    serde_json::from_value::<InstanceObject>(edit(fixtures::recorded_instance())).unwrap();
    let pool: KubeVirtPoolObject = serde_json::from_value(edit(fixtures::recorded_pool())).unwrap();
    pool.template();
}

#[test]
fn names_that_are_too_long_are_no_names() {
    let machine = machine(|machine| {
        machine["spec"]["template"]["spec"]["volumes"] = json!([
            { "dataVolume": { "name": "x".repeat(1000) } },
            { "dataVolume": { "name": "root-0" } },
            { "dataVolume": { "name": "root-0" } },
            { "persistentVolumeClaim": { "claimName": "" } },
        ]);
    });
    assert_eq!(machine.storage.data_volumes, ["root-0"]);
    assert!(machine.storage.claims.is_empty());
}

#[test]
fn the_kinds_are_those_of_kubevirt() {
    use kube::Resource;
    let name =
        |group: std::borrow::Cow<'_, str>, version: &str, plural: &str| format!("{plural}.{version}.{group}");
    let names = [
        name(
            KubeVirtPoolObject::group(&()),
            &KubeVirtPoolObject::version(&()),
            &KubeVirtPoolObject::plural(&()),
        ),
        name(
            KubeVirtMachineObject::group(&()),
            &KubeVirtMachineObject::version(&()),
            &KubeVirtMachineObject::plural(&()),
        ),
        name(InstanceObject::group(&()), &InstanceObject::version(&()), &InstanceObject::plural(&())),
        name(
            InstallationObject::group(&()),
            &InstallationObject::version(&()),
            &InstallationObject::plural(&()),
        ),
    ];
    assert_eq!(
        names,
        [
            "virtualmachinepools.v1beta1.pool.kubevirt.io",
            "virtualmachines.v1.kubevirt.io",
            "virtualmachineinstances.v1.kubevirt.io",
            "kubevirts.v1.kubevirt.io",
        ]
    );
}

fn machine_with(edit: &Value) -> KubeVirtMachineObject {
    machine(|object| json_patch::merge(object, edit))
}

#[rstest]
#[case::strategy(json!({"runStrategy": "Manual"}), Some(RunStrategy::Manual))]
#[case::running(json!({"runStrategy": null, "running": true}), Some(RunStrategy::Always))]
#[case::not_running(json!({"runStrategy": null, "running": false}), Some(RunStrategy::Halted))]
#[case::an_unknown_strategy(json!({"runStrategy": "Sometimes"}), None)]
#[case::none(json!({"runStrategy": null}), None)]
fn the_run_strategy_has_two_spellings(#[case] spec: Value, #[case] strategy: Option<RunStrategy>) {
    let machine = machine_with(&json!({ "spec": spec }));
    assert_eq!(machine.run_strategy, strategy);
}

#[rstest]
#[case::no_status(json!(null), Readiness::Unknown)]
#[case::no_condition(json!({"conditions": []}), Readiness::Unknown)]
#[case::unknown(json!({"conditions": [{"type": "Ready", "status": "Unknown"}]}), Readiness::Unknown)]
#[case::copied_from_a_pod(
    json!({"conditions": [{"type": "Ready", "status": "False", "lastProbeTime": null, "lastTransitionTime": null}]}),
    Readiness::NotReady { since: None })]
#[case::not_ready(
    json!({"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-21T13:05:07Z"}]}),
    Readiness::NotReady { since: Some("2026-11-21T13:05:07Z".parse().unwrap()) })]
fn readiness_is_the_condition_ready(#[case] status: Value, #[case] readiness: Readiness) {
    assert_eq!(machine_with(&json!({ "status": status })).status.readiness, readiness);
}

#[test]
fn a_failing_machine_is_read() {
    let machine = machine_with(&json!({ "status": {
        "conditions": [{ "type": "RestartRequired", "status": "True" }],
        "printableStatus": "CrashLoopBackOff",
        "startFailure": { "consecutiveFailCount": 4 },
        "stateChangeRequests": [{ "action": "Stop" }, { "action": "Start" }],
    } }));
    let status = machine.status;
    assert!(status.restart_required && status.state_change_requested);
    assert_eq!(status.printable_status, Some(PrintableStatus::CrashLoopBackOff));
    assert_eq!(status.start_failures, 4);
}
