use rstest::rstest;
use serde_yaml_ng::Value;

use super::{alert_violations, rendered_alert_violations};

const ALERTS: &str = r"
groups:
  - rules:
      - alert: VmpoolOdd
        expr: rate(vmpool_passes_total[5m]) > 1
        for: 5m
        labels: {severity: warning}
        annotations: {summary: odd, description: very odd}
";
const RUNBOOK: &str =
    "# Alerts\n\n## VmpoolOdd\n\n`rate(vmpool_passes_total[5m]) > 1`, for 5m; warning.\n\n**Do:** look.\n";

#[rstest]
#[case::in_order(ALERTS, RUNBOOK, None)]
#[case::no_runbook(ALERTS, "# Alerts\n", Some("the runbook page has []"))]
#[case::a_stale_runbook("groups: []", RUNBOOK, Some("the runbook page has [\"VmpoolOdd\"]"))]
#[case::a_different_expression(
    &ALERTS.replace("> 1", "> 2"), RUNBOOK, Some("has a different expression"))]
#[case::a_different_duration(&ALERTS.replace("for: 5m", "for: 9h"), RUNBOOK, Some("does not say for"))]
#[case::no_advice(ALERTS, &RUNBOOK.replace("**Do:**", "Well:"), Some("does not say what to do"))]
#[case::no_severity(&ALERTS.replace("severity: warning", "severity: odd"), RUNBOOK, Some("has no severity"))]
#[case::a_missing_metric(
    &ALERTS.replace("passes", "steps"), RUNBOOK, Some("uses vmpool_steps_total"))]
fn an_alert_has_a_runbook_and_a_metric(
    #[case] alerts: &str,
    #[case] page: &str,
    #[case] message: Option<&str>,
) {
    let rules: Value = serde_yaml_ng::from_str(alerts).unwrap();
    let found = alert_violations(&rules, page, "register(\"vmpool_passes_total\")");
    match message {
        Some(message) => assert!(found.iter().any(|line| line.contains(message)), "{found:?}"),
        None => assert_eq!(found, Vec::<String>::new()),
    }
}

#[test]
fn a_rendered_alert_links_to_its_runbook() {
    let all: Value = serde_yaml_ng::from_str(ALERTS).unwrap();
    let rule = |url: &str| -> Value {
        let spec =
            ALERTS.trim().replace("summary: odd", &format!("runbook_url: '{url}'")).replace('\n', "\n  ");
        serde_yaml_ng::from_str(&format!("kind: PrometheusRule\nmetadata: {{name: x}}\nspec:\n  {spec}"))
            .unwrap()
    };
    let good = rule("https://example/alerts.md#vmpoolodd");
    assert_eq!(rendered_alert_violations(&good, &all), Vec::<String>::new());
    assert_eq!(rendered_alert_violations(&rule("https://example/alerts.md"), &all).len(), 1);
    let none: Value = serde_yaml_ng::from_str("spec: {groups: []}").unwrap();
    assert_eq!(rendered_alert_violations(&none, &all), ["has the alerts {}"]);
}
