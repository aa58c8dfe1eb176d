//! Checks that the tests of the alerts contain, for each alert, a moment at which it fires and one at which
//! it does not.
//!
//! The tests count firing alerts: `count(ALERTS{alertname="...",alertstate="firing"}) or vector(0)`.

use std::collections::BTreeSet;

use serde_yaml_ng::Value;

use super::objects::{list_at, text_at, value_at};

/// What the tests expect of an alert at some moment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ExpectedAlert {
    name: String,
    fires: bool,
}

/// The alerts of which no test checks that they fire, or that they do not, and the tests of unknown alerts.
pub(super) fn untested_alerts(rules: &Value, tests: &[Value]) -> Vec<String> {
    let names: BTreeSet<&str> = list_at(rules, "groups")
        .iter()
        .flat_map(|group| list_at(group, "rules"))
        .map(|alert| text_at(alert, "alert"))
        .collect();
    let expected: BTreeSet<ExpectedAlert> = tests.iter().flat_map(expected_alerts).collect();
    let mut found = Vec::new();
    for name in &names {
        for (fires, direction) in [(true, "fires"), (false, "does not fire")] {
            if !expected.contains(&ExpectedAlert { name: (*name).to_owned(), fires }) {
                found.push(format!("no test in hack/tools/promtool checks that {name} {direction}"));
            }
        }
    }
    let unknown: BTreeSet<&str> =
        expected.iter().map(|alert| &*alert.name).filter(|name| !names.contains(name)).collect();
    found
        .extend(unknown.iter().map(|name| format!("hack/tools/promtool tests {name}, which does not exist")));
    found
}

/// The expectations of a file of tests.
fn expected_alerts(file: &Value) -> impl Iterator<Item = ExpectedAlert> {
    let checks = list_at(file, "tests").iter().flat_map(|test| list_at(test, "promql_expr_test"));
    checks.filter_map(read_expected_alert)
}

/// `None` for an expression of another form.
fn read_expected_alert(check: &Value) -> Option<ExpectedAlert> {
    let counted = text_at(check, "expr").strip_prefix("count(ALERTS{alertname=\"")?;
    let name = counted.strip_suffix("\",alertstate=\"firing\"}) or vector(0)")?;
    let count = value_at(check, "exp_samples.0.value").as_f64()?;
    Some(ExpectedAlert { name: name.to_owned(), fires: count > 0.0 })
}

#[cfg(test)]
mod tests;
