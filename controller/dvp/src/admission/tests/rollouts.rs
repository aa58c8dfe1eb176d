//! Rollout settings: fields, the annotations that replace them, and the revision that a pool requests.

use rstest::rstest;
use serde_json::json;
use vmpool_api::annotations;

use super::*;

const MAX: &str = annotations::ROLLOUT_MAX_UNAVAILABLE;
const REVISION: &str = annotations::ROLLOUT_REVISION;
const HISTORY: &str = annotations::REVISION_HISTORY_LIMIT;
const ID: &str = "0123456789abcdef";

fn annotated(pool: Value, key: &str, value: &str) -> Value {
    with(pool, "/metadata/annotations", json!({ key: value }))
}

fn rollout(fields: Value) -> Value {
    with(pool(), "/spec/rollout", fields)
}

fn warned(verdict: &AdmissionVerdict) -> Vec<Rule> {
    verdict.warnings.iter().map(|warning| listed(warning.rule)).collect()
}

#[rstest]
#[case::a_number(json!({ "maxUnavailable": 3 }))]
#[case::a_percentage(json!({ "maxUnavailable": "25%" }))]
#[case::more_than_there_are(json!({ "maxUnavailable": 5000 }))]
#[case::paused(json!({ "paused": true }))]
#[case::nothing(json!({}))]
#[case::what_a_newer_version_may_have(json!({ "maxSurge": 1 }))]
fn fields_are_allowed(#[case] fields: Value) {
    assert_allowed(&World::complete().create(&rollout(fields)));
}

#[rstest]
#[case::none_at_once(json!({ "maxUnavailable": 0 }), Rule::MaxUnavailable)]
#[case::a_number_as_text(json!({ "maxUnavailable": "3" }), Rule::MaxUnavailable)]
#[case::more_than_all(json!({ "maxUnavailable": "101%" }), Rule::MaxUnavailable)]
#[case::a_list(json!({ "maxUnavailable": [] }), Rule::MaxUnavailable)]
#[case::paused_as_text(json!({ "paused": "true" }), Rule::Unreadable)]
#[case::a_revision_as_number(json!({ "revision": 7 }), Rule::RevisionName)]
#[case::a_path(json!({ "revision": "../x" }), Rule::RevisionName)]
#[case::no_object(json!("paused"), Rule::Unreadable)]
fn fields_are_refused(#[case] fields: Value, #[case] rule: Rule) {
    let bad = rollout(fields);
    assert_eq!(refused(&World::complete().create(&bad)), Some(rule));
    assert_eq!(refused(&World::complete().update(&pool(), &bad)), Some(rule));
    // A stored value refuses no other change.
    assert_allowed(&World::complete().update(&bad, &with(bad.clone(), "/spec/replicas", json!(4))));
}

#[rstest]
#[case::a_number(MAX, "3", true)]
#[case::a_percentage(MAX, "25%", true)]
#[case::zero(MAX, "0", false)]
#[case::a_fraction(MAX, "2.5", false)]
#[case::paused(PAUSED, "true", true)]
#[case::not_paused(PAUSED, "false", true)]
#[case::capital(PAUSED, "True", false)]
#[case::one(PAUSED, "1", false)]
#[case::a_limit(HISTORY, "0", true)]
#[case::a_negative_limit(HISTORY, "-1", false)]
#[case::a_sign(HISTORY, "+1", false)]
#[case::beyond_32_bits(HISTORY, "4294967296", false)]
#[case::empty(HISTORY, "", false)]
#[case::a_name(REVISION, "The_Last", false)]
#[case::no_name(REVISION, "", false)]
fn annotations_hold_what_fields_could(#[case] key: &str, #[case] value: &str, #[case] good: bool) {
    let world = World::complete();
    let annotated = annotated(pool(), key, value);
    let expected = (!good).then_some(Rule::RolloutAnnotation);
    assert_eq!(refused(&world.create(&annotated)), expected);
    // The rule also applies if the spec does not change. An update that leaves the spec unchanged is
    // otherwise always allowed.
    assert_eq!(refused(&world.update(&pool(), &annotated)), expected);
    // A stored value is not evaluated again and can be removed.
    assert_allowed(
        &world.update(&annotated, &with(annotated.clone(), "/metadata/labels", json!({ "a": "b" }))),
    );
    assert_allowed(&world.update(&annotated, &with(annotated.clone(), "/spec/replicas", json!(9))));
    assert_allowed(&world.update(&annotated, &pool()));
}

#[test]
fn an_annotation_that_is_no_text_is_refused() {
    let odd = with(pool(), "/metadata/annotations", json!({ PAUSED: true }));
    assert_eq!(refused(&World::complete().create(&odd)), Some(Rule::RolloutAnnotation));
}

