use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn installation(edit: &Value) -> InstallationObject {
    let mut object = json!({
        "metadata": { "name": "kubevirt", "namespace": "kubevirt", "generation": 3 },
        "spec": { "customizeComponents": { "flags": { "controller": { "pool-controller-threads": "0" } } } },
        "status": { "phase": "Deployed", "observedGeneration": 3 },
    });
    json_patch::merge(&mut object, edit);
    serde_json::from_value(object).unwrap()
}

#[test]
fn without_kubevirt_the_loop_is_off() {
    assert_eq!(pool_loop(&[]), PoolLoop::Off);
}

#[test]
fn with_the_flag_applied_the_loop_is_off() {
    assert_eq!(pool_loop(&[installation(&json!({}))]), PoolLoop::Off);
}

fn flag(value: &Value) -> Value {
    json!({ "spec": { "customizeComponents": { "flags": { "controller": { "pool-controller-threads": value } } } } })
}

#[rstest]
#[case::no_flag(flag(&json!(null)), "is not set in KubeVirt kubevirt/kubevirt; set")]
#[case::another_number(flag(&json!("3")), "is \"3\"")]
#[case::an_empty_flag(flag(&json!("")), "is \"\"")]
#[case::a_number_of_another_type(flag(&json!(0)), "is not set")]
#[case::no_spec(json!({"spec": null}), "is not set")]
#[case::a_spec_of_another_type(json!({"spec": "x"}), "is not set")]
#[case::not_deployed(json!({"status": {"phase": "Deploying"}}), "in phase \"Deploying\"")]
#[case::no_phase(json!({"status": {"phase": null}}), "in phase \"\"")]
#[case::an_older_generation(json!({"status": {"observedGeneration": 2}}), "has not observed generation 3")]
#[case::no_status(json!({"status": null}), "has not observed generation 3")]
#[case::being_deleted(json!({"metadata": {"deletionTimestamp": "2026-11-21T13:05:07Z"}}), "is being deleted")]
fn the_loop_may_run(#[case] edit: Value, #[case] message: &str) {
    let PoolLoop::MayRun(why) = pool_loop(&[installation(&edit)]) else { panic!("the loop counts as off") };
    assert!(why.contains(message), "{why}");
}

#[test]
fn the_flag_is_needed_in_each_installation() {
    let installations = [installation(&json!({})), installation(&flag(&json!("1")))];
    assert!(matches!(pool_loop(&installations), PoolLoop::MayRun(_)));
}

#[rstest]
#[case::live_update(json!("LiveUpdate"), true)]
#[case::stage(json!("Stage"), false)]
#[case::absent(json!(null), false)]
fn running_machines_are_updated_if_the_strategy_says_so(#[case] strategy: Value, #[case] expected: bool) {
    let edit = json!({ "spec": { "configuration": { "vmRolloutStrategy": strategy } } });
    assert_eq!(live_updates(&[installation(&edit)]), expected);
    assert!(!live_updates(&[]));
}

#[test]
fn the_default_architecture_is_that_of_the_cluster() {
    let architecture =
        |installations: &[InstallationObject]| kubevirt_configuration(installations).architecture;
    let edit = json!({ "status": { "defaultArchitecture": "arm64" } });
    assert_eq!(architecture(&[installation(&edit)]).as_deref(), Some("arm64"));
    assert_eq!(architecture(&[]), None);
}

#[rstest]
#[case::the_default(json!(null), false)]
#[case::reference(json!("reference"), false)]
#[case::expand(json!("expand"), true)]
#[case::expand_all(json!("expandAll"), true)]
fn references_are_expanded_if_the_policy_of_the_cluster_says_so(
    #[case] policy: Value,
    #[case] expected: bool,
) {
    let edit = json!({ "spec": { "configuration": { "instancetype": { "referencePolicy": policy } } } });
    assert_eq!(expands_references(&[installation(&json!({})), installation(&edit)]), expected);
    assert!(!expands_references(&[]));
}

#[rstest]
#[case::the_default(json!(null), DefaultInterface::Bridge)]
#[case::empty(json!(""), DefaultInterface::Bridge)]
#[case::a_bridge(json!("bridge"), DefaultInterface::Bridge)]
#[case::masquerade(json!("masquerade"), DefaultInterface::Masquerade)]
#[case::another(json!("slirp"), DefaultInterface::Other)]
fn the_default_interface_is_that_of_the_cluster(#[case] word: Value, #[case] expected: DefaultInterface) {
    let edit = json!({ "spec": { "configuration": { "network": { "defaultNetworkInterface": word } } } });
    assert_eq!(kubevirt_configuration(&[installation(&edit)]).interface, expected);
    assert_eq!(kubevirt_configuration(&[]), Configuration::default());
}

