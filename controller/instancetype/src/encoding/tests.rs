use rstest::rstest;
use serde_json::json;

use super::FieldEncoding as Is;
use super::*;

const PART: FieldEncodings = FieldEncodings { fields: &[("count", Is::Scalar)], embedded: &[] };
const KIND: FieldEncodings = FieldEncodings {
    fields: &[
        ("flag", Is::Scalar),
        ("port", Is::IntOrString),
        ("name", Is::OptionalText),
        ("plain", Is::Struct),
        ("labels", Is::TextMap),
        ("requests", Is::QuantityMap),
        ("size", Is::Quantity),
        ("limit", Is::OptionalQuantity),
        ("items[].flag", Is::Scalar),
    ],
    embedded: &[("part", &PART), ("items[].part", &PART)],
};

fn are_equal(one: &Value, other: &Value) -> bool {
    KIND.canonical("", one) == KIND.canonical("", other)
}

#[rstest]
#[case::false_in_a_plain_field(json!({"flag": false}), json!({}))]
#[case::zero_in_a_plain_field(json!({"part": {"count": 0}}), json!({"part": {}}))]
#[case::zero_in_an_item(json!({"items": [{"flag": false, "part": {"count": 0}}]}), json!({"items": [{"part": {}}]}))]
#[case::the_number_of_an_int_or_string(json!({"port": 0}), json!({}))]
#[case::an_empty_text(json!({"text": ""}), json!({}))]
#[case::an_empty_list(json!({"list": []}), json!({"list": null}))]
#[case::an_empty_struct(json!({"plain": {"text": ""}}), json!({}))]
#[case::an_empty_map(json!({"labels": {"a": null}}), json!({}))]
#[case::a_quantity_of_zero(json!({"size": "0"}), json!({}))]
#[case::spellings_of_a_quantity(json!({"size": "1Gi", "limit": "0.5"}), json!({"size": 1_073_741_824, "limit": "500m"}))]
#[case::spellings_in_a_map(json!({"requests": {"cpu": "1"}}), json!({"requests": {"cpu": "1000m"}}))]
fn equal(#[case] one: Value, #[case] other: Value) {
    assert!(are_equal(&one, &other));
}

#[rstest]
#[case::false_in_a_pointer(json!({"other": false}), json!({}))]
#[case::zero_in_a_pointer(json!({"other": 0}), json!({}))]
#[case::zero_beside_the_field(json!({"items": [{"count": 0}]}), json!({"items": [{}]}))]
#[case::the_text_of_an_int_or_string(json!({"port": ""}), json!({}))]
#[case::an_empty_text_in_a_pointer(json!({"name": ""}), json!({}))]
#[case::an_empty_struct_in_a_pointer(json!({"other": {}}), json!({}))]
#[case::an_empty_entry_of_a_map(json!({"labels": {"a": ""}}), json!({"labels": {}}))]
#[case::an_entry_with_the_name_of_a_field(json!({"labels": {"flag": false}}), json!({"labels": {}}))]
#[case::a_quantity_of_zero_in_a_map(json!({"requests": {"cpu": "0"}}), json!({}))]
#[case::a_quantity_of_zero_in_a_pointer(json!({"limit": "0"}), json!({}))]
#[case::an_empty_item(json!({"items": [{}]}), json!({}))]
#[case::a_text_that_looks_like_a_quantity(json!({"text": "1k"}), json!({"text": "1000"}))]
fn different(#[case] one: Value, #[case] other: Value) {
    assert!(!are_equal(&one, &other));
}

#[rstest]
#[case::the_root("", "", json!({"flag": false}), Some(json!({})))]
#[case::a_field("", "/flag", json!(false), None)]
#[case::a_field_below_a_root("part", "/count", json!(0), None)]
#[case::a_field_of_an_item("", "/items/*/flag", json!(false), None)]
#[case::an_item("", "/items/*", json!({"flag": false}), Some(json!({})))]
#[case::an_entry_of_a_map("", "/labels/a", json!(""), Some(json!("")))]
#[case::a_quantity_in_a_map("", "/requests/cpu", json!("1"), Some(json!("1000000000n")))]
fn a_pointer_leads_to_a_field(
    #[case] root: &str,
    #[case] pointer: &str,
    #[case] value: Value,
    #[case] expected: Option<Value>,
) {
    assert_eq!(KIND.canonical_at_pointer(root, pointer, &value), expected);
}

#[rstest]
#[case::absent_structs_and_quantities(json!({}), json!({"plain": {}, "port": 0, "size": "0"}))]
#[case::zero_values(
    json!({"flag": false, "text": "", "list": [], "labels": {}, "other": null, "part": {"count": 0}}),
    json!({"plain": {}, "port": 0, "size": "0", "part": {}})
)]
#[case::values_in_pointers(
    json!({"name": "", "limit": "0", "other": {}}),
    json!({"plain": {}, "port": 0, "size": "0", "name": "", "limit": "0", "other": {}})
)]
#[case::quantities(
    json!({"size": "2048Mi", "limit": 0.5, "requests": {"cpu": "1000m"}}),
    json!({"plain": {}, "port": 0, "size": "2Gi", "limit": "500m", "requests": {"cpu": "1"}})
)]
#[case::items(
    json!({"items": [{"flag": false, "unknown": 1}]}),
    json!({"plain": {}, "port": 0, "size": "0", "items": [{"unknown": 1}]})
)]
fn an_object_is_encoded_as_kubevirt_encodes_it(#[case] value: Value, #[case] encoded: Value) {
    assert_eq!(KIND.encoded("", &value), Some(encoded.clone()));
    assert_eq!(KIND.encoded("", &encoded), Some(encoded));
}