#[rstest]
#[case::the_same_number(json!({ "maxUnavailable": 3 }), MAX, "3", false)]
#[case::another_number(json!({ "maxUnavailable": 3 }), MAX, "4", true)]
#[case::the_same_percentage(json!({ "maxUnavailable": "3%" }), MAX, "3%", false)]
#[case::a_percentage_of_the_same_digits(json!({ "maxUnavailable": 3 }), MAX, "3%", true)]
#[case::the_same_answer(json!({ "paused": true }), PAUSED, "true", false)]
#[case::another_answer(json!({ "paused": false }), PAUSED, "true", true)]
fn the_field_wins_with_a_warning(
    #[case] fields: Value,
    #[case] key: &str,
    #[case] value: &str,
    #[case] said: bool,
) {
    let both = annotated(rollout(fields.clone()), key, value);
    let expected = if said { vec![Rule::RolloutContradiction] } else { vec![] };
    for old in [pool(), rollout(fields), annotated(pool(), key, value)] {
        assert_eq!(warned(&World::complete().update(&old, &both)), expected);
    }
    assert_eq!(warned(&World::complete().create(&both)), expected);
    let later = with(both.clone(), "/spec/replicas", json!(4));
    assert_eq!(warned(&World::complete().update(&both, &later)), [], "it was said once");
}

#[rstest]
#[case::the_same_text("1h", "1h", false)]
#[case::another_spelling("60m", "1h", false)]
#[case::another_duration("61m", "1h", true)]
fn durations_are_compared_by_their_length(#[case] field: &str, #[case] annotation: &str, #[case] said: bool) {
    let both = with(pool(), "/metadata/annotations", json!({ "vmpool.dev/max-protection": annotation }));
    let both = with(both, "/spec/maxProtection", json!(field));
    let expected = if said { vec![Rule::RolloutContradiction] } else { vec![] };
    assert_eq!(warned(&World::complete().create(&both)), expected);
}

#[rstest]
#[case::the_same_fields(json!({ "notReadyFor": "10m" }), r#"{"notReadyFor": "600s"}"#, false)]
#[case::the_defaults(json!({}), r#"{"maxUnhealthy": "40%"}"#, false)]
#[case::another_time(json!({ "notReadyFor": "10m" }), "{}", true)]
fn settings_of_healing_are_compared_by_their_meaning(
    #[case] field: Value,
    #[case] annotation: &str,
    #[case] said: bool,
) {
    let both = with(pool(), "/metadata/annotations", json!({ "vmpool.dev/healing": annotation }));
    let both = with(both, "/spec/healing", field);
    let expected = if said { vec![Rule::RolloutContradiction] } else { vec![] };
    assert_eq!(warned(&World::complete().create(&both)), expected);
}

#[rstest]
#[case::a_number(json!(1), true)]
#[case::a_percentage(json!("10%"), true)]
#[case::zero(json!(0), false)]
#[case::a_number_as_a_text(json!("3"), false)]
#[case::more_than_all(json!("101%"), false)]
fn the_limit_on_provisioning_is_a_share(#[case] value: Value, #[case] allowed: bool) {
    let limited = with(pool(), "/spec/maxProvisioning", value);
    let expected = (!allowed).then_some(Rule::MaxProvisioning);
    assert_eq!(refused(&World::complete().create(&limited)), expected);
}

#[rstest]
#[case::machines(json!({ "replicas": 2 }), true)]
#[case::all_fields(json!({ "replicas": 2, "warmUp": "None", "warmUpDelay": "0s" }), true)]
#[case::a_negative_number(json!({ "replicas": -1 }), false)]
#[case::another_field(json!({ "replicas": 1, "delay": "1m" }), false)]
fn standby_has_known_settings(#[case] value: Value, #[case] allowed: bool) {
    let expected = (!allowed).then_some(Rule::Standby);
    assert_eq!(refused(&World::complete().create(&with(pool(), "/spec/standby", value))), expected);
}

#[test]
fn a_template_that_does_not_start_by_itself_has_no_standby_machines() {
    let manual = with(pool(), "/spec/virtualMachineTemplate/spec/runPolicy", json!("Manual"));
    let standby = |replicas: u32| with(manual.clone(), "/spec/standby", json!({ "replicas": replicas }));
    assert_eq!(refused(&World::complete().create(&standby(1))), Some(Rule::Standby));
    assert_allowed(&World::complete().create(&standby(0)));
    assert_allowed(&World::complete().create(&manual));
}