#[rstest]
#[case::the_default(json!(null), DefaultInterface::Other)]
#[case::masquerade(json!("masquerade"), DefaultInterface::Masquerade)]
fn a_bridge_that_the_cluster_does_not_permit_is_no_default(
    #[case] word: Value,
    #[case] expected: DefaultInterface,
) {
    let network = json!({ "defaultNetworkInterface": word, "permitBridgeInterfaceOnPodNetwork": false });
    let edit = json!({ "spec": { "configuration": { "network": network } } });
    assert_eq!(kubevirt_configuration(&[installation(&edit)]).interface, expected);
}

/// The default with this name in a cluster with this configuration and status.
fn default_of(field: &str, configuration: &Value, status: &Value) -> Option<String> {
    let edit = json!({ "spec": { "configuration": configuration }, "status": status });
    let defaults = machine_defaults(&[installation(&edit)]);
    match field {
        "architecture" => Some(defaults.architecture).filter(|name| !name.is_empty()),
        "cpuRequest" => defaults.cpu_request,
        "evictionStrategy" => defaults.eviction_strategy,
        architecture => defaults.machine_types.get(architecture).cloned(),
    }
}

#[rstest]
#[case::no_architecture("architecture", json!({}), json!({}), None)]
#[case::the_architecture_that_is_used(
    "architecture", json!({ "architectureConfiguration": { "defaultArchitecture": "amd64" } }),
    json!({ "defaultArchitecture": "arm64" }), Some("arm64")
)]
#[case::the_configured_architecture(
    "architecture", json!({ "architectureConfiguration": { "defaultArchitecture": "s390x" } }),
    json!({ "defaultArchitecture": "" }), Some("s390x")
)]
#[case::the_machine_type_of_kubevirt("amd64", json!({}), json!({}), Some("q35"))]
#[case::another_of_kubevirt("arm64", json!({}), json!({}), Some("virt"))]
#[case::a_third_of_kubevirt("s390x", json!({}), json!({}), Some("s390-ccw-virtio"))]
#[case::a_configured_machine_type(
    "arm64", json!({ "architectureConfiguration": { "arm64": { "machineType": "virt-9" } } }), json!({}), Some("virt-9")
)]
#[case::the_former_field("amd64", json!({ "machineType": "pc" }), json!({}), Some("pc"))]
#[case::not_the_former_field_besides(
    "amd64", json!({ "machineType": "pc", "architectureConfiguration": { "amd64": { "machineType": "q35-9" } } }),
    json!({}), Some("q35-9")
)]
#[case::an_unknown_architecture("riscv64", json!({}), json!({}), None)]
#[case::no_request("cpuRequest", json!({}), json!({}), None)]
#[case::a_request("cpuRequest", json!({ "cpuRequest": "250m" }), json!({}), Some("250m"))]
#[case::a_request_as_a_number("cpuRequest", json!({ "cpuRequest": 2 }), json!({}), Some("2"))]
#[case::the_request_that_kubevirt_does_not_write("cpuRequest", json!({ "cpuRequest": "0.1" }), json!({}), None)]
#[case::no_amount("cpuRequest", json!({ "cpuRequest": "much" }), json!({}), None)]
#[case::no_strategy("evictionStrategy", json!({}), json!({}), None)]
#[case::a_strategy("evictionStrategy", json!({ "evictionStrategy": "LiveMigrate" }), json!({}), Some("LiveMigrate"))]
#[case::a_strategy_of_another_type("evictionStrategy", json!({ "evictionStrategy": 3 }), json!({}), None)]
fn general_defaults_are_those_that_the_cluster_shows(
    #[case] field: &str,
    #[case] configuration: Value,
    #[case] status: Value,
    #[case] expected: Option<&str>,
) {
    assert_eq!(default_of(field, &configuration, &status).as_deref(), expected);
}

#[test]
fn without_kubevirt_no_general_default_is_known() {
    let defaults = machine_defaults(&[]);
    assert!(defaults.machine_types.is_empty() && defaults.architecture.is_empty(), "{defaults:?}");
}
