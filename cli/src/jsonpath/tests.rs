use rstest::rstest;
use serde_json::json;

use super::*;

fn data() -> Value {
    json!({
        "pools": [
            { "name": "web", "phase": "Ready", "labels": { "a.b/c": "x" }, "observed": true },
            { "name": "jobs", "phase": "Scaling", "desired": 3 },
        ],
    })
}

#[rstest]
#[case::a_field("{.pools[0].name}", "web")]
#[case::from_the_root("{$.pools[0].name}", "web")]
#[case::all_elements("{.pools[*].name}", "web jobs")]
#[case::the_last_element("{.pools[-1].name}", "jobs")]
#[case::a_number_and_a_truth("{.pools[1].desired}{.pools[0].observed}", "3true")]
#[case::an_object("{.pools[0].labels}", r#"{"a.b/c":"x"}"#)]
#[case::a_field_with_dots(r"{.pools[0].labels.a\.b/c}", "x")]
#[case::a_field_in_quotes("{.pools[0].labels['a.b/c']}", "x")]
#[case::a_missing_field("<{.pools[0].desired}>", "<>")]
#[case::an_index_beyond_the_end("<{.pools[9]}>", "<>")]
#[case::a_filter(r#"{.pools[?(@.phase=="Ready")].name}"#, "web")]
#[case::a_filter_of_a_number("{.pools[?(@.desired == 3)].name}", "jobs")]
#[case::texts("a{'b'}{\"\\n\"}c", "ab\nc")]
#[case::a_brace_in_quotes(r#"{"}"}"#, "}")]
#[case::a_range(r#"{range .pools[*]}{.name}{"\t"}{.phase}{"\n"}{end}"#, "web\tReady\njobs\tScaling\n")]
fn templates_are_those_of_kubectl(#[case] template: &str, #[case] expected: &str) {
    assert_eq!(JsonPathTemplate::parse(template).unwrap().render(&data()), expected);
}

#[test]
fn the_whole_data_is_a_dot() {
    assert_eq!(JsonPathTemplate::parse("{.}").unwrap().render(&json!([1])), "[1]");
}

#[rstest]
#[case::an_open_brace("{.pools", "has no }")]
#[case::an_open_bracket("{.pools[0}", "has no ]")]
#[case::an_open_range("{range .pools[*]}{.name}", "has no {end}")]
#[case::an_end_without_a_range("{end}", "has no {range}")]
#[case::a_word("{pools}", "begin it with a dot")]
#[case::a_slice("{.pools[0:1]}", "is not supported")]
#[case::recursive_descent("{.pools..name}", "has an empty field")]
#[case::another_comparison("{.pools[?(@.desired>1)]}", "has no ==")]
fn other_templates_are_refused(#[case] template: &str, #[case] expected: &str) {
    let error = JsonPathTemplate::parse(template).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}
