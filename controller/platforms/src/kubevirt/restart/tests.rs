use rstest::rstest;

use super::super::{fixtures, read};
use super::*;

fn template(edit: &Value) -> Value {
    let mut template = fixtures::spec()["virtualMachineTemplate"].clone();
    json_patch::merge(&mut template, edit);
    template
}

/// The step from the recorded template to an edited one.
fn to(edit: &Value) -> Step {
    step(Some("herd-2"), Some("herd-1"), Some(&template(edit)), Some(&template(&json!({}))))
}

#[rstest]
#[case::the_label_of_the_instance_is_missing(Some("herd-2"), None, true, true, Step::Restart)]
#[case::no_label_at_all(None, None, true, true, Step::Restart)]
#[case::equal_labels(Some("herd-1"), Some("herd-1"), true, true, Step::None)]
#[case::equal_labels_of_a_missing_revision(Some("herd-1"), Some("herd-1"), false, false, Step::None)]
#[case::the_revision_of_the_machine_is_missing(Some("herd-2"), Some("herd-1"), false, true, Step::None)]
#[case::the_revision_of_the_instance_is_missing(Some("herd-2"), Some("herd-1"), true, false, Step::Restart)]
#[case::both_revisions_are_missing(Some("herd-2"), Some("herd-1"), false, false, Step::None)]
#[case::equal_templates(Some("herd-2"), Some("herd-1"), true, true, Step::Label)]
fn labels_and_revisions_decide_first(
    #[case] machine: Option<&str>,
    #[case] instance: Option<&str>,
    #[case] machine_stored: bool,
    #[case] instance_stored: bool,
    #[case] expected: Step,
) {
    let template = template(&json!({}));
    let stored = |is_stored: bool| is_stored.then_some(&template);
    assert_eq!(step(machine, instance, stored(machine_stored), stored(instance_stored)), expected);
}

#[rstest]
#[case::data_volume_templates(json!({"spec": {"dataVolumeTemplates": []}}), Step::Recreate)]
#[case::an_inner_label(json!({"spec": {"template": {"metadata": {"labels": {"tier": "a"}}}}}), Step::Restart)]
#[case::sockets(json!({"spec": {"template": {"spec": {"domain": {"cpu": {"sockets": 2}}}}}}), Step::LiveUpdate)]
#[case::an_outer_label(json!({"metadata": {"labels": {"tier": "a"}}}), Step::Label)]
#[case::the_run_strategy(json!({"spec": {"runStrategy": "Manual"}}), Step::Label)]
fn the_difference_of_the_templates_decides_then(#[case] edit: Value, #[case] expected: Step) {
    assert_eq!(to(&edit), expected);
}

#[test]
fn only_restarts_and_recreations_disrupt() {
    let disrupting = [Step::None, Step::Label, Step::LiveUpdate, Step::Restart, Step::Recreate]
        .into_iter()
        .filter(|step| step.disrupts());
    assert_eq!(disrupting.collect::<Vec<_>>(), [Step::Restart, Step::Recreate]);
}

fn machine(edit: &Value) -> MachineFacts {
    let mut object = fixtures::machine();
    json_patch::merge(&mut object, edit);
    read::machine(&serde_json::from_value(object).unwrap())
}

fn instance(edit: &Value) -> InstanceFacts {
    let mut object = fixtures::instance();
    json_patch::merge(&mut object, edit);
    read::instance(&serde_json::from_value(object).unwrap())
}

#[rstest]
#[case::always("Always", true)]
#[case::once("Once", true)]
#[case::manual("Manual", false)]
#[case::rerun("RerunOnFailure", false)]
fn a_guest_is_restarted_as_its_run_strategy_needs(#[case] strategy: &str, #[case] by_delete: bool) {
    let machine = machine(&json!({ "spec": { "runStrategy": strategy } }));
    let expected = if by_delete {
        Restart::DeleteInstance { uid: "0d6b6f4e".to_owned() }
    } else {
        Restart::Request(json!({
            "metadata": { "uid": fixtures::MACHINE_UID, "resourceVersion": "12196" },
            "status": { "stateChangeRequests": [{ "action": "Stop", "uid": "0d6b6f4e" }, { "action": "Start" }] },
        }))
    };
    assert_eq!(restart(&machine, "12196", &instance(&json!({}))), expected);
}

#[rstest]
#[case::a_request_is_open(
    json!({"spec": {"runStrategy": "Manual"}, "status": {"stateChangeRequests": [{"action": "Start"}]}}), json!({}), Restart::InProgress)]
#[case::the_instance_is_being_deleted(
    json!({}), json!({"metadata": {"deletionTimestamp": "2026-11-21T13:05:07Z"}}), Restart::InProgress)]
#[case::halted(json!({"spec": {"runStrategy": "Halted"}}), json!({}), Restart::NotRestarted)]
#[case::a_receiver(json!({"spec": {"runStrategy": "WaitAsReceiver"}}), json!({}), Restart::NotRestarted)]
#[case::an_unknown_strategy(json!({"spec": {"runStrategy": "Sometimes"}}), json!({}), Restart::NotRestarted)]
fn no_request_is_sent_if(
    #[case] machine_edit: Value,
    #[case] instance_edit: Value,
    #[case] expected: Restart,
) {
    assert_eq!(restart(&machine(&machine_edit), "1", &instance(&instance_edit)), expected);
}

#[test]
fn the_label_patch_tests_the_former_label() {
    let mut object = fixtures::instance();
    let patch: json_patch::Patch =
        serde_json::from_value(label(&instance(&json!({})), "herd-2").unwrap()).unwrap();
    json_patch::patch(&mut object, &patch).unwrap();
    assert_eq!(object["metadata"]["labels"]["kubevirt.io/vm-pool-revision-name"], "herd-2");
    assert_eq!(object["metadata"]["labels"]["app"], "herd");
    json_patch::patch(&mut object, &patch).unwrap_err();
}

#[test]
fn the_label_patch_tests_the_uid() {
    let mut object = fixtures::instance();
    object["metadata"]["uid"] = "another".into();
    let patch: json_patch::Patch =
        serde_json::from_value(label(&instance(&json!({})), "herd-2").unwrap()).unwrap();
    json_patch::patch(&mut object, &patch).unwrap_err();
}

#[test]
fn an_equal_or_missing_label_is_not_patched() {
    assert_eq!(label(&instance(&json!({})), "herd-1"), None);
    let unlabeled = instance(&json!({ "metadata": { "labels": null } }));
    assert_eq!(label(&unlabeled, "herd-1"), None);
}
