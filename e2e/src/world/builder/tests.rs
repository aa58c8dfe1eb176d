use rstest::rstest;

use super::*;

#[rstest]
#[case::a_field_is_replaced(json!({ "a": 1, "b": 2 }), json!({ "a": 3 }), json!({ "a": 3, "b": 2 }))]
#[case::null_removes(json!({ "a": 1, "b": 2 }), json!({ "a": null }), json!({ "b": 2 }))]
#[case::objects_are_merged(json!({ "a": { "b": 1 } }), json!({ "a": { "c": 2 } }), json!({ "a": { "b": 1, "c": 2 } }))]
#[case::lists_are_replaced(json!({ "a": [1, 2] }), json!({ "a": [3] }), json!({ "a": [3] }))]
#[case::an_object_replaces_a_number(json!({ "a": 1 }), json!({ "a": { "b": null } }), json!({ "a": {} }))]
fn merges(#[case] mut target: Value, #[case] patch: Value, #[case] expected: Value) {
    merge(&mut target, &patch);
    assert_eq!(target, expected);
}
