//! Updates: rules check only changed parts, and some changes are reserved for certain users.

use rstest::rstest;
use serde_json::{Value, json};

use super::catalogue::broken;
use super::*;

/// A stored pool breaks all rules that one pool can break at once. None of them may refuse an update of
/// another part.
#[rstest]
#[case::labels("/metadata/labels", json!({ "team": "a" }))]
#[case::finalizers("/metadata/finalizers", json!(["a/b"]))]
#[case::more_replicas("/spec/replicas", json!(4))]
#[case::fewer_replicas("/spec/replicas", json!(2))]
#[case::the_policy("/spec/scaleDownPolicy", json!("NewestFirst"))]
fn what_is_stored_is_not_judged_again(#[case] pointer: &str, #[case] value: Value) {
    for (rule, pool) in broken() {
        let changed = with(pool.clone(), pointer, value.clone());
        let verdict = World::without(|cluster| *cluster = all_off()).update(&pool, &changed);
        assert_eq!(
            verdict,
            AdmissionVerdict { outcome: AdmissionDecision::Allowed, warnings: Vec::new() },
            "{rule}"
        );
    }
}

fn all_off() -> ClusterCapabilities {
    ClusterCapabilities {
        sdn: CapabilityState::No,
        machine_cidrs: CapabilityState::No,
        gpus: CapabilityState::No,
        in_place_resize: CapabilityState::No,
    }
}

/// The counterpart: a rule is evaluated again when its part changes.
#[test]
fn a_changed_part_is_judged_whole() {
    for (rule, pool) in broken() {
        // A setting is a single value. It changes from another value to the stored one.
        if rule.scope() == RuleScope::Rollout {
            assert_eq!(refused(&World::complete().update(&super::pool(), &pool)), Some(rule));
            continue;
        }
        let touched = match rule.scope() {
            RuleScope::Template | RuleScope::Part => {
                with(pool.clone(), &format!("{MACHINE}/priorityClassName"), json!("high"))
            }
            // The update changes all entries of the list.
            RuleScope::DiskTemplate => {
                let mut pool = pool.clone();
                for disk in pool["spec"]["virtualDiskTemplates"].as_array_mut().unwrap() {
                    disk["reclaim"]["untold"] = json!(true);
                    disk["spec"]["untold"] = json!(true);
                }
                pool
            }
            RuleScope::Devices => {
                let disk = json!({ "name": "extra", "spec": { "persistentVolumeClaim": { "size": "1Gi" } } });
                with(pool.clone(), "/spec/virtualDiskTemplates/-", disk)
            }
            RuleScope::Always
            | RuleScope::Create
            | RuleScope::Update
            | RuleScope::Scale
            | RuleScope::Rollout => continue,
        };
        let verdict = World::complete().update(&pool, &touched);
        // The added device breaks C1, which is evaluated first.
        let expected =
            if rule.scope() == RuleScope::Devices { vec![rule, Rule::DiskNotAttached] } else { vec![rule] };
        assert!(refused(&verdict).is_some_and(|found| expected.contains(&found)), "{rule}: {verdict:?}");
    }
}

#[test]
fn a_pool_that_is_being_deleted_may_become_anything() {
    let old = with(pool(), "/metadata/deletionTimestamp", json!("2030-01-01T00:00:00Z"));
    let new = with(old.clone(), "/spec", json!({ "nonsense": true }));
    assert_allowed(&World::complete().update(&old, &new));
}

#[rstest]
#[case::unchanged_spec(pool())]
#[case::deleting(with(pool(), "/metadata/deletionTimestamp", json!("2030-01-01T00:00:00Z")))]
fn the_record_is_guarded_before_every_shortcut(#[case] old: Value) {
    let new = with(old.clone(), "/metadata/annotations", json!({ RECORD: "[]" }));
    let world = World::complete();
    for (user, allowed) in
        [("alice", false), ("system:admin", false), ("", false), (HANDLER, true), (CONTROLLER, true)]
    {
        let verdict = world.judge(user, Some(&old), &new);
        assert_eq!(refused(&verdict), (!allowed).then_some(Rule::TargetsRecord), "{user}");
        let verdict = world.judge(user, Some(&new), &old);
        assert_eq!(refused(&verdict), (!allowed).then_some(Rule::TargetsRecord), "{user} removes it");
        let verdict = world.judge(user, None, &new);
        assert_eq!(refused(&verdict), (!allowed).then_some(Rule::TargetsRecord), "{user} creates with it");
    }
    // An update may keep the record unchanged.
    assert_allowed(&world.update(&new, &with(new.clone(), "/metadata/labels", json!({ "a": "b" }))));
}

