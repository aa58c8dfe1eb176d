use serde_json::json;
use vmpool_engine::protection::UNTIL;
use vmpool_platforms::{Dvp, Platform};

use super::*;

/// A machine that was created at this second, and is protected until the hour if `protected`.
fn machine(name: &str, second: i64, phase: &str, protected: bool) -> Arc<Machine> {
    let created = Timestamp::from_second(second).unwrap();
    let annotations = if protected { json!({ UNTIL: "1970-01-01T01:00:00Z" }) } else { json!({}) };
    let object = json!({
        "metadata": {
            "name": name, "namespace": "team-a", "uid": name, "creationTimestamp": created,
            "annotations": annotations,
        },
        "spec": { "blockDeviceRefs": [] },
        "status": { "phase": phase },
    });
    Arc::new(Dvp::read_machine(&serde_json::from_value(object).unwrap()))
}

/// The sentences for a scale-down in this order that deletes the chosen machines.
fn skipped(policy: ScaleDownPolicy, machines: &[Arc<Machine>], chosen: &[&str]) -> Vec<String> {
    let now = Timestamp::from_second(600).unwrap();
    let mut live: Vec<&Arc<Machine>> = machines.iter().collect();
    live.sort_by(|a, b| policy.compare(a, b));
    let chosen: BTreeSet<Uid> = chosen.iter().map(|uid| Uid::from(*uid)).collect();
    let places = skipped_for_protection(policy, &live, &chosen, now);
    places.into_iter().map(|place| describe_protected(policy, place, &live, now)).collect()
}

#[test]
fn a_protected_machine_that_would_leave_earlier_is_named_with_the_end_of_its_protection() {
    let machines = [
        machine("web-a", 10, "Running", false),
        machine("web-b", 20, "Running", true),
        machine("web-c", 30, "Running", true),
    ];
    let expected = ["the newest, web-c, is protected until 1970-01-01T01:00:00Z"];
    assert_eq!(skipped(ScaleDownPolicy::NewestFirst, &machines[..1], &["web-a"]), [""; 0]);
    let only_newest = [machines[0].clone(), machines[2].clone()];
    assert_eq!(skipped(ScaleDownPolicy::NewestFirst, &only_newest, &["web-a"]), expected);
    let both = skipped(ScaleDownPolicy::NewestFirst, &machines, &["web-a"]);
    assert_eq!(both[1], "number 2 in the order, web-b, is protected until 1970-01-01T01:00:00Z");
    // In the other order, these machines stay in any case.
    assert_eq!(skipped(ScaleDownPolicy::OldestFirst, &machines, &["web-a"]), [""; 0]);
}

#[test]
fn a_ready_machine_is_not_skipped_for_one_that_never_was() {
    let machines = [machine("web-a", 10, "Pending", false), machine("web-b", 20, "Running", true)];
    assert_eq!(skipped(ScaleDownPolicy::NewestFirst, &machines, &["web-a"]), [""; 0]);
}
