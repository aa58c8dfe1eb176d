use rstest::rstest;
use serde_yaml_ng::Value;

use super::untested_alerts;

const RULES: &str = "groups: [{rules: [{alert: VmpoolOdd}]}]";

/// A file with one check for each count.
fn write_tests(name: &str, counts: &[u32]) -> Value {
    let write_check = |count: &u32| {
        format!(
            "\n    - expr: count(ALERTS{{alertname=\"{name}\",alertstate=\"firing\"}}) or vector(0)\n      exp_samples: [{{value: {count}}}]"
        )
    };
    let checks: Vec<String> = counts.iter().map(write_check).collect();
    serde_yaml_ng::from_str(&format!("tests:\n- promql_expr_test:{}", checks.concat())).unwrap()
}

#[rstest]
#[case::in_both_directions(&[0, 2], &[])]
#[case::only_when_it_fires(&[1], &["no test in hack/tools/promtool checks that VmpoolOdd does not fire"])]
#[case::only_when_it_does_not_fire(&[0, 0], &["no test in hack/tools/promtool checks that VmpoolOdd fires"])]
fn each_alert_is_tested_in_both_directions(#[case] counts: &[u32], #[case] violations: &[&str]) {
    let rules: Value = serde_yaml_ng::from_str(RULES).unwrap();
    assert_eq!(untested_alerts(&rules, &[write_tests("VmpoolOdd", counts)]), violations);
}

#[test]
fn the_directions_may_be_in_two_files() {
    let rules: Value = serde_yaml_ng::from_str(RULES).unwrap();
    let files = [write_tests("VmpoolOdd", &[0]), write_tests("VmpoolOdd", &[1])];
    assert_eq!(untested_alerts(&rules, &files), [""; 0]);
}

#[test]
fn a_test_of_an_unknown_alert_is_a_violation() {
    let rules: Value = serde_yaml_ng::from_str(RULES).unwrap();
    let files = [write_tests("VmpoolOdd", &[0, 1]), write_tests("VmpoolOld", &[0, 1])];
    assert_eq!(
        untested_alerts(&rules, &files),
        ["hack/tools/promtool tests VmpoolOld, which does not exist"]
    );
}

#[test]
fn the_tests_of_the_chart_cover_its_alerts_and_a_removed_test_is_found() {
    let workspace = crate::workspace::Workspace::locate().unwrap();
    let rules = std::fs::read_to_string(workspace.path("charts/vmpool/files/alerts.yaml")).unwrap();
    let rules: Value = serde_yaml_ng::from_str(&rules).unwrap();
    let files = crate::alerts::read_alert_tests(&workspace).unwrap();
    assert_eq!(untested_alerts(&rules, &files), [""; 0]);
    let tests = files[0]["tests"].as_sequence().unwrap().clone();
    let is_found = |removed: usize| {
        let mut files = files.clone();
        files[0]["tests"].as_sequence_mut().unwrap().remove(removed);
        !untested_alerts(&rules, &files).is_empty()
    };
    assert!((0..tests.len()).any(is_found), "some test is the only one of its alert in a direction");
}