#[test]
fn a_replacement_that_drops_the_record_gets_a_hint() {
    let old = with(pool(), "/metadata/annotations", json!({ RECORD: "[]" }));
    let AdmissionDecision::Refused(refusal) = World::complete().update(&old, &pool()).outcome else {
        panic!("it is allowed")
    };
    let text = refusal.to_string();
    assert!(
        text.contains("drops its removal record")
            && text.contains("a patch or an apply instead of a replacement"),
        "{text}"
    );
}

#[test]
fn no_user_is_exempt_without_configured_users() {
    let mut world = World::complete();
    world.settings = AdmissionSettings { cluster: world.settings.cluster, ..AdmissionSettings::default() };
    let explicit = with(pool(), "/spec/scaleDownPolicy", json!("Explicit"));
    let fewer = with(explicit.clone(), "/spec/replicas", json!(2));
    for user in ["", HANDLER, CONTROLLER] {
        assert_eq!(refused(&world.judge(user, Some(&explicit), &fewer)), Some(Rule::ExplicitCount));
        let recorded = with(pool(), "/metadata/annotations", json!({ RECORD: "[]" }));
        assert_eq!(refused(&world.judge(user, Some(&pool()), &recorded)), Some(Rule::TargetsRecord));
    }
}

#[rstest]
#[case::fewer("Explicit", json!(3), "Explicit", json!(2), true)]
#[case::left_out("Explicit", json!(3), "Explicit", Value::Null, true)]
#[case::the_same("Explicit", json!(3), "Explicit", json!(3), false)]
#[case::more("Explicit", json!(3), "Explicit", json!(9), false)]
#[case::becoming_explicit_and_fewer("NewestFirst", json!(3), "Explicit", json!(2), true)]
#[case::becoming_explicit("NewestFirst", json!(3), "Explicit", json!(3), false)]
#[case::leaving_explicit_and_fewer("Explicit", json!(3), "NewestFirst", json!(2), false)]
#[case::another_policy("OldestFirst", json!(3), "OldestFirst", json!(2), false)]
#[case::from_nothing("Explicit", Value::Null, "Explicit", json!(0), false)]
fn explicit_pools_shrink_by_name_only(
    #[case] before: &str,
    #[case] from: Value,
    #[case] after: &str,
    #[case] to: Value,
    #[case] is_refused: bool,
) {
    let state = |policy: &str, replicas: Value| {
        with(with(pool(), "/spec/scaleDownPolicy", json!(policy)), "/spec/replicas", replicas)
    };
    let (old, new) = (state(before, from), with(state(after, to), "/metadata/labels", json!({ "a": "b" })));
    let world = World::complete();
    assert_eq!(refused(&world.update(&old, &new)), is_refused.then_some(Rule::ExplicitCount));
    assert_eq!(refused(&world.judge(HANDLER, Some(&old), &new)), None);
    assert_eq!(
        refused(&world.judge(CONTROLLER, Some(&old), &new)),
        is_refused.then_some(Rule::ExplicitCount)
    );
}

/// If a fact about the cluster is unknown, the rules that depend on it allow the request.
#[test]
fn the_unknown_allows() {
    let mut world = World::without(|cluster| *cluster = ClusterCapabilities::default());
    let networks = json!([{ "type": "Main" }, { "type": "Network", "name": "a", "id": 2 }]);
    let all =
        with(machine("/networks", networks), &format!("{MACHINE}/gpus"), json!([{ "gpuClassName": "a" }]));
    let all = with(all, &format!("{MACHINE}/cpu/coreFraction"), json!("Auto"));
    assert_allowed(&world.create(&all));
    world.settings.cluster = all_off();
    assert!(refused(&world.create(&all)).is_some());
}
