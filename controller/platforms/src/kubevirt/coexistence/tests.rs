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
    assert_eq!(configuration(&[installation(&edit)]).interface, expected);
    assert_eq!(configuration(&[]), Configuration::default());
}