#[test]
fn machines_are_not_recreated_for_their_images_if_all_disks_are_retained() {
    let recreates = with(pool(), "/spec/imageRefresh", json!("Recreate"));
    assert_eq!(refused(&World::complete().create(&recreates)), None);
    let disks = pool()["spec"]["virtualDiskTemplates"].as_array().map_or(0, Vec::len);
    let retained = (0..disks).fold(pool(), |pool, disk| {
        let path = format!("/spec/virtualDiskTemplates/{disk}/reclaim");
        with(pool, &path, json!({ "onScaleDown": "Retain" }))
    });
    assert_eq!(
        refused(&World::complete().create(&with(retained.clone(), "/spec/imageRefresh", json!("Report")))),
        None
    );
    let in_vain = with(retained.clone(), "/spec/imageRefresh", json!("Recreate"));
    assert_eq!(refused(&World::complete().create(&in_vain)), Some(Rule::ImageRefresh));
    let annotated =
        with(retained.clone(), "/metadata/annotations", json!({ "vmpool.dev/image-refresh": "Recreate" }));
    assert_eq!(refused(&World::complete().update(&retained, &annotated)), Some(Rule::ImageRefresh));
    let later = with(in_vain.clone(), "/spec/replicas", json!(4));
    assert_eq!(refused(&World::complete().update(&in_vain, &later)), None, "an existing pool can change");
}

/// Held by the field, and held by the annotation with an unchanged spec.
fn held() -> [Value; 2] {
    [rollout(json!({ "revision": ID })), annotated(pool(), REVISION, ID)]
}

#[test]
fn a_revision_that_is_there_is_allowed() {
    for held in held() {
        assert_allowed(&World::complete().update(&pool(), &held));
        assert_allowed(&World::complete().update(&held, &pool()));
    }
}

#[rstest]
#[case::absent(|world: &mut World| world.facts.revisions = vec![LookupOutcome::Absent; 2], "no stored revision")]
#[case::not_read(|world: &mut World| world.facts.revisions.clear(), "no stored revision")]
#[case::of_a_predecessor(|world: &mut World| *world = world.clone().revision("before", &["root"]), "no stored revision")]
#[case::without_a_template(
    |world: &mut World| *world = world.clone().revision("u", &["root", "scratch"]),
    r#"have disk "scratch", and spec.virtualDiskTemplates has no entry"#
)]
fn a_revision_that_cannot_be_made_is_refused(#[case] change: fn(&mut World), #[case] words: &str) {
    let mut world = World::complete();
    change(&mut world);
    for held in held() {
        let verdict = world.update(&pool(), &held);
        assert_eq!(refused(&verdict), Some(Rule::PinnedRevision));
        let AdmissionDecision::Refused(refusal) = verdict.outcome else { unreachable!("it is refused") };
        assert!(refusal.to_string().contains(words), "{refusal}");
        // The stored value refuses no other change, and it can be removed.
        assert_allowed(&world.update(&held, &with(held.clone(), "/spec/replicas", json!(4))));
        assert_allowed(&world.update(&held, &pool()));
    }
}

