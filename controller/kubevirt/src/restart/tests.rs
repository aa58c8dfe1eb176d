use rstest::rstest;

use super::super::fixtures;
use super::*;

fn machine(edit: &Value) -> KubeVirtMachineObject {
    let mut object = fixtures::recorded_machine();
    json_patch::merge(&mut object, edit);
    serde_json::from_value(object).unwrap()
}

fn instance(edit: &Value) -> InstanceObject {
    let mut object = fixtures::recorded_instance();
    json_patch::merge(&mut object, edit);
    serde_json::from_value(object).unwrap()
}

#[rstest]
#[case::always("Always", true)]
#[case::once("Once", true)]
#[case::manual("Manual", false)]
#[case::rerun("RerunOnFailure", false)]
fn a_guest_is_restarted_as_its_run_strategy_needs(#[case] strategy: &str, #[case] by_delete: bool) {
    let machine = machine(&json!({ "spec": { "runStrategy": strategy } }));
    let expected = if by_delete {
        GuestRestart::DeleteInstance { uid: "0d6b6f4e".to_owned() }
    } else {
        GuestRestart::Request(json!({
            "metadata": { "uid": fixtures::MACHINE_UID, "resourceVersion": "12196" },
            "status": { "stateChangeRequests": [{ "action": "Stop", "uid": "0d6b6f4e" }, { "action": "Start" }] },
        }))
    };
    assert_eq!(restart_guest(&machine, &instance(&json!({}))), expected);
}

#[rstest]
#[case::a_request_is_open(
    json!({"spec": {"runStrategy": "Manual"}, "status": {"stateChangeRequests": [{"action": "Start"}]}}), json!({}), GuestRestart::InProgress)]
#[case::the_instance_is_being_deleted(
    json!({}), json!({"metadata": {"deletionTimestamp": "2026-11-21T13:05:07Z"}}), GuestRestart::InProgress)]
#[case::halted(json!({"spec": {"runStrategy": "Halted"}}), json!({}), GuestRestart::NotRestarted)]
#[case::a_receiver(json!({"spec": {"runStrategy": "WaitAsReceiver"}}), json!({}), GuestRestart::NotRestarted)]
#[case::an_unknown_strategy(json!({"spec": {"runStrategy": "Sometimes"}}), json!({}), GuestRestart::NotRestarted)]
fn no_request_is_sent_if(
    #[case] machine_edit: Value,
    #[case] instance_edit: Value,
    #[case] expected: GuestRestart,
) {
    assert_eq!(restart_guest(&machine(&machine_edit), &instance(&instance_edit)), expected);
}

#[test]
fn the_label_patch_tests_the_former_label() {
    let mut object = fixtures::recorded_instance();
    let patch: json_patch::Patch =
        serde_json::from_value(record_instance_revision(&instance(&json!({})), "herd-2").unwrap()).unwrap();
    json_patch::patch(&mut object, &patch).unwrap();
    assert_eq!(object["metadata"]["labels"]["kubevirt.io/vm-pool-revision-name"], "herd-2");
    assert_eq!(object["metadata"]["labels"]["app"], "herd");
    json_patch::patch(&mut object, &patch).unwrap_err();
}

#[test]
fn the_label_patch_tests_the_uid() {
    let mut object = fixtures::recorded_instance();
    object["metadata"]["uid"] = "another".into();
    let patch: json_patch::Patch =
        serde_json::from_value(record_instance_revision(&instance(&json!({})), "herd-2").unwrap()).unwrap();
    json_patch::patch(&mut object, &patch).unwrap_err();
}

#[test]
fn an_equal_or_missing_label_is_not_patched() {
    assert_eq!(record_instance_revision(&instance(&json!({})), "herd-1"), None);
    let unlabeled = instance(&json!({ "metadata": { "labels": null } }));
    assert_eq!(record_instance_revision(&unlabeled, "herd-1"), None);
}
