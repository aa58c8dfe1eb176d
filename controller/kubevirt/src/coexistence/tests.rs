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
#[case::live_update("v1.5.0", json!("LiveUpdate"), true)]
#[case::stage("v1.9.0", json!("Stage"), false)]
#[case::an_unknown_strategy("v1.9.0", json!("Later"), false)]
#[case::the_default_since_1_6("v1.6.0", json!(null), true)]
#[case::the_default_before_1_6("v1.5.3", json!(null), false)]
#[case::an_empty_strategy("v1.9.0", json!(""), true)]
#[case::a_strategy_of_another_type("v1.5.3", json!(3), false)]
fn running_machines_are_updated_if_the_strategy_says_so(
    #[case] version: &str,
    #[case] strategy: Value,
    #[case] expected: bool,
) {
    let edit = json!({
        "spec": { "configuration": { "vmRolloutStrategy": strategy } },
        "status": { "observedKubeVirtVersion": version },
    });
    assert_eq!(live_updates(&[installation(&edit)]), expected);
    assert_eq!(kubevirt_configuration(&[installation(&edit)]).updates_live, expected);
    assert!(!live_updates(&[]));
}

#[rstest]
#[case::a_release_before(json!("v1.5.0"), false)]
#[case::a_fix_of_a_release_before(json!("v1.5.12"), false)]
#[case::an_older_major_version(json!("v0.59.2"), false)]
#[case::a_commit_after_a_release_before(json!("v1.5.2-33-gab12cd3"), false)]
#[case::without_a_prefix_before(json!("1.5.0"), false)]
#[case::the_first_release(json!("v1.6.0"), true)]
#[case::a_pre_release_of_it(json!("v1.6.0-alpha.0"), true)]
#[case::a_later_pre_release(json!("v1.9.0-beta.0"), true)]
#[case::two_digits(json!("v1.10.0"), true)]
#[case::a_later_major_version(json!("v2.0.0"), true)]
#[case::without_a_prefix(json!("1.6.1"), true)]
#[case::with_a_build(json!("v1.7.0+build.5"), true)]
#[case::the_hash_of_a_commit(json!("1f5e0d2c8b"), true)]
#[case::a_digest(json!("sha256:0.1.2"), true)]
#[case::a_nightly_build(json!("20260801_1f5e0d2"), true)]
#[case::a_word(json!("devel"), true)]
#[case::an_incomplete_version(json!("v1.5"), true)]
#[case::a_number_that_is_too_large(json!("v1.99999999999999999999.0"), true)]
#[case::an_empty_text(json!(""), true)]
#[case::absent(json!(null), true)]
#[case::another_type(json!(1.5), true)]
fn without_a_strategy_the_version_decides(#[case] version: Value, #[case] expected: bool) {
    let edit = json!({ "status": { "observedKubeVirtVersion": version } });
    assert_eq!(live_updates(&[installation(&edit)]), expected);
}

#[test]
fn running_machines_are_updated_if_each_installation_updates_them() {
    let at = |version: &str| installation(&json!({ "status": { "observedKubeVirtVersion": version } }));
    assert!(live_updates(&[at("v1.6.0"), at("v1.9.0")]));
    assert!(!live_updates(&[at("v1.6.0"), at("v1.5.0")]));
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
#[case::the_strategy_of_kubevirt("evictionStrategy", json!({}), json!({}), Some("None"))]
#[case::a_strategy("evictionStrategy", json!({ "evictionStrategy": "LiveMigrate" }), json!({}), Some("LiveMigrate"))]
#[case::a_strategy_of_another_type("evictionStrategy", json!({ "evictionStrategy": 3 }), json!({}), Some("None"))]
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