/// A revision of a deleted pool of the same name already has the name that the new revision would get.
#[test]
fn a_revision_that_had_to_take_the_second_name_is_found() {
    let theirs = World::complete().revision("before", &["root"]).facts.revisions;
    let mut world = World::complete().revision("u", &["root", "scratch"]);
    world.facts.revisions.splice(..0, theirs.clone());
    let AdmissionDecision::Refused(refusal) = world.update(&pool(), &held()[0]).outcome else {
        panic!("it is allowed")
    };
    assert!(refusal.to_string().contains("scratch"), "judged by the wrong one: {refusal}");
    world = World::complete();
    world.facts.revisions.splice(..0, theirs.clone());
    assert_allowed(&world.update(&pool(), &held()[0]));
    world.facts.revisions = [theirs, vec![LookupOutcome::Failed("no answer".to_owned())]].concat();
    let AdmissionDecision::Undecided(reason) = world.update(&pool(), &held()[0]).outcome else {
        panic!("it is decided")
    };
    assert!(reason.contains(r#""builders-0123456789abcdef-u""#), "{reason}");
}

#[test]
fn a_revision_with_fewer_disks_fits() {
    let world = World::complete().revision("u", &["root"]);
    assert_allowed(&world.update(&pool(), &held()[0]));
}

#[test]
fn a_new_pool_has_no_revisions() {
    for held in held() {
        assert_eq!(refused(&World::complete().create(&held)), Some(Rule::PinnedRevision));
    }
}

#[test]
fn a_revision_that_cannot_be_read_decides_nothing() {
    let mut world = World::complete();
    world.facts.revisions = vec![LookupOutcome::Failed("no answer".to_owned()), LookupOutcome::Absent];
    let AdmissionDecision::Undecided(reason) = world.update(&pool(), &held()[0]).outcome else {
        panic!("it is decided")
    };
    assert_eq!(
        reason,
        r#"reading ControllerRevision "builders-0123456789abcdef", which spec.rollout.revision names: no answer"#
    );
}

/// A disk template that the requested revision uses cannot be removed while the controller creates machines
/// from that revision.
#[test]
fn disks_of_the_revision_are_kept() {
    let smaller = |pool: Value| {
        let pool = with(pool, &format!("{MACHINE}/blockDeviceRefs/2"), Value::Null);
        with(pool, "/spec/virtualDiskTemplates/1", Value::Null)
    };
    for held in held() {
        let verdict = World::complete().update(&held, &smaller(held.clone()));
        assert_eq!(refused(&verdict), Some(Rule::PinnedRevision));
    }
    assert_eq!(refused(&World::complete().update(&pool(), &smaller(pool()))), None);
}

#[test]
fn only_then_is_the_revision_read() {
    let world = World::complete();
    let read =
        |old: &Value, new: &Value| world.needs(Some(old), new).map_or_else(Vec::new, |needs| needs.revisions);
    for held in held() {
        assert_eq!(
            read(&pool(), &held),
            ["builders-0123456789abcdef", "builders-0123456789abcdef-u"],
            "the name that it has, and the one that it has if that was taken"
        );
        let none: [&str; 0] = [];
        assert_eq!(read(&held, &with(held.clone(), "/spec/replicas", json!(9))), none);
        assert_eq!(read(&held, &with(held.clone(), "/metadata/labels", json!({ "a": "b" }))), none);
        assert_eq!(read(&held, &pool()), none);
    }
}

#[test]
fn moving_from_the_annotation_to_the_field_changes_nothing() {
    let [by_field, by_annotation] = held();
    let mut world = World::complete();
    // If admission read the revision, it would refuse the request.
    world.facts.revisions.clear();
    assert_allowed(&world.update(&by_annotation, &by_field));
}

#[rstest]
#[case::held_by_the_field(held()[0].clone(), "spec.rollout.revision pins all machines to revision 0123456789abcdef")]
#[case::held_by_the_annotation(held()[1].clone(), "pins all machines to revision 0123456789abcdef")]
#[case::paused(rollout(json!({ "paused": true })), "while the rollout is paused")]
#[case::paused_by_the_annotation(annotated(pool(), PAUSED, "true"), "while the rollout is paused")]
fn a_template_change_that_reaches_no_machine_causes_a_warning(#[case] old: Value, #[case] words: &str) {
    let new = with(old.clone(), &format!("{MACHINE}/cpu/cores"), json!(4));
    let verdict = World::complete().update(&old, &new);
    assert_eq!((&verdict.outcome, warned(&verdict)), (&AdmissionDecision::Allowed, vec![Rule::RolloutHeld]));
    let text = verdict.warnings[0].to_string();
    assert!(text.contains(words) && text.ends_with("(rule W21)"), "{text}");
    assert_eq!(warned(&World::complete().update(&old, &with(old.clone(), "/spec/replicas", json!(4)))), []);
}

#[test]
fn the_field_decides_whether_it_is_paused() {
    let going = annotated(rollout(json!({ "paused": false })), PAUSED, "true");
    let changed = with(going.clone(), &format!("{MACHINE}/cpu/cores"), json!(4));
    assert_allowed(&World::complete().update(&going, &changed));
}

#[test]
fn a_pool_that_is_being_deleted_may_have_any_annotation() {
    let deleting = with(pool(), "/metadata/deletionTimestamp", json!("2030-01-01T00:00:00Z"));
    assert_allowed(&World::complete().update(&deleting, &annotated(deleting.clone(), PAUSED, "perhaps")));
}

#[rstest]
#[case::ours(
    json!({
        "metadata": { "ownerReferences": [{ "uid": "x" }, {
            "apiVersion": "virtualization.deckhouse.io/v1alpha2", "kind": "VirtualMachinePool",
                "name": "web", "uid": "u",
            "controller": true,
        }] },
        "data": { "spec": { "blockDeviceRefs": [
            { "kind": "ClusterVirtualImage", "name": "toolbox" },
            { "kind": "VirtualDisk", "name": "root" },
        ] } },
    }),
    Some("u"),
    &["root"]
)]
#[case::of_another_group(
    json!({ "metadata": { "ownerReferences": [{
        "apiVersion": "no.such.group/v1", "kind": "VirtualMachinePool",
            "name": "web", "uid": "u", "controller": true,
    }] } }),
    None,
    &[]
)]
#[case::without_owner(json!({ "metadata": { "ownerReferences": [{ "uid": "x" }] }, "data": null }), None, &[])]
#[case::something_else(json!([1]), None, &[])]
fn a_stored_revision_is_read(#[case] object: Value, #[case] owner: Option<&str>, #[case] disks: &[&str]) {
    let revision = StoredRevisionFacts::read(&object);
    assert_eq!(
        (revision.owner.clone(), revision.disks.as_slice()),
        (
            owner.map(|uid| ObjectId::new("web", uid)),
            &disks.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()[..]
        )
    );
}
