use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::super::fixtures;
use super::*;

fn pool(name: &str) -> ObjectId {
    ObjectId::new(name, fixtures::POOL_UID)
}

fn object(value: Value) -> RevisionObject {
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_revision_equals_the_one_that_kubevirt_creates() {
    let revision = revision("rec", &pool("herd"), "herd-1", 1, &fixtures::spec());
    assert_eq!(revision, fixtures::revision());
}

#[rstest]
#[case::a_short_name("herd", 12, "herd-12")]
#[case::the_longest_name_with_one_digit(&"p".repeat(61), 1, &format!("{}-1", "p".repeat(61)))]
#[case::the_longest_name_with_two_digits(&"p".repeat(61), 10, &format!("{}-a3b95299-10", "p".repeat(51)))]
#[case::no_dot_before_the_hash(&format!("{}.{}", "p".repeat(50), "q".repeat(10)), 10, &format!("{}-e6ae741e-10", "p".repeat(50)))]
fn a_revision_has_the_name_of_its_pool_and_generation(
    #[case] name: &str,
    #[case] generation: i64,
    #[case] expected: &str,
) {
    assert_eq!(names(&pool(name), generation)[0], expected);
}

#[rstest]
#[case::its_own("herd-12", true)]
#[case::of_another_pool("flock-12", false)]
#[case::of_a_pool_whose_name_begins_with_it("herd-1-12", false)]
#[case::no_generation("herd-x", false)]
#[case::a_padded_generation("herd-012", false)]
#[case::another_word("herd", false)]
fn a_label_names_a_revision_of_the_pool(#[case] label: &str, #[case] expected: bool) {
    assert_eq!(is_name_of(label, &pool("herd")), expected);
}

#[test]
fn a_revision_belongs_to_its_pool_by_uid_and_not_by_name() {
    let mut stored = fixtures::revision();
    assert!(belongs_to(&object(stored.clone()), &pool("herd")));
    stored["metadata"]["ownerReferences"][0]["apiVersion"] = "pool.kubevirt.io/v1alpha1".into();
    assert!(belongs_to(&object(stored.clone()), &pool("herd")));
    stored["metadata"]["ownerReferences"][0]["uid"] = "another".into();
    assert!(!belongs_to(&object(stored.clone()), &pool("herd")));
    stored["metadata"]["ownerReferences"] = json!(null);
    assert!(!belongs_to(&object(stored), &pool("herd")));
}

#[test]
fn the_template_of_a_stored_revision_is_read_with_its_name_generation() {
    let stored = stored_template(&object(fixtures::revision())).unwrap();
    assert_eq!(stored.content, fixtures::spec()["virtualMachineTemplate"]);
    assert_eq!(stored.names, NameGeneration { config_maps: true, secrets: true });
}

#[test]
fn a_revision_of_kubevirt_1_6_is_read() {
    let mut stored = fixtures::revision();
    let strategy = json!({ "proactive": { "selectionPolicy": { "basePolicy": "DescendingOrder" } } });
    stored["data"]["scaleInStrategy"] = strategy;
    let object = object(stored);
    assert_eq!(stored_template(&object).unwrap().content, fixtures::spec()["virtualMachineTemplate"]);
    let order = settings(&object.data.value()).scale_in.selection.order;
    assert_eq!(order.to_string(), "DescendingOrder");
}

#[rstest]
#[case::null(json!(null))]
#[case::a_text(json!("x"))]
#[case::no_template(json!({"replicas": 1}))]
#[case::a_template_of_another_type(json!({"virtualMachineTemplate": []}))]
fn a_revision_of_another_workload_has_no_template(#[case] data: Value) {
    let mut stored = fixtures::revision();
    stored["data"] = data;
    assert_eq!(stored_template(&object(stored)), None);
}

proptest! {
    #[test]
    fn every_name_is_a_label_value_and_is_recognized(
        name in "[a-z0-9]([a-z0-9-]{0,17}[a-z0-9])?([.][a-z0-9]([a-z0-9-]{0,17}[a-z0-9])?){0,2}",
        generation in 1..i64::MAX,
    ) {
        let names = names(&pool(&name), generation);
        prop_assert_ne!(&names[0], &names[1]);
        for revision in names {
            prop_assert!(revision.len() <= LABEL_VALUE, "{}", revision);
            prop_assert!(!revision.contains(".-"), "{}", revision);
            prop_assert!(is_name_of(&revision, &pool(&name)));
        }
    }
}
