use rstest::rstest;
use serde_yaml_ng::Value;

use super::{ValueCase, find_difference, set_paths, untested_values};

fn parse(text: &str) -> Value {
    serde_yaml_ng::from_str(text).unwrap()
}

#[rstest]
#[case::fewer_fields("{a: 1}", "{a: 1, b: 2}", None)]
#[case::another_value("{a: {b: 1}}", "{a: {b: 2}}", Some(".a.b is 2 instead of 1"))]
#[case::a_missing_field("{a: 1}", "{}", Some(".a is null instead of 1"))]
#[case::a_field_that_must_be_missing("{a: null}", "{a: 1}", Some(".a is 1 instead of null"))]
#[case::a_list_with_more_items("{a: [{c: 1}]}", "{a: [{b: 2}, {c: 1, d: 1}]}", None)]
#[case::a_list_without_the_item("{a: [x]}", "{a: [y]}", Some(".a has no item \"x\""))]
#[case::no_list("{a: [x]}", "{}", Some(".a has no item \"x\""))]
fn a_part_matches_what_has_at_least_its_fields(
    #[case] wanted: &str,
    #[case] actual: &str,
    #[case] message: Option<&str>,
) {
    assert_eq!(find_difference(&parse(wanted), &parse(actual)).as_deref(), message);
}

#[test]
fn a_case_holds_with_its_values_and_not_without_them() {
    let case: ValueCase = serde_yaml_ng::from_str(
        "{name: n, values: {a: {b: 1, c: []}}, objects: {Pod/p: {spec: {x: 1}}}, absent: [Pod/q]}",
    )
    .unwrap();
    let pod =
        |name: &str, x: u8| parse(&format!("{{kind: Pod, metadata: {{name: {name}}}, spec: {{x: {x}}}}}"));
    assert!(case.violations(&[pod("p", 1)], &[pod("p", 2)]).is_empty());
    assert!(case.violations(&[pod("p", 1)], &[]).is_empty());
    assert_eq!(case.violations(&[pod("p", 1)], &[pod("p", 1)]), ["holds without its values, too"]);
    assert_eq!(case.violations(&[pod("p", 2)], &[]), ["Pod/p.spec.x is 2 instead of 1"]);
    assert_eq!(case.violations(&[pod("q", 1)], &[]), ["Pod/p is missing", "Pod/q is not expected"]);
    assert_eq!(case.paths(), ["a.b", "a.c"]);
}

#[test]
fn each_documented_value_must_be_set() {
    let tested = set_paths(&["a.b[0].c=1".to_owned(), "d.e.f=g\\,h=i".to_owned()]);
    assert_eq!(tested, ["a.b", "d.e.f"]);
    let documented = ["a.b", "a.bc", "d.e"].map(str::to_owned);
    assert_eq!(untested_values(&documented, &tested), ["neither a case nor a variant sets a.bc"]);
}

#[test]
fn the_list_of_cases_is_valid() {
    assert!(ValueCase::all().unwrap().len() > 20);
}
