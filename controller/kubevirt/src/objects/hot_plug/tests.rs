use rstest::rstest;
use serde_json::{Value, json};

use super::super::super::canonical_values::live_parts;
use super::super::super::fixtures;
use super::super::InstanceObject;

/// The recorded instance with this size in its spec and in its status, and with these conditions.
fn instance(spec: &Value, status: &Value, conditions: &Value) -> InstanceObject {
    let mut object = fixtures::recorded_instance();
    object["spec"]["domain"]["cpu"] =
        json!({ "cores": 1, "sockets": spec[0], "threads": 1, "maxSockets": 8 });
    object["spec"]["domain"]["memory"] = json!({ "guest": spec[1], "maxGuest": "8Gi" });
    object["status"]["currentCPUTopology"] = json!({ "cores": 1, "sockets": status[0], "threads": 1 });
    object["status"]["memory"] =
        json!({ "guestAtBoot": "1Gi", "guestCurrent": status[1], "guestRequested": spec[1] });
    let known = object["status"]["conditions"].as_array_mut().unwrap();
    known.retain(|known| conditions.as_array().unwrap().iter().all(|new| new["type"] != known["type"]));
    known.extend(conditions.as_array().unwrap().iter().cloned());
    serde_json::from_value(object).unwrap()
}

/// The condition of a hot-plug as KubeVirt writes it.
fn hot_plug(kind: &str) -> Value {
    json!({ "type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-11-21T13:09:00Z" })
}

/// Whether the guest of an instance has this size.
fn has(instance: &InstanceObject, sockets: u64, guest: &str) -> bool {
    let spec = json!({ "domain": { "cpu": { "sockets": sockets }, "memory": { "guest": guest } } });
    instance.live.include(&live_parts(&spec))
}

#[rstest]
#[case::at_rest(json!([2, "2Gi"]), json!([2, "2Gi"]), json!([]), None)]
#[case::another_spelling(json!([2, "2Gi"]), json!([2, "2048Mi"]), json!([]), None)]
#[case::memory_that_libvirt_rounded(json!([2, "2Gi"]), json!([2, "2097153Ki"]), json!([]), None)]
#[case::before_the_condition(json!([2, "2Gi"]), json!([1, "2Gi"]), json!([]), Some("HotVCPUChange: the guest does not have 2 CPU sockets yet"))]
#[case::with_the_condition(json!([2, "2Gi"]), json!([1, "2Gi"]), json!([hot_plug("HotVCPUChange")]), Some("HotVCPUChange: the guest does not have 2 CPU sockets yet"))]
#[case::of_memory(json!([2, "2Gi"]), json!([2, "1Gi"]), json!([hot_plug("HotMemoryChange")]), Some("HotMemoryChange: the guest does not have 2Gi of memory yet"))]
#[case::with_a_message(
    json!([2, "2Gi"]), json!([2, "1Gi"]),
    json!([{ "type": "HotMemoryChange", "status": "False", "reason": "MemoryHotplugFailed", "message": "no slot" }]),
    Some("HotMemoryChange: no slot"))]
#[case::of_a_guest_that_cannot_be_migrated(
    json!([2, "2Gi"]), json!([1, "2Gi"]),
    json!([hot_plug("HotVCPUChange"), { "type": "LiveMigratable", "status": "False", "message": "PVC a is not shared" }]),
    Some("HotVCPUChange: the guest does not have 2 CPU sockets yet; LiveMigratable: PVC a is not shared"))]
#[case::that_failed_and_was_taken_back(
    json!([2, "1Gi"]), json!([2, "1Gi"]), json!([{ "type": "HotMemoryChange", "status": "False", "message": "no slot" }]), None)]
fn a_hot_plug_is_pending_until_the_guest_has_it(
    #[case] spec: Value,
    #[case] status: Value,
    #[case] conditions: Value,
    #[case] pending: Option<&str>,
) {
    let instance = instance(&spec, &status, &conditions);
    assert_eq!(instance.pending_update.as_deref(), pending);
    assert_eq!(has(&instance, 2, spec[1].as_str().unwrap()), pending.is_none());
}

#[test]
fn an_instance_has_the_live_parts_of_its_guest() {
    let pending = instance(&json!([2, "2Gi"]), &json!([1, "1Gi"]), &json!([hot_plug("HotVCPUChange")]));
    assert!(has(&pending, 1, "1Gi") && !has(&pending, 2, "1Gi") && !has(&pending, 1, "2Gi"));
    // KubeVirt has not reported the values of the guest, only that the hot-plug is not done.
    let unknown = instance(&json!([2, "2Gi"]), &json!([null, null]), &json!([hot_plug("HotVCPUChange")]));
    assert!(!has(&unknown, 1, "2Gi") && !has(&unknown, 2, "2Gi"));
}

#[rstest]
#[case::no_size(json!(null), json!(null))]
#[case::other_types(json!({"sockets": "x"}), json!({"guestCurrent": {}}))]
fn a_status_without_a_size_delays_nothing(#[case] topology: Value, #[case] memory: Value) {
    let mut object = fixtures::recorded_instance();
    object["spec"]["domain"] = json!({ "cpu": { "sockets": 2 }, "memory": { "guest": "2Gi" } });
    object["status"]["currentCPUTopology"] = topology;
    object["status"]["memory"] = memory;
    let instance: InstanceObject = serde_json::from_value(object).unwrap();
    assert_eq!(instance.pending_update, None);
    assert!(has(&instance, 2, "2Gi"));
}
