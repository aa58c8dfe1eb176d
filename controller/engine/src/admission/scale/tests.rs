//! The scale guard.

use rstest::rstest;
use serde_json::{Value, json};

use super::{LoweredReplicas, ReplicasTerms, ScaleChange, compare_scales, scale_guard_refusal};

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
