//! Why machines and disks are not ready, in the words of the platform.

use rstest::rstest;
use serde_json::{Value, json};

use super::{disk, machine};

fn fails(kind: &str, message: &str) -> Value {
    json!({ "type": kind, "status": "False", "reason": "NotReady", "message": message })
}

#[rstest]
#[case::no_condition(json!([]), None)]
#[case::no_message(json!([fails("BlockDevicesReady", "")]), None)]
#[case::it_is_ready(json!([{ "type": "BlockDevicesReady", "status": "True", "message": "all are ready" }]), None)]
#[case::a_missing_class(
    json!([fails("Running", "waits"), fails("BlockDevicesReady", "no disk"), fails("VirtualMachineClassReady", "no class")]),
    Some("no class")
)]
#[case::devices(json!([fails("Running", "waits"), fails("BlockDevicesReady", "no disk")]), Some("no disk"))]
#[case::it_cannot_be_scheduled(json!([fails("Running", "no node fits")]), Some("no node fits"))]
#[case::the_agent_of_the_guest(json!([fails("AgentReady", "no agent")]), None)]
#[case::a_condition_that_does_not_keep_it_from_starting(json!([fails("ConfigurationApplied", "waits")]), None)]
fn the_problem_of_a_machine_that_waits_to_start(#[case] conditions: Value, #[case] problem: Option<&str>) {
    for phase in ["Pending", ""] {
        let status = json!({ "status": { "phase": phase, "conditions": conditions } });
        assert_eq!(machine(&status).problem.as_deref(), problem);
    }
}

#[rstest]
#[case("Running")]
#[case("Migrating")]
#[case("Starting")]
#[case("Stopping")]
#[case("Terminating")]
fn a_machine_in_another_phase_has_no_problem(#[case] phase: &str) {
    let status = json!({ "phase": phase, "conditions": [fails("BlockDevicesReady", "no disk")] });
    assert_eq!(machine(&json!({ "status": status })).problem, None);
}

#[rstest]
#[case::it_crashed("Degraded", "the guest panicked", Some("the guest panicked"))]
#[case::it_crashed_without_a_message("Degraded", "", Some("its phase is Degraded"))]
#[case::it_is_paused("Pause", "", Some("its phase is Pause"))]
#[case::it_runs("Running", "an old message", None)]
fn the_problem_of_a_guest_that_does_not_run(
    #[case] phase: &str,
    #[case] message: &str,
    #[case] problem: Option<&str>,
) {
    let conditions = [fails("BlockDevicesReady", "no disk"), fails("Running", message)];
    let status = json!({ "phase": phase, "conditions": conditions });
    assert_eq!(machine(&json!({ "status": status })).problem.as_deref(), problem);
}

#[rstest]
#[case::the_platform_starts_it(json!("AlwaysOn"), None)]
#[case::it_is_kept_off(json!("AlwaysOff"), Some("runPolicy AlwaysOff keeps it off"))]
#[case::operations_start_it(json!("Manual"), Some("runPolicy Manual only a VirtualMachineOperation starts it"))]
#[case::a_user_stopped_it(json!("AlwaysOnUnlessStoppedManually"), Some("does not start it again"))]
#[case::another_version_knows_it(json!("Sometimes"), None)]
#[case::the_default(Value::Null, Some("runPolicy AlwaysOnUnlessStoppedManually does not start it again"))]
fn a_stopped_machine_has_a_problem_if_the_platform_does_not_start_it(
    #[case] policy: Value,
    #[case] expected: Option<&str>,
) {
    let object = json!({ "spec": { "runPolicy": policy }, "status": { "phase": "Stopped" } });
    let problem = machine(&object).problem;
    assert_eq!(problem.is_some(), expected.is_some());
    assert!(
        problem.iter().zip(expected).all(|(problem, expected)| problem.contains(expected)),
        "{problem:?}"
    );
}

#[rstest]
#[case::it_waits_for_an_object("Pending", "no image", Some("no image"))]
#[case::it_waits_for_its_turn("Pending", "", None)]
#[case::it_is_provisioned("Provisioning", "50%", None)]
#[case::it_failed("Failed", "no space", Some("no space"))]
#[case::it_failed_without_a_message("Failed", "", Some("NotReady"))]
fn a_disk_that_is_not_ready(#[case] phase: &str, #[case] message: &str, #[case] failure: Option<&str>) {
    let status = json!({ "phase": phase, "conditions": [fails("Ready", message)] });
    assert_eq!(disk(&json!({ "status": status })).failure.as_deref(), failure);
}

#[test]
fn a_long_message_is_truncated() {
    let status = json!({ "phase": "Pending", "conditions": [fails("Running", &"ä".repeat(10_000))] });
    assert_eq!(machine(&json!({ "status": status })).problem.unwrap().chars().count(), 300);
}
