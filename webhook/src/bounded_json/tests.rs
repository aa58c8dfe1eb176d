use rstest::rstest;
use serde_json::{Value, json};

use super::{JsonError, decode_selected_fields};
use vmpool_engine::limits::NESTING;

const PLENTY: usize = 1 << 20;

#[rstest]
#[case::everything(&[""], json!({ "a": { "b": [1, -2, 1.5, "x", null, true] }, "c": {} }))]
#[case::one_field(&["a.b"], json!({ "a": { "b": [1, -2, 1.5, "x", null, true] } }))]
#[case::two_fields(&["a.b", "c"], json!({ "a": { "b": [1, -2, 1.5, "x", null, true] }, "c": {} }))]
#[case::entries_of_a_list(&["a.b.*"], json!({ "a": { "b": [1, -2, 1.5, "x", null, true] } }))]
#[case::no_entries_of_a_list(&["a.b.x"], json!({ "a": { "b": [] } }))]
#[case::no_such_field(&["d"], json!({}))]
#[case::no_field_at_all(&[], json!({}))]
fn only_selected_fields_are_decoded(#[case] paths: &[&str], #[case] expected: Value) {
    let text = r#"{"a": {"b": [1, -2, 1.5, "x", null, true]}, "c": {}}"#;
    assert_eq!(decode_selected_fields(text.as_bytes(), paths, PLENTY).unwrap(), expected);
}

#[test]
fn a_path_can_end_with_a_name_that_contains_dots() {
    let text = br#"{"a": {"b.c/d": 1, "b.c": 2, "b": 3, "bb": 4}}"#;
    assert_eq!(
        decode_selected_fields(text, &["a.b.c/d"], PLENTY).unwrap(),
        json!({ "a": { "b.c/d": 1, "b": 3 } })
    );
    assert_eq!(decode_selected_fields(text, &["a.b.c/d", "a.b"], PLENTY).unwrap()["a"]["b"], 3);
}

#[rstest]
#[case::objects(r#"{"a":0}"#)]
#[case::objects_in_objects(r#"{"a":{"b":{"c":0}}}"#)]
#[case::lists("[[0]]")]
#[case::texts(r#""""#)]
#[case::numbers("0")]
fn many_small_values_exceed_the_budget(#[case] value: &str) {
    let text = format!("[{}]", vec![value; 30_000].join(","));
    assert!(matches!(
        decode_selected_fields(text.as_bytes(), &[""], PLENTY),
        Err(JsonError::TooLarge(PLENTY))
    ));
    let fields = format!(r#"{{"a":{text},"b":1}}"#);
    assert_eq!(
        decode_selected_fields(fields.as_bytes(), &["b"], 1000).unwrap(),
        json!({ "b": 1 }),
        "skipped fields use no memory"
    );
}

#[test]
fn a_long_string_uses_its_length() {
    let text = json!("x".repeat(PLENTY / 2)).to_string();
    assert!(decode_selected_fields(text.as_bytes(), &[""], PLENTY).is_ok());
    assert!(decode_selected_fields(text.as_bytes(), &[""], PLENTY / 2).is_err());
}

#[rstest]
#[case::empty("")]
#[case::cut_off(r#"{"a":"#)]
#[case::more_than_one("{} {}")]
#[case::cut_off_where_it_is_skipped(r#"{"b":[1,"#)]
fn broken_text_is_an_error(#[case] text: &str) {
    assert!(matches!(decode_selected_fields(text.as_bytes(), &["a"], PLENTY), Err(JsonError::Json(_))));
}

#[test]
fn nesting_is_limited_and_skipped_fields_use_no_memory() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(decode_selected_fields(deep.as_bytes(), &["a"], 0).unwrap(), json!([]));
    assert!(matches!(decode_selected_fields(deep.as_bytes(), &[""], 100 << 20), Err(JsonError::TooLarge(_))));
    for (depth, fits) in [(NESTING, true), (NESTING + 1, false)] {
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
            let text = format!("{}0{}", open.repeat(depth), close.repeat(depth));
            assert_eq!(decode_selected_fields(text.as_bytes(), &[""], PLENTY).is_ok(), fits, "{depth}");
        }
    }
}
