use rstest::rstest;
use serde_json::json;

use super::*;
use crate::testing::test_time;

/// The metadata of a machine of a wrapper with this UID.
fn metadata(owner: &str) -> ObjectMeta {
    owned_by(vmpool_api::diskimage::API_VERSION, "VirtualMachine", owner)
}

fn owned_by(api_version: &str, kind: &str, owner: &str) -> ObjectMeta {
    serde_json::from_value(json!({
        "name": "web", "namespace": "team-a", "uid": "uid-machine",
        "annotations": { APPLIED_TEMPLATE: "{}" }, "labels": { WRAPPER_UID: "uid-web" },
        "ownerReferences": [{ "apiVersion": api_version, "kind": kind,
            "name": "web", "uid": owner, "controller": true }],
    }))
    .unwrap()
}

fn found(spec: &Value, status: &Value) -> WrapperMachine {
    let stored = read_wrapper_machine(&metadata("uid-web"), spec, status);
    StoredWrapperMachine::found(Some(&stored), "uid-web", &objects::template_digest("{}"))
        .ours()
        .unwrap()
        .clone()
}

#[test]
fn a_machine_belongs_to_the_wrapper_that_controls_it() {
    let stored = read_wrapper_machine(&metadata("uid-other"), &json!({}), &json!({}));
    assert!(StoredWrapperMachine::found(Some(&stored), "uid-web", "").is_foreign());
    assert!(StoredWrapperMachine::found(None, "uid-web", "").is_missing());
    let stored = read_wrapper_machine(&metadata("uid-web"), &json!({}), &json!({}));
    let of =
        |wanted: &str| StoredWrapperMachine::found(Some(&stored), "uid-web", wanted).ours().unwrap().current;
    assert!(of(&objects::template_digest("{}")));
    assert!(!of(&objects::template_digest("{ }")), "another template");
}

#[rstest]
#[case::another_group("no.such.group/v1", "VirtualMachine")]
#[case::the_group_of_machines(kubevirt::API_VERSION, "VirtualMachine")]
#[case::another_kind(vmpool_api::diskimage::API_VERSION, "VMDiskImage")]
fn a_machine_whose_owner_has_only_the_uid_of_a_wrapper_is_foreign(
    #[case] api_version: &str,
    #[case] kind: &str,
) {
    let stored = read_wrapper_machine(&owned_by(api_version, kind, "uid-web"), &json!({}), &json!({}));
    assert!(StoredWrapperMachine::found(Some(&stored), "uid-web", "").is_foreign());
    let renamed = ObjectMeta { name: Some("db".to_owned()), ..metadata("uid-web") };
    let stored = read_wrapper_machine(&renamed, &json!({}), &json!({}));
    assert!(StoredWrapperMachine::found(Some(&stored), "uid-web", "").is_foreign());
}

#[rstest]
#[case::halted(json!({"runStrategy": "Halted"}), "Running", true)]
#[case::always(json!({"runStrategy": "Always"}), "Stopped", false)]
#[case::manual_and_stopped(json!({"runStrategy": "Manual"}), "Stopped", true)]
#[case::manual_and_running(json!({"runStrategy": "Manual"}), "Running", false)]
#[case::the_old_field(json!({"running": false}), "Stopped", true)]
#[case::the_old_field_on(json!({"running": true}), "Stopped", false)]
fn the_run_strategy_decides_whether_a_machine_is_off(
    #[case] spec: Value,
    #[case] printable: &str,
    #[case] off: bool,
) {
    assert_eq!(found(&spec, &json!({ "printableStatus": printable })).off, off);
}

#[test]
fn a_machine_that_has_started_stays_so_and_a_successor_has_not() {
    let running = read_wrapper_machine(&metadata("uid-web"), &json!({}), &json!({ "created": true }));
    let mut stopped = read_wrapper_machine(&metadata("uid-web"), &json!({}), &json!({ "created": false }));
    stopped.remember(&running);
    assert!(stopped.machine.started);
    let mut successor = read_wrapper_machine(
        &ObjectMeta { uid: Some("uid-new".to_owned()), ..metadata("uid-web") },
        &json!({}),
        &json!({}),
    );
    successor.remember(&running);
    assert!(!successor.machine.started);
}

