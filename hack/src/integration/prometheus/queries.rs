//! The expressions of the alerts and of the dashboard.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::super::expressions::{find_group_labels, find_selectors, find_shown_labels, substitute_variables};
use crate::workspace::Workspace;

/// An expression that must return data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LiveQuery {
    /// The alert or the panel.
    pub(super) title: String,
    pub(super) expression: String,
    /// Labels that every series of the result must have.
    pub(super) labels: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
struct RuleFile {
    groups: Vec<RuleGroup>,
}

#[derive(Debug, Deserialize)]
struct RuleGroup {
    rules: Vec<AlertRule>,
}

#[derive(Debug, Deserialize)]
struct AlertRule {
    alert: String,
    expr: String,
}

#[derive(Debug, Deserialize)]
struct GrafanaBoard {
    panels: Vec<GrafanaPanel>,
}

#[derive(Debug, Deserialize)]
struct GrafanaPanel {
    title: String,
    #[serde(default)]
    targets: Vec<GrafanaTarget>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GrafanaTarget {
    expr: String,
    legend_format: String,
}

/// The queries of all panels, and the series of all alerts.
///
/// # Errors
/// A file cannot be read.
pub(super) fn list_queries(workspace: &Workspace) -> Result<Vec<LiveQuery>> {
    let read = |file: &str| {
        let path = workspace.path("charts/vmpool/files").join(file);
        fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    };
    let mut queries = list_alert_queries(&read("alerts.yaml")?)?;
    queries.extend(list_panel_queries(&read("dashboard.json")?)?);
    Ok(queries)
}

/// An expression of an alert returns nothing while all is well. Therefore each selector is a query of its
/// own, by the labels by which its part of the expression groups.
fn list_alert_queries(text: &str) -> Result<Vec<LiveQuery>> {
    let file: RuleFile = serde_yaml_ng::from_str(text).context("reading the alerts")?;
    let rules = file.groups.into_iter().flat_map(|group| group.rules);
    Ok(rules.flat_map(|rule| list_rule_queries(&rule)).collect())
}

fn list_rule_queries(rule: &AlertRule) -> Vec<LiveQuery> {
    rule.expr.split(" or ").flat_map(|part| list_part_queries(&rule.alert, part)).collect()
}

fn list_part_queries(alert: &str, part: &str) -> Vec<LiveQuery> {
    let labels: BTreeSet<String> = find_group_labels(part).into_iter().map(str::to_owned).collect();
    let group = labels.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let query = |selector: String| LiveQuery {
        title: alert.to_owned(),
        expression: format!("count by ({group}) ({selector})"),
        labels: labels.clone(),
    };
    find_selectors(part).into_iter().map(query).collect()
}

fn list_panel_queries(text: &str) -> Result<Vec<LiveQuery>> {
    let board: GrafanaBoard = serde_json::from_str(text).context("reading the dashboard")?;
    let mut queries = Vec::new();
    for panel in board.panels {
        queries.extend(panel.targets.iter().map(|target| LiveQuery {
            title: panel.title.clone(),
            expression: substitute_variables(&target.expr),
            labels: find_shown_labels(&target.legend_format, "{{").into_iter().map(str::to_owned).collect(),
        }));
    }
    Ok(queries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_selector_of_an_alert_is_a_query_by_the_labels_of_its_part() {
        let text =
            r#"groups: [{rules: [{alert: A, expr: 'max by (pool) (vmpool_a{b="c"}) > 0 or vmpool_d'}]}]"#;
        let expressions: Vec<String> =
            list_alert_queries(text).unwrap().into_iter().map(|query| query.expression).collect();
        assert_eq!(expressions, [r#"count by (pool) (vmpool_a{b="c"})"#, "count by () (vmpool_d)"]);
    }

    #[test]
    fn the_result_of_a_panel_has_the_labels_of_its_legend() {
        let text = r#"{"panels": [{"title": "T"}, {"title": "P",
            "targets": [{"expr": "vmpool_a{pool=~\"$pool\"}", "legendFormat": "{{pool}}"}]}]}"#;
        let expected = LiveQuery {
            title: "P".to_owned(),
            expression: r#"vmpool_a{pool=~".*"}"#.to_owned(),
            labels: BTreeSet::from(["pool".to_owned()]),
        };
        assert_eq!(list_panel_queries(text).unwrap(), [expected]);
    }
}
