//! What expressions of Prometheus refer to.

use std::collections::BTreeSet;

/// How the names of the used metrics begin.
const PREFIXES: [&str; 4] = ["vmpool_", "apiserver_", "aggregator_", "kube_"];

/// The duration that replaces Grafana's variable. It is some times the scrape interval of the integration.
pub(super) const RATE_INTERVAL: &str = "20s";

/// The metrics of an expression, each with its matchers.
pub(super) fn find_selectors(expression: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut rest = expression;
    while let Some(start) = PREFIXES.iter().filter_map(|prefix| rest.find(prefix)).min() {
        rest = &rest[start..];
        let end = find_selector_end(rest);
        found.insert(rest[..end].to_owned());
        rest = &rest[end..];
    }
    found
}

fn find_selector_end(text: &str) -> usize {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let name = text.find(|letter| !is_part(letter)).unwrap_or(text.len());
    if text[name..].starts_with('{') { text.find('}').map_or(text.len(), |brace| brace + 1) } else { name }
}

/// The labels by which an expression groups, without the one of histograms.
pub(super) fn find_group_labels(expression: &str) -> BTreeSet<&str> {
    let groups = expression.split("by (").skip(1).filter_map(|rest| rest.split(')').next());
    groups.flat_map(|group| group.split(',').map(str::trim)).filter(|label| *label != "le").collect()
}

/// The labels that a legend or an annotation shows, after `mark`: `{{` or `$labels.`.
pub(super) fn find_shown_labels<'a>(text: &'a str, mark: &str) -> BTreeSet<&'a str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let label = |rest: &'a str| rest.split(|letter| !is_part(letter)).next().unwrap_or_default();
    text.split(mark).skip(1).map(label).filter(|label| !label.is_empty()).collect()
}

/// An expression of the dashboard as Grafana sends it, for all namespaces and pools.
pub(super) fn substitute_variables(expression: &str) -> String {
    expression.replace("$namespace", ".*").replace("$pool", ".*").replace("$__rate_interval", RATE_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_metrics_with_their_matchers() {
        let expression =
            r#"sum by (le) (rate(vmpool_a_bucket{b="c"}[5m])) / vmpool_apiserver_x unless kube_y"#;
        let expected = [r#"vmpool_a_bucket{b="c"}"#, "vmpool_apiserver_x", "kube_y"];
        assert_eq!(find_selectors(expression), BTreeSet::from(expected.map(str::to_owned)));
    }

    #[test]
    fn labels_come_from_groups_legends_and_annotations() {
        assert_eq!(find_group_labels("sum by (le, pool) (a) - max by (pod) (b)"), ["pod", "pool"].into());
        assert_eq!(find_shown_labels("{{pool}}: {{pod}}", "{{"), ["pod", "pool"].into());
        assert_eq!(find_shown_labels("{{ $value }} of {{ $labels.pool }}", "$labels."), ["pool"].into());
    }

    #[test]
    fn every_variable_of_grafana_is_substituted() {
        let expression = r#"rate(a{namespace=~"$namespace",pool=~"$pool"}[$__rate_interval])"#;
        assert_eq!(substitute_variables(expression), r#"rate(a{namespace=~".*",pool=~".*"}[20s])"#);
    }
}