fn volume(phase: &str, message: &str) -> kubevirt::DataVolume {
    let mut volume = kubevirt::DataVolume::new("web-root", kubevirt::DataVolumeSpec::default());
    volume.metadata = owned_by(kubevirt::API_VERSION, "VirtualMachine", "uid-machine");
    volume.status = serde_json::from_value(json!({
        "phase": phase,
        "conditions": [{ "type": "Running", "status": "False", "message": message }],
    }))
    .unwrap();
    volume
}

#[rstest]
#[case::succeeded("Succeeded", "", (true, false, false))]
#[case::waiting_for_a_consumer("WaitForFirstConsumer", "", (true, false, false))]
#[case::failed("Failed", "", (false, true, false))]
#[case::cloning("CloneInProgress", "the source is not found", (false, false, false))]
#[case::without_its_source("CloneScheduled", "Source snapshot debian not found", (false, false, true))]
#[case::in_another_language("Pending", "die Quelle fehlt (code 17)", (false, false, true))]
fn the_phase_of_a_disk_is_read(
    #[case] phase: &str,
    #[case] message: &str,
    #[case] expected: (bool, bool, bool),
) {
    let found = read_wrapper_disk(&volume(phase, message), test_time(5)).unwrap().disk;
    assert_eq!((found.populated, found.failed, found.stuck_since.is_some()), expected);
}

#[rstest]
#[case::earlier(Some(test_time(2)), test_time(2))]
#[case::in_the_future(Some(test_time(9)), test_time(5))]
#[case::unknown(None, test_time(5))]
fn a_disk_waits_since_cdi_reports_the_same(#[case] heartbeat: Option<Timestamp>, #[case] since: Timestamp) {
    let mut stored = volume("CloneScheduled", "Source snapshot debian not found");
    let status = stored.status.as_mut().unwrap();
    let condition = &mut status.conditions.as_mut().unwrap()[0];
    let time = heartbeat.map(|time| ("lastHeartbeatTime".to_owned(), json!(time.to_string())));
    condition.unknown_fields.extend(time);
    assert_eq!(read_wrapper_disk(&stored, test_time(5)).unwrap().disk.stuck_since, Some(since));
}

#[test]
fn a_disk_that_waits_for_a_quota_is_not_stuck() {
    let mut stored = volume("Pending", "exceeded quota");
    let status = stored.status.as_mut().unwrap();
    status.conditions.as_mut().unwrap()[0].reason = Some("ErrExceededQuota".to_owned());
    assert_eq!(read_wrapper_disk(&stored, test_time(5)).unwrap().disk.stuck_since, None);
}

#[test]
fn a_disk_that_still_waits_keeps_its_time() {
    let stuck = || volume("Pending", "source not found");
    let former = read_wrapper_disk(&stuck(), test_time(5)).unwrap();
    let mut now = read_wrapper_disk(&stuck(), test_time(50)).unwrap();
    now.remember(&former);
    assert_eq!(now.disk.stuck_since, Some(test_time(5)));
    let mut progressed = read_wrapper_disk(&volume("CloneInProgress", ""), test_time(60)).unwrap();
    progressed.remember(&now);
    assert_eq!(progressed.disk.stuck_since, None);
}

#[test]
fn a_disk_belongs_to_the_machine_that_controls_it_and_has_the_label() {
    let stored = read_wrapper_disk(&volume("Succeeded", ""), test_time(5)).unwrap();
    assert_eq!(stored.machine, ObjectKey::new("team-a", "web"));
    let ours = WrapperMachine { uid: "uid-machine".to_owned(), ..found(&json!({}), &json!({})) };
    assert!(stored.of(&FoundObject::Ours(ours.clone())).is_some());
    assert!(stored.of(&FoundObject::Ours(WrapperMachine { uid: "uid-former".to_owned(), ..ours })).is_none());
    let mut other = volume("Succeeded", "");
    other.metadata.labels = None;
    assert_eq!(read_wrapper_disk(&other, test_time(5)), None);
}
