//! Checks of the dashboard: it shows every exported metric, and uses no other.

use std::collections::BTreeSet;

use serde_json::Value;
use serde_yaml_ng::Value as Object;

use super::objects::{object_name, of_kind, value_at};

/// Number of columns in Grafana's grid.
const WIDTH: u64 = 24;

/// Labels that Prometheus adds or renames, and the label of histogram buckets.
const SCRAPED: [&str; 4] = ["pod", "job", "exported_namespace", "le"];

/// Violations in the dashboard, compared with the programs' sources.
pub(super) fn dashboard_violations(dashboard: &str, sources: &str) -> Vec<String> {
    let dashboard: Value = match serde_json::from_str(dashboard) {
        Ok(dashboard) => dashboard,
        Err(error) => return vec![format!("the dashboard is not JSON: {error}")],
    };
    let mut found = Vec::new();
    let panels = list(&dashboard["panels"]);
    let (mut ids, mut places, mut shown) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for panel in panels {
        let title = panel["title"].as_str().unwrap_or_default();
        let mut report = |text: &str| found.push(format!("the panel {title:?} {text}"));
        if title.is_empty() {
            report("has no title");
        }
        if panel["id"].as_u64().is_none_or(|id| !ids.insert(id)) {
            report("has no unique id");
        }
        if !place(&panel["gridPos"], &mut places) {
            report("lies outside the grid or overlaps another panel");
        }
        if panel["type"] == "row" {
            continue;
        }
        if panel["description"].as_str().is_none_or(|text| !text.ends_with('.')) {
            report("has no description");
        }
        if list(&panel["targets"]).is_empty() {
            report("shows nothing");
        }
        for target in list(&panel["targets"]) {
            let expression = target["expr"].as_str().unwrap_or_default();
            if target["datasource"]["uid"] != "${datasource}" {
                report("does not use the selected data source");
            }
            // Each selector needs braces, so that it is limited to the namespace.
            if expression.matches("vmpool_").count()
                != expression.matches(r#"{namespace=~"$namespace""#).count()
            {
                report("shows other installations, too");
            }
            if !selects_pools(expression) {
                report("shows pools that are not selected");
            }
            for label in labels(expression).filter(|label| !SCRAPED.contains(label)) {
                // Labels are declared as struct fields.
                if !sources.contains(&format!(" {label}: ")) {
                    report(&format!("groups by {label}, which no metric has"));
                }
            }
            shown.extend(families(expression, sources));
        }
    }
    let exported = exported(sources);
    let differ = |one: &BTreeSet<String>, other: &BTreeSet<String>| {
        one.difference(other).cloned().collect::<Vec<_>>().join(", ")
    };
    if exported.is_empty() || shown != exported {
        found.push(format!(
            "the dashboard uses metrics that no program exports: [{}], and does not show: [{}]",
            differ(&shown, &exported),
            differ(&exported, &shown)
        ));
    }
    found
}

/// Violations in the rendered ConfigMap: it must contain the dashboard file.
pub(super) fn rendered_dashboard_violations(objects: &[Object], dashboard: &str) -> Vec<String> {
    of_kind(objects, "ConfigMap")
        .filter(|map| object_name(map) == "vmpool-dashboard")
        .filter(|map| {
            value_at(map, "data")["vmpool.json"].as_str().map(str::trim_end) != Some(dashboard.trim_end())
        })
        .map(|_| "ConfigMap/vmpool-dashboard differs from files/dashboard.json".to_owned())
        .collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Marks the cells of a panel as taken. Returns whether they were free.
fn place(grid: &Value, taken: &mut BTreeSet<(u64, u64)>) -> bool {
    let field = |name: &str| grid[name].as_u64();
    let (Some(x), Some(y), Some(w), Some(h)) = (field("x"), field("y"), field("w"), field("h")) else {
        return false;
    };
    let cells: Vec<_> = (y..y + h).flat_map(|y| (x..x + w).map(move |x| (x, y))).collect();
    !cells.is_empty() && x + w <= WIDTH && cells.into_iter().all(|cell| taken.insert(cell))
}

/// The labels by which an expression groups.
fn labels(expression: &str) -> impl Iterator<Item = &str> {
    let groups = expression.split("by (").skip(1).filter_map(|rest| rest.split(')').next());
    groups.flat_map(|group| group.split(',').map(str::trim))
}

/// Whether each selector of a metric of pools has the variable `pool`.
fn selects_pools(expression: &str) -> bool {
    expression.split("vmpool_pool_").skip(1).all(|rest| {
        let matchers = rest.split('}').next().unwrap_or_default();
        matchers.contains(r#"pool=~"$pool""#)
    })
}

/// The project's metrics in an expression; for a histogram, its base name.
fn families<'a>(expression: &'a str, sources: &str) -> impl Iterator<Item = String> + use<'a> {
    let exported = exported(sources);
    expression
        .split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'))
        .filter(|word| word.starts_with("vmpool_"))
        .map(move |word| {
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end));
            family.filter(|family| exported.contains(*family)).unwrap_or(word).to_owned()
        })
}

/// The names under which the programs register metrics: in calls of `register`, and in the rows of
/// `metric_table!`.
fn exported(sources: &str) -> BTreeSet<String> {
    let calls = sources.split(".register(").skip(1).filter_map(|call| call.trim_start().strip_prefix('"'));
    let called = calls.filter_map(|call| call.split('"').next());
    let rows = sources.split(" in \"").filter_map(|before| before.strip_suffix('"')?.rsplit('"').next());
    called.chain(rows).filter(|name| name.starts_with("vmpool_")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
