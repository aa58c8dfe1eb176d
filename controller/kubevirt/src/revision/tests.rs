use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use vmpool_api::kubevirt::values::SortPolicy;

use super::super::read::read_pool_settings;
use super::super::{fixtures, template};
use super::*;

fn pool(name: &str) -> ObjectId {
    ObjectId::new(name, fixtures::POOL_UID)
}

#[test]
fn a_revision_equals_the_one_that_kubevirt_creates() {
    let revision = revision_object("rec", &pool("herd"), "herd-1", 1, &fixtures::recorded_pool_spec());
    assert_eq!(revision, fixtures::recorded_revision());
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
    assert_eq!(revision_names(&pool(name), generation).next().unwrap(), expected);
}

#[rstest]
#[case::its_own("web-5", "web", Some("web"))]
#[case::a_machine_that_was_given_to_the_pool("web-5", "other", Some("web"))]
#[case::with_a_hash("web-1a2b3c4d-5", "web", Some("web"))]
#[case::a_name_that_looks_like_one_with_a_hash("web-1a2b3c4d-5", "web-1a2b3c4d", Some("web-1a2b3c4d"))]
#[case::shortened(&revision_names(&pool(&"p".repeat(61)), 10).next().unwrap(), &"p".repeat(61), Some(&*"p".repeat(61)))]
#[case::given_with_a_hash("web-1a2b3c4d-5", "other", Some("web"))]
#[case::no_generation("web-x", "web", None)]
#[case::no_hyphen("web", "web", None)]
fn the_name_of_a_revision_tells_its_pool(
    #[case] revision: &str,
    #[case] machines: &str,
    #[case] pool: Option<&str>,
) {
    assert_eq!(pool_name_of_revision(revision, machines), pool);
}

#[test]
fn a_revision_of_kubevirt_1_6_is_read() {
    let mut spec = fixtures::recorded_pool_spec();
    let strategy = json!({ "proactive": { "selectionPolicy": { "basePolicy": "DescendingOrder" } } });
    spec["scaleInStrategy"] = strategy;
    assert_eq!(read_pool_settings(&spec).scale_in.selection.order, SortPolicy::DescendingOrder);
    let parts = |spec: &Value| {
        let template = &spec["virtualMachineTemplate"];
        template::template_parts(template, template, &Value::Null)
    };
    assert_eq!(parts(&spec), parts(&fixtures::recorded_pool_spec()));
}

proptest! {
    #[test]
    fn every_name_is_a_label_value(
        name in "[a-z0-9]([a-z0-9-]{0,17}[a-z0-9])?([.][a-z0-9]([a-z0-9-]{0,17}[a-z0-9])?){0,2}",
        generation in 1..i64::MAX,
    ) {
        let names: Vec<String> = revision_names(&pool(&name), generation).take(5).collect();
        let different: std::collections::BTreeSet<&String> = names.iter().collect();
        prop_assert_eq!(different.len(), 5);
        for revision in names {
            prop_assert!(revision.len() <= LABEL_VALUE, "{}", revision);
            prop_assert!(!revision.contains(".-"), "{}", revision);
        }
    }
}
