use rstest::rstest;
use serde_json::{Value, json};

use super::*;

#[rstest]
#[case::a_field(json!({"a": {"b": 1}}), "a.b", Some(json!(1)))]
#[case::an_absent_field(json!({"a": {}}), "a.b", None)]
#[case::an_absent_parent(json!({}), "a.b", None)]
#[case::null_is_absent(json!({"a": {"b": null}}), "a.b", None)]
#[case::a_null_parent_is_absent(json!({"a": null}), "a.b", None)]
#[case::a_null_document_is_absent(Value::Null, "a.b", None)]
#[case::the_document_itself(json!({"a": 1}), "", Some(json!({"a": 1})))]
fn finds_values(#[case] root: Value, #[case] path: &str, #[case] found: Option<Value>) {
    assert_eq!(value_at(&root, path).unwrap().cloned(), found);
}

#[rstest]
#[case::a_parent(value_at(&json!({"a": {"b": 1}}), "a.b.c").map(drop), "a.b", "an object")]
#[case::the_document(value_at(&json!([]), "a").map(drop), "", "an object")]
#[case::a_number_for_text(text_at(&json!({"a": 1}), "a").map(drop), "a", "a string")]
#[case::text_for_a_boolean(flag_at(&json!({"a": "true"}), "a").map(drop), "a", "a boolean")]
#[case::a_negative_count(u32_at(&json!({"a": -1}), "a").map(drop), "a", "a whole number from 0 to 4294967295")]
#[case::a_count_above_32_bits(u32_at(&json!({"a": 4_294_967_296_u64}), "a").map(drop), "a", "a whole number from 0 to 4294967295")]
#[case::a_fraction(i64_at(&json!({"a": 1.5}), "a").map(drop), "a", "a whole number")]
#[case::a_list_of_texts(items_at(&json!({"a": ["b"]}), "a").map(drop), "a", "a list of objects")]
#[case::a_map_with_a_number(text_map_at(&json!({"a": {"b": 1}}), "a").map(drop), "a", "a map from strings to strings")]
#[case::a_written_parent(set_value(&mut json!({"a": []}), "a.b", 1), "a", "an object")]
#[case::a_written_list(items_mut(&mut json!({"a": {"b": 1}}), "a.b").map(drop), "a.b", "a list of objects")]
#[case::an_item(for_each_item(&mut json!({"a": [{}, {"b": 1}]}), "a", |item| set_value(item, "b.c", 1)), "a[1].b", "an object")]
fn names_the_field_of_the_wrong_type(
    #[case] result: Result<(), Malformed>,
    #[case] path: &str,
    #[case] expected: &'static str,
) {
    assert_eq!(result, Err(Malformed::new(path, expected)));
}

#[test]
fn an_error_below_a_base_has_its_path() {
    let error = Malformed::new("domain.cpu", "an object").below("spec.template.spec");
    assert_eq!(error.to_string(), "spec.template.spec.domain.cpu must be an object");
    assert_eq!(Malformed::new("", "an object").below("spec").path, "spec");
    assert_eq!(Malformed::new("spec", "an object").below("").path, "spec");
}

#[test]
fn parents_are_created() {
    let mut root = json!({"a": null, "kept": 1});
    set_value(&mut root, "a.b.c", "value").unwrap();
    items_mut(&mut root, "list").unwrap().push(json!({}));
    assert_eq!(root, json!({"a": {"b": {"c": "value"}}, "kept": 1, "list": [{}]}));
}

#[test]
fn defaults_fill_absent_fields_only() {
    let mut root = json!({"null": null, "false": false, "empty": "", "text": "mine"});
    for path in ["null", "false", "absent"] {
        set_default(&mut root, path, Some(true)).unwrap();
    }
    for path in ["empty", "text"] {
        set_default_text(&mut root, path, Some("preferred")).unwrap();
    }
    set_default(&mut root, "none", None::<bool>).unwrap();
    set_default_text(&mut root, "none", None).unwrap();
    let expected =
        json!({"null": true, "false": false, "absent": true, "empty": "preferred", "text": "mine"});
    assert_eq!(root, expected);
}

#[test]
fn removing_an_absent_field_creates_no_parent() {
    let mut root = json!({"a": {"b": 1}});
    remove_field(&mut root, "x.y").unwrap();
    remove_field(&mut root, "a.b").unwrap();
    assert_eq!(root, json!({"a": {}}));
}

#[test]
fn an_absent_list_stays_absent() {
    let mut root = json!({});
    for_each_item(&mut root, "a.b", |_| panic!("there is no item")).unwrap();
    assert_eq!(root, json!({}));
}
