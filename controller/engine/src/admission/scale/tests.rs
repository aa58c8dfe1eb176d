//! The scale guard.

use rstest::rstest;
use serde_json::json;
use vmpool_decision::{LookupNamespace, LookupSubject, Needs, ObjectLookup};

use super::*;

const TERMS: ReplicasTerms = ReplicasTerms { policy: "spec.policy", explicit: "policy Explicit", absent: 0 };

fn scale(replicas: &Value) -> Value {
    json!({ "apiVersion": "autoscaling/v1", "kind": "Scale", "spec": { "replicas": replicas } })
}

#[rstest]
#[case::more(json!(2), json!(3), ScaleChange::Allow)]
#[case::the_same(json!(2), json!(2), ScaleChange::Allow)]
#[case::less(json!(3), json!(2), ScaleChange::AskPolicy(LoweredReplicas { from: 3, to: 2 }))]
#[case::a_zero_that_go_leaves_out(json!(1), Value::Null, ScaleChange::AskPolicy(LoweredReplicas { from: 1, to: 0 }))]
#[case::below_zero(json!(0), json!(-1), ScaleChange::AskPolicy(LoweredReplicas { from: 0, to: -1 }))]
fn scales_are_compared(#[case] old: Value, #[case] new: Value, #[case] step: ScaleChange) {
    assert_eq!(compare_scales(&scale(&old), &scale(&new)), Ok(step));
}

#[rstest]
#[case::nothing(Value::Null)]
#[case::a_list(json!([]))]
#[case::another_kind(json!({ "kind": "VirtualMachinePool", "spec": { "replicas": 1 } }))]
#[case::a_word(scale(&json!("3")))]
#[case::a_fraction(scale(&json!(1.5)))]
#[case::too_much(scale(&json!(1_i64 << 31)))]
#[case::another_spec(json!({ "kind": "Scale", "spec": 7 }))]
fn an_object_that_is_no_scale_is_reported(#[case] odd: Value) {
    let good = scale(&json!(3));
    assert!(
        compare_scales(&good, &odd)
            .unwrap_err()
            .to_string()
            .starts_with("object is no autoscaling/v1 Scale: ")
    );
    assert!(
        compare_scales(&odd, &good)
            .unwrap_err()
            .to_string()
            .starts_with("oldObject is no autoscaling/v1 Scale: ")
    );
}

#[rstest]
#[case::explicit(true)]
#[case::by_age(false)]
fn only_explicit_pools_are_guarded(#[case] explicit: bool) {
    let refusal = scale_guard_refusal(&TERMS, "web", explicit, LoweredReplicas { from: 3, to: 2 });
    assert_eq!(refusal.is_some(), explicit);
    assert!(refusal.is_none_or(|refusal| refusal.detail.contains("3 replicas and policy Explicit")));
}

/// The decision about a scale-down of a pool, and whether the pool was read.
fn review(uid: Option<&str>, may_reveal: bool, pool: LookupOutcome<Value>) -> (AdmissionDecision, bool) {
    let guard = ScaleGuard {
        path: "/scale",
        terms: TERMS,
        lookup: |name| ObjectLookup {
            subject: LookupSubject::Pool,
            api_version: "a/v1",
            plural: "pools",
            namespace: LookupNamespace::Reviewed,
            name: Some(name.to_owned()),
            fields: &[],
            reveals: false,
        },
        is_explicit: |pool| pool["explicit"] == true,
    };
    let (mut old, new) = (scale(&json!(3)), scale(&json!(2)));
    old["metadata"]["uid"] = json!(uid);
    let request = ScaleRequest { namespace: "team-a", name: "web", old: &old, new: &new };
    let mut reads = AdmissionReads::new(may_reveal);
    match review_scale(&guard, request, &reads) {
        Ok(decision) => (decision, false),
        Err(Needs(needs)) => {
            assert_eq!(needs, [AdmissionRead::Object((guard.lookup)("web"))]);
            reads.add_object((guard.lookup)("web"), Some(pool));
            (review_scale(&guard, request, &reads).unwrap(), true)
        }
    }
}

#[rstest]
#[case::of_this_uid(Some("u"), json!({ "metadata": { "uid": "u" }, "explicit": true }), false)]
#[case::by_age(Some("u"), json!({ "metadata": { "uid": "u" } }), true)]
#[case::another_of_the_name(Some("u"), json!({ "metadata": { "uid": "v" }, "explicit": true }), true)]
#[case::of_an_api_server_that_sends_no_uid(None, json!({ "metadata": { "uid": "u" }, "explicit": true }), false)]
fn the_stored_pool_decides(#[case] uid: Option<&str>, #[case] pool: Value, #[case] allowed: bool) {
    let (decision, _) = review(uid, true, LookupOutcome::There(pool));
    assert_eq!(decision == AdmissionDecision::Allowed, allowed, "{decision:?}");
}

#[test]
fn a_pool_that_cannot_be_read_leaves_the_request_undecided() {
    let (decision, _) = review(Some("u"), true, LookupOutcome::Failed("etcd is slow".to_owned()));
    let expected = "reading the policy of pool team-a/web: etcd is slow".to_owned();
    assert_eq!(decision, AdmissionDecision::Undecided(expected));
    assert_eq!(review(Some("u"), true, LookupOutcome::Absent), (AdmissionDecision::Allowed, true));
}

#[test]
fn a_client_that_does_not_know_the_uid_learns_nothing_of_the_pool() {
    let (decision, is_read) = review(None, false, LookupOutcome::Absent);
    assert!(matches!(decision, AdmissionDecision::Malformed(_)) && !is_read, "{decision:?}");
}
