//! The dashboard: it shows every metric that the programs export, and asks for none that they do not.

use std::collections::BTreeSet;

use serde_json::Value;
use serde_yaml_ng::Value as Object;

use super::objects::{at, name, of_kind};

/// Where a panel may be: Grafana's grid is so wide.
const WIDTH: u64 = 24;

/// Labels that Prometheus adds, and the one of histograms.
const SCRAPED: [&str; 3] = ["pod", "job", "le"];

/// What is wrong with the dashboard, compared with the programs' sources.
pub(super) fn violations(dashboard: &str, sources: &str) -> Vec<String> {
    let dashboard: Value = match serde_json::from_str(dashboard) {
        Ok(dashboard) => dashboard,
        Err(error) => return vec![format!("the dashboard is no JSON: {error}")],
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
            report("has no id of its own");
        }
        if !place(&panel["gridPos"], &mut places) {
            report("lies outside of the grid, or on another one");
        }
        if panel["type"] == "row" {
            continue;
        }
        if panel["description"].as_str().is_none_or(|text| !text.ends_with('.')) {
            report("does not say what it shows");
        }
        if list(&panel["targets"]).is_empty() {
            report("shows nothing");
        }
        for target in list(&panel["targets"]) {
            let expression = target["expr"].as_str().unwrap_or_default();
            if target["datasource"]["uid"] != "${datasource}" {
                report("asks another Prometheus than the chosen one");
            }
            // Each selector has braces, so that each is limited to the namespace.
            if expression.matches("vmpool_").count()
                != expression.matches(r#"{namespace=~"$namespace""#).count()
            {
                report("shows other installations too");
            }
            for label in labels(expression).filter(|label| !SCRAPED.contains(label)) {
                // Labels are fields of structs.
                if !sources.contains(&format!(" {label}: ")) {
                    report(&format!("sorts by {label}, which no metric has"));
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
            "the dashboard asks for what no program has: [{}], and does not show: [{}]",
            differ(&shown, &exported),
            differ(&exported, &shown)
        ));
    }
    found
}

/// What is wrong with the rendered ConfigMap: it has the dashboard as the file has it.
pub(super) fn rendered(objects: &[Object], dashboard: &str) -> Vec<String> {
    of_kind(objects, "ConfigMap")
        .filter(|map| name(map) == "vmpool-dashboard")
        .filter(|map| {
            at(map, "data")["vmpool.json"].as_str().map(str::trim_end) != Some(dashboard.trim_end())
        })
        .map(|_| "ConfigMap/vmpool-dashboard has another dashboard than files/dashboard.json".to_owned())
        .collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Takes the cells of a panel, and says whether they were free.
fn place(grid: &Value, taken: &mut BTreeSet<(u64, u64)>) -> bool {
    let field = |name: &str| grid[name].as_u64();
    let (Some(x), Some(y), Some(w), Some(h)) = (field("x"), field("y"), field("w"), field("h")) else {
        return false;
    };
    let cells: Vec<_> = (y..y + h).flat_map(|y| (x..x + w).map(move |x| (x, y))).collect();
    !cells.is_empty() && x + w <= WIDTH && cells.into_iter().all(|cell| taken.insert(cell))
}

/// The labels that an expression sums up by.
fn labels(expression: &str) -> impl Iterator<Item = &str> {
    let groups = expression.split("by (").skip(1).filter_map(|rest| rest.split(')').next());
    groups.flat_map(|group| group.split(',').map(str::trim))
}

/// The metrics of ours in an expression; of a histogram the family.
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

/// The names with which the programs register metrics.
fn exported(sources: &str) -> BTreeSet<String> {
    sources
        .split(".register(")
        .skip(1)
        .filter_map(|call| call.trim_start().strip_prefix('"')?.split('"').next())
        .filter(|name| name.starts_with("vmpool_"))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests;
