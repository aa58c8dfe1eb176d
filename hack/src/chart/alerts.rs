//! Checks of the alerts: each has a runbook and uses only existing metrics.

use std::collections::BTreeSet;

use serde_yaml_ng::Value;

use super::objects::{list_at, text_at, value_at};

/// The alert that is rendered only if the platform's own removal endpoint may be served.
const CONDITIONAL: &str = "VmpoolPlatformEndpointCallable";

/// All alerts of a rule file, or of the spec of a PrometheusRule.
fn alerts(rules: &Value) -> impl Iterator<Item = &Value> {
    list_at(rules, "groups").iter().flat_map(|group| list_at(group, "rules"))
}

/// Violations in the rule file, compared with the runbook page and the programs' sources.
pub(super) fn alert_violations(rules: &Value, page: &str, sources: &str) -> Vec<String> {
    let mut found = Vec::new();
    let sections: Vec<(&str, &str)> = page
        .split("\n## ")
        .skip(1)
        .map(|section| section.split_once('\n').unwrap_or((section, "")))
        .filter(|(title, _)| title.starts_with("Vmpool"))
        .collect();
    let names: Vec<&str> = alerts(rules).map(|alert| text_at(alert, "alert")).collect();
    let titles: Vec<&str> = sections.iter().map(|(title, _)| *title).collect();
    if names.is_empty() || names != titles {
        found.push(format!("the alerts are {names:?}, but the runbook page has {titles:?}"));
    }
    for alert in alerts(rules) {
        let (name, expression) = (text_at(alert, "alert"), text_at(alert, "expr"));
        let section = sections.iter().find(|(title, _)| *title == name).map_or("", |(_, body)| body);
        if !section.contains(&format!("`{expression}`")) {
            found.push(format!("the runbook of {name} has a different expression"));
        }
        for field in ["for", "labels.severity"] {
            if !section.contains(text_at(alert, field)) {
                found.push(format!("the runbook of {name} does not say {field}"));
            }
        }
        if !section.contains("**Do:**") {
            found.push(format!("the runbook of {name} does not say what to do"));
        }
        if !["critical", "warning", "info"].contains(&text_at(alert, "labels.severity")) {
            found.push(format!("{name} has no severity"));
        }
        if ["annotations.summary", "annotations.description"]
            .iter()
            .any(|field| text_at(alert, field).is_empty())
        {
            found.push(format!("{name} has no summary or description"));
        }
        for metric in metrics(expression) {
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| metric.strip_suffix(end));
            let exists = |name: &str| sources.contains(&format!("\"{name}\""));
            if !exists(metric) && !base.is_some_and(exists) {
                found.push(format!("{name} uses {metric}, which no program exports"));
            }
        }
    }
    found
}

/// The project's metrics in an expression.
fn metrics(expression: &str) -> BTreeSet<&str> {
    expression
        .split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'))
        .filter(|word| word.starts_with("vmpool_"))
        .collect()
}

/// Violations in a rendered PrometheusRule.
pub(super) fn rendered_alert_violations(rule: &Value, all: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let rendered: BTreeSet<&str> =
        alerts(value_at(rule, "spec")).map(|alert| text_at(alert, "alert")).collect();
    let expected =
        alerts(all).map(|alert| text_at(alert, "alert")).filter(|name| *name != CONDITIONAL).collect();
    if rendered != expected {
        found.push(format!("has the alerts {rendered:?}"));
    }
    for alert in alerts(value_at(rule, "spec")) {
        let name = text_at(alert, "alert");
        let url = text_at(alert, "annotations.runbook_url");
        if !url.starts_with("https://") || !url.ends_with(&format!("#{}", name.to_lowercase())) {
            found.push(format!("{name} links to {url:?} instead of its runbook"));
        }
    }
    found
}

#[cfg(test)]
mod tests;
