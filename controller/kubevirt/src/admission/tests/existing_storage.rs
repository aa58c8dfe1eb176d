//! DataVolumes and claims that machines of the pool would adopt.

use rstest::rstest;

use super::super::existing_storage::MAX_VOLUMES;
use super::*;

/// What the webhook reads of storage for a request, and the verdict if each such object of this kind is as
/// given.
fn review(old: Option<&Value>, new: &Value, plural: &str, object: &Value) -> (Vec<String>, AdmissionVerdict) {
    let found = |lookup: &ObjectLookup| match &lookup.name {
        None => LookupOutcome::There(json!({ "items": [] })),
        Some(_) if lookup.plural == plural => LookupOutcome::There(object.clone()),
        Some(_) => LookupOutcome::Absent,
    };
    let (verdict, asked) = review_with("alice", old, new, Some(&found), &DryRunResult::Accepted);
    let names = asked.lookups.into_iter().filter(|lookup| lookup.plural == plural);
    (names.filter_map(|lookup| lookup.name).collect(), verdict)
}

fn pool_of(replicas: u64) -> Value {
    with(pool(), "/spec/replicas", json!(replicas))
}

fn name_of_template() -> String {
    pool()
        .pointer(&format!("{MACHINE}/dataVolumeTemplates/0/metadata/name"))
        .unwrap()
        .as_str()
        .unwrap()
        .to_owned()
}

#[rstest]
#[case::a_data_volume("datavolumes", json!({}), true)]
#[case::a_claim("persistentvolumeclaims", json!({}), true)]
#[case::of_an_owner("datavolumes", json!({ "ownerReferences": [{ "kind": "VirtualMachine", "uid": "u" }] }), false)]
#[case::that_is_being_deleted("datavolumes", json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }), false)]
#[case::that_the_pool_has_preserved("datavolumes", json!({ "labels": { "vmpool.dev/preserved-pool": "NAME" } }), false)]
#[case::that_another_pool_has_preserved("datavolumes", json!({ "labels": { "vmpool.dev/preserved-pool": "x" } }), true)]
fn storage_without_an_owner_gets_a_warning(
    #[case] plural: &str,
    #[case] mut metadata: Value,
    #[case] warns: bool,
) {
    let new = pool_of(1);
    let label = metadata.pointer_mut("/labels/vmpool.dev~1preserved-pool");
    if let Some(label) = label.filter(|label| **label == "NAME") {
        *label = new["metadata"]["name"].clone();
    }
    let (_, verdict) = review(None, &new, plural, &json!({ "metadata": metadata }));
    assert_eq!(verdict.outcome, AdmissionDecision::Allowed, "never refused");
    assert_eq!(warned(&verdict).contains(&Rule::ExistingStorage), warns, "{verdict:?}");
}

#[test]
fn the_names_are_those_of_new_machines_and_their_number_is_limited() {
    let name = name_of_template();
    let names = |old: Option<&Value>, new: &Value| review(old, new, "datavolumes", &Value::Null).0;
    let of_first = names(None, &pool_of(2));
    assert!(
        of_first.contains(&format!("{name}-0")) && of_first.contains(&format!("{name}-1")),
        "{of_first:?}"
    );
    assert_eq!(names(None, &pool_of(1_000_000)).len(), MAX_VOLUMES);
    let added = names(Some(&pool_of(2)), &pool_of(3));
    assert!(added.contains(&format!("{name}-2")) && !added.contains(&format!("{name}-0")), "{added:?}");
    let none: [&str; 0] = [];
    assert_eq!(names(Some(&pool_of(3)), &pool_of(2)), none, "a scale-in creates no machine");
    assert_eq!(names(None, &pool_of(0)), none);
}

#[test]
fn few_of_many_objects_are_named() {
    let (_, verdict) = review(None, &pool_of(8), "datavolumes", &json!({ "metadata": {} }));
    let count = warned(&verdict).iter().filter(|rule| **rule == Rule::ExistingStorage).count();
    assert_eq!(count, 3);
}
