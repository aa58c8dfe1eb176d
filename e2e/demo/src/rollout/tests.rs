//! Rollouts of a pool with two machines, whose generation 3 is new.

use serde_json::json;

use super::*;

/// A status: the observed generation, and the numbers of ready and updated machines.
struct Seen(i64, i64, i64);

fn trace(seen: &[Seen]) -> RolloutTrace {
    let mut trace = RolloutTrace::new(3, 2);
    for Seen(generation, ready, updated) in seen {
        trace.observe(&JsonObject::new(json!({ "status": {
            "observedGeneration": generation, "replicas": 2, "readyReplicas": ready, "updatedReplicas": updated,
        } })));
    }
    trace
}

#[test]
fn a_rollout_is_complete_when_the_new_generation_is_observed() {
    assert!(!trace(&[Seen(2, 2, 2)]).is_complete(), "the controller has not begun");
    assert!(!trace(&[Seen(3, 2, 0)]).is_complete());
    assert!(!trace(&[Seen(3, 1, 2)]).is_complete());
    assert!(trace(&[Seen(2, 2, 2), Seen(3, 1, 1), Seen(3, 2, 2)]).is_complete());
}

#[test]
fn a_rollout_one_at_a_time_passes() {
    trace(&[Seen(3, 2, 0), Seen(3, 1, 0), Seen(3, 2, 1), Seen(3, 2, 2)]).check_never_all_at_once().unwrap();
    trace(&[Seen(3, 1, 2), Seen(3, 2, 2)]).check_never_all_at_once().unwrap();
}

#[test]
fn a_rollout_that_stops_all_machines_fails() {
    let error = trace(&[Seen(3, 1, 0), Seen(3, 0, 0), Seen(3, 2, 2)]).check_never_all_at_once().unwrap_err();
    assert!(error.to_string().contains("at the same time"), "{error}");
}

#[test]
fn a_rollout_of_which_only_the_end_was_seen_fails() {
    let cases: [&[Seen]; 4] =
        [&[], &[Seen(3, 2, 2)], &[Seen(2, 1, 1), Seen(3, 2, 2)], &[Seen(3, 2, 0), Seen(3, 2, 2)]];
    for seen in cases {
        let error = trace(seen).check_never_all_at_once().unwrap_err();
        assert!(error.to_string().contains("no status"), "{error}");
    }
}
