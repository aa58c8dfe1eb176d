//! Rules about changes, and changes that are always allowed.

use rstest::rstest;
use vmpool_api::kubevirt::annotations::{INSTANCETYPE_POLICY, SCALE_IN_TARGETS};

use super::*;

#[test]
fn the_selector_never_changes() {
    let mut new = with(
        pool(),
        "/spec/selector",
        json!({ "matchExpressions": [{ "key": "farm", "operator": "Exists" }] }),
    );
    let verdict = update(&pool(), &new);
    assert_eq!(refused(&verdict), [Rule::SelectorChanged]);
    let AdmissionDecision::Refused(refusals) = verdict.outcome else { unreachable!("it is refused") };
    assert_eq!(refusals.first().field, "spec.selector");
    assert!(refusals.to_string().contains("selector is immutable"), "{refusals}");
    new["spec"]["selector"] = json!({ "matchLabels": { "farm": "other" } });
    assert_eq!(refused(&update(&pool(), &new)), [Rule::SelectorMatch, Rule::SelectorChanged]);
    // The same selector in other words.
    new["spec"]["selector"] = json!({ "matchLabels": { "farm": "render" }, "matchExpressions": [] });
    assert_allowed(&update(&pool(), &new));
}

/// A stored pool that breaks a rule can still be scaled, labeled, and deleted.
#[test]
fn a_part_that_does_not_change_is_not_judged() {
    let mut broken = with(pool(), "/spec/maxUnavailable", json!("x%"));
    broken = with(broken, &format!("{MACHINE}/runStrategy"), Value::Null);
    broken = with(broken, "/spec/autohealing", json!({ "minFailingToStartDuration": "-5m" }));
    broken = with(broken, "/metadata/name", json!("a".repeat(70)));
    assert_eq!(refused(&create(&broken)).len(), 4);
    assert_allowed(&update(&broken, &with(broken.clone(), "/spec/replicas", json!(5))));
    assert_allowed(&update(&broken, &with(broken.clone(), "/metadata/labels", json!({ "a": "b" }))));
    let deleting = with(broken.clone(), "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    assert_allowed(&update(&broken, &with(deleting, "/spec/paused", json!(7))));
    let repaired = with(broken.clone(), "/spec/maxUnavailable", json!("10%"));
    assert_allowed(&update(&broken, &repaired));
    assert_eq!(
        refused(&update(&broken, &with(broken.clone(), "/spec/maxUnavailable", json!("y%")))),
        [Rule::BadPercent]
    );
}

#[rstest]
#[case::a_user("alice", false)]
#[case::the_api_server_for_removals(HANDLER, true)]
fn only_the_removal_handler_writes_the_removal_record(#[case] user: &str, #[case] allowed: bool) {
    let recorded = with(pool(), "/metadata/annotations", json!({ SCALE_IN_TARGETS: "[]" }));
    let expected: &[Rule] = if allowed { &[] } else { &[Rule::TargetsRecord] };
    let none = LookupOutcome::There(json!({}));
    assert_eq!(refused(&among(user, Some(&pool()), &recorded, Some(&none))), expected);
    assert_eq!(refused(&among(user, Some(&recorded), &pool(), Some(&none))), expected);
    assert_eq!(refused(&among(user, None, &recorded, Some(&none))), expected);
    let deleting = with(recorded.clone(), "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    assert_eq!(refused(&among(user, Some(&pool()), &deleting, Some(&none))), expected);
    assert_allowed(&among(
        user,
        Some(&recorded),
        &with(recorded.clone(), "/spec/replicas", json!(9)),
        Some(&none),
    ));
}

/// The shrink guard of other platforms does not exist here.
#[test]
fn every_user_may_lower_the_count() {
    assert!(rules().scale_guard().is_none());
    assert_allowed(&update(&pool(), &with(pool(), "/spec/replicas", json!(1))));
    // Without a count, the pool has one machine.
    assert_allowed(&update(&pool(), &with(pool(), "/spec/replicas", Value::Null)));
}

#[test]
fn only_changed_names_and_labels_need_the_other_pools() {
    // Those with a name are of storage.
    let lookups = |old: Option<&Value>, new: &Value| {
        needs(old, new).lookups.iter().filter(|lookup| lookup.name.is_none()).count()
    };
    let old = pool();
    assert_eq!(lookups(None, &old), 1);
    assert_eq!(lookups(Some(&old), &with(old.clone(), "/spec/replicas", json!(9))), 0);
    assert_eq!(lookups(Some(&old), &machine("/template/spec/domain/memory/guest", json!("4Gi"))), 0);
    let renamed = with(
        machine("/dataVolumeTemplates/0/metadata/name", json!("cache")),
        &format!("{MACHINE}/template/spec/volumes/0/dataVolume/name"),
        json!("cache"),
    );
    assert_eq!(lookups(Some(&old), &renamed), 1);
    assert_eq!(lookups(Some(&old), &machine("/template/metadata/labels/tier", json!("a"))), 1);
    // A request that is rejected anyway reads nothing.
    assert_eq!(lookups(None, &machine("/runStrategy", Value::Null)), 0);
}

#[rstest]
#[case::by_the_field(json!("Expand"), Value::Null, 2, false)]
#[case::by_the_annotation(Value::Null, json!("PerMember"), 2, false)]
#[case::without_machines(json!("Expand"), Value::Null, 0, true)]
#[case::to_the_default(json!("Pin"), Value::Null, 2, true)]
#[case::an_annotation_that_the_field_overrides(json!("Pin"), json!("Expand"), 2, true)]
fn the_policy_for_instance_types_changes_only_without_machines(
    #[case] field: Value,
    #[case] annotation: Value,
    #[case] machines: u64,
    #[case] allowed: bool,
) {
    let old = with(pool(), "/status", json!({ "replicas": machines }));
    let mut new = with(old.clone(), "/spec/instancetypePolicy", field);
    if !annotation.is_null() {
        new = with(new, "/metadata/annotations", json!({ INSTANCETYPE_POLICY: annotation }));
    }
    let expected: &[Rule] = if allowed { &[] } else { &[Rule::PolicyChanged] };
    assert_eq!(refused(&update(&old, &new)), expected);
    let deleting = with(new, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    assert_allowed(&update(&old, &deleting));
}

#[test]
fn the_policy_for_instance_types_is_one_that_exists() {
    let field = with(pool(), "/spec/instancetypePolicy", json!("Copy"));
    assert_eq!(refused(&create(&field)), [Rule::UnknownWord]);
    let annotation = with(pool(), "/metadata/annotations", json!({ INSTANCETYPE_POLICY: "pin" }));
    assert_eq!(refused(&create(&annotation)), [Rule::UnknownWord]);
    assert_allowed(&create(&with(pool(), "/spec/instancetypePolicy", json!("PerMember"))));
}
