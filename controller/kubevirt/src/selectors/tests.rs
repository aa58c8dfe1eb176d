use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

fn labels(value: &Value) -> BTreeMap<String, String> {
    serde_json::from_value(value.clone()).unwrap()
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({ "key": key, "operator": operator, "values": values })
}

#[rstest]
#[case::an_empty_selector(json!({}), "")]
#[case::one_label(json!({"matchLabels": {"app": "herd"}}), "app=herd")]
#[case::an_empty_value(json!({"matchLabels": {"app": ""}}), "app=")]
#[case::sorted_by_key(
    json!({"matchLabels": {"z": "1", "a": "2"}, "matchExpressions": [expression("m", "Exists", &[])]}), "a=2,m,z=1")]
#[case::values_are_sorted(json!({"matchExpressions": [expression("t", "In", &["b", "a"])]}), "t in (a,b)")]
#[case::one_value_in_a_list(json!({"matchExpressions": [expression("t", "In", &["b"])]}), "t in (b)")]
#[case::not_in(json!({"matchExpressions": [expression("t", "NotIn", &["b"])]}), "t notin (b)")]
#[case::does_not_exist(json!({"matchExpressions": [expression("t", "DoesNotExist", &[])]}), "!t")]
fn the_text_is_the_canonical_form_of_kubernetes(#[case] selector: Value, #[case] text: &str) {
    assert_eq!(LabelSelector::read(&selector).unwrap().to_string(), text);
}

#[rstest]
#[case::no_requirement(json!({}), true)]
#[case::an_equal_label(json!({"matchLabels": {"app": "herd"}}), true)]
#[case::another_value(json!({"matchLabels": {"app": "x"}}), false)]
#[case::all_must_match(json!({"matchLabels": {"app": "herd", "none": "x"}}), false)]
#[case::in_with_it(json!({"matchExpressions": [expression("app", "In", &["x", "herd"])]}), true)]
#[case::in_without_the_key(json!({"matchExpressions": [expression("none", "In", &["x"])]}), false)]
#[case::not_in_with_it(json!({"matchExpressions": [expression("app", "NotIn", &["herd"])]}), false)]
#[case::not_in_without_the_key(json!({"matchExpressions": [expression("none", "NotIn", &["x"])]}), true)]
#[case::exists(json!({"matchExpressions": [expression("app", "Exists", &[])]}), true)]
#[case::exists_without_the_key(json!({"matchExpressions": [expression("none", "Exists", &[])]}), false)]
#[case::does_not_exist(json!({"matchExpressions": [expression("none", "DoesNotExist", &[])]}), true)]
#[case::does_not_exist_with_it(json!({"matchExpressions": [expression("app", "DoesNotExist", &[])]}), false)]
fn a_label_selector_matches_all_of_its_requirements(#[case] selector: Value, #[case] matches: bool) {
    let selector = LabelSelector::read(&selector).unwrap();
    assert_eq!(selector.matches(&labels(&json!({ "app": "herd" }))), matches);
}

#[rstest]
#[case::no_object(json!([]), "the selector is not an object")]
#[case::null(json!(null), "the selector is not an object")]
#[case::labels_of_another_type(json!({"matchLabels": []}), "matchLabels is not an object")]
#[case::a_number_as_a_label(json!({"matchLabels": {"a": 1}}), "label \"a\" is not a text")]
#[case::no_list(json!({"matchExpressions": {}}), "matchExpressions is not a list")]
#[case::no_key(json!({"matchExpressions": [{"operator": "Exists"}]}), "key is not a text")]
#[case::an_unknown_operator(
    json!({"matchExpressions": [expression("a", "Like", &["b"])]}),
    "operator \"Like\" of key \"a\" is unknown; use In, NotIn, Exists or DoesNotExist")]
#[case::an_operator_of_nodes(
    json!({"matchExpressions": [expression("a", "Gt", &["1"])]}),
    "operator \"Gt\" of key \"a\" is unknown; use In, NotIn, Exists or DoesNotExist")]
#[case::in_without_values(
    json!({"matchExpressions": [expression("a", "In", &[])]}), "In of key \"a\" needs at least one value")]
#[case::exists_with_values(
    json!({"matchExpressions": [expression("a", "Exists", &["b"])]}), "Exists of key \"a\" needs no values")]
#[case::values_of_another_type(
    json!({"matchExpressions": [{"key": "a", "operator": "In", "values": [1]}]}), "values is not a list of texts")]
fn a_selector_that_cannot_be_read_says_why(#[case] selector: Value, #[case] message: &str) {
    assert_eq!(LabelSelector::read(&selector).unwrap_err().to_string(), message);
}

#[rstest]
#[case::no_number(expression("a", "Gt", &["many"]))]
#[case::no_value(expression("a", "Gt", &[]))]
#[case::two_values(expression("a", "Lt", &["1", "2"]))]
#[case::the_same_value_twice(expression("a", "Lt", &["1", "1"]))]
#[case::an_unknown_operator(expression("a", "Ge", &["1"]))]
fn node_requirements_that_cannot_be_read_are_errors(#[case] requirement: Value) {
    let selectors = json!({ "nodeSelectorRequirementMatcher": [requirement] });
    MachineSelector::read(&selectors).unwrap_err();
}

proptest! {
    #[test]
    fn a_negated_requirement_matches_exactly_the_other_labels(
        labels in prop::collection::btree_map("[ab]", "[xy]", 0..3),
        key in "[ab]",
        values in prop::collection::vec("[xyz]", 1..3),
    ) {
        let read = |operator: &str, values: &[String]| {
            let requirement = json!({ "key": key, "operator": operator, "values": values });
            LabelSelector::read(&json!({ "matchExpressions": [requirement] })).unwrap().matches(&labels)
        };
        prop_assert_ne!(read("In", &values), read("NotIn", &values));
        prop_assert_ne!(read("Exists", &[]), read("DoesNotExist", &[]));
    }

    #[test]
    fn the_order_of_requirements_does_not_change_the_text(
        mut expressions in prop::collection::btree_map("[a-f]", "[xy]", 0..5)
            .prop_map(|map| map.into_iter().collect::<Vec<_>>()),
    ) {
        let text = |expressions: &[(String, String)]| {
            let list: Vec<Value> =
                expressions.iter().map(|(key, value)| expression(key, "In", &[value])).collect();
            LabelSelector::read(&json!({ "matchExpressions": list })).unwrap().to_string()
        };
        let before = text(&expressions);
        expressions.reverse();
        prop_assert_eq!(before, text(&expressions));
    }
}
