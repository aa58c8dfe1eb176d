//! Rules about selectors of labels and of nodes.

use serde_json::Value;
use vmpool_api::names::is_dns_subdomain;
use vmpool_engine::admission::{RuleResult, refuse_value};
use vmpool_platform::syntax::{is_key, is_value};

use super::rule::Rule;
use super::view::{json_entries, json_field, json_text};

/// The kind of a requirement in a selector.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operators {
    /// Of labels of machines and pods.
    Labels,
    /// Of labels of nodes.
    Nodes,
    /// Of fields of nodes.
    NodeFields,
}

/// The error of a requirement: the field below it, the reason and the advice.
type Wrong = (&'static str, &'static str, &'static str);

/// A selector of machines, pods or namespaces; absent ones are fine.
pub(super) fn check_label_selector(path: &str, selector: &Value) -> RuleResult {
    for (key, value) in json_field(selector, "matchLabels").as_object().into_iter().flatten() {
        let path = || format!("{path}.matchLabels[{key}]");
        if !is_key(key) {
            return refuse_value(
                Rule::Placement,
                path(),
                value,
                "the key is none that a label can have",
                KEY,
            );
        }
        if !value.as_str().is_some_and(is_value) {
            return refuse_value(Rule::Placement, path(), value, "no label can have this value", VALUE);
        }
    }
    check_requirements(
        &format!("{path}.matchExpressions"),
        json_field(selector, "matchExpressions"),
        Operators::Labels,
    )
}

/// One term about nodes.
pub(super) fn node_term(path: &str, term: &Value) -> RuleResult {
    check_requirements(
        &format!("{path}.matchExpressions"),
        json_field(term, "matchExpressions"),
        Operators::Nodes,
    )?;
    check_requirements(&format!("{path}.matchFields"), json_field(term, "matchFields"), Operators::NodeFields)
}

const KEY: &str = "use letters, digits, '-', '_' and '.', with a DNS name and a slash in front if you like";
const VALUE: &str = "use at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends";

fn check_requirements(path: &str, requirements: &Value, operators: Operators) -> RuleResult {
    for (index, requirement) in json_entries(requirements).iter().enumerate() {
        if let Some((below, reason, way_out)) = requirement_error(requirement, operators) {
            let path = format!("{path}[{index}].{below}");
            return refuse_value(Rule::Placement, path, json_field(requirement, below), reason, way_out);
        }
    }
    Ok(())
}

fn requirement_error(requirement: &Value, operators: Operators) -> Option<Wrong> {
    let values = json_entries(json_field(requirement, "values"));
    let texts = || values.iter().map(|value| value.as_str().unwrap_or_default());
    let operator = json_text(requirement, "operator").unwrap_or_default();
    match (operator, operators) {
        ("In" | "NotIn", Operators::NodeFields) if values.len() != 1 => {
            return Some(("values", "a field of a node is compared with exactly one value", "name one node"));
        }
        ("In" | "NotIn", _) if values.is_empty() => {
            return Some((
                "values",
                "In and NotIn need values",
                "add at least one, or use Exists or DoesNotExist",
            ));
        }
        ("Exists" | "DoesNotExist", Operators::Labels | Operators::Nodes) if !values.is_empty() => {
            return Some((
                "values",
                "Exists and DoesNotExist take no values",
                "remove them, or use In or NotIn",
            ));
        }
        ("In" | "NotIn", _) | ("Exists" | "DoesNotExist", Operators::Labels | Operators::Nodes) => {}
        ("Gt" | "Lt", Operators::Nodes) => {
            if values.len() != 1 || texts().any(|value| value.parse::<i64>().is_err()) {
                return Some((
                    "values",
                    "Gt and Lt compare with exactly one whole number",
                    "use one such as \"16\"",
                ));
            }
        }
        (_, Operators::Labels) => {
            return Some(("operator", "no such operator", "use In, NotIn, Exists or DoesNotExist"));
        }
        (_, Operators::Nodes) => {
            return Some(("operator", "no such operator", "use In, NotIn, Exists, DoesNotExist, Gt or Lt"));
        }
        (_, Operators::NodeFields) => {
            return Some(("operator", "fields of nodes know In and NotIn only", "use one of them"));
        }
    }
    let key = json_text(requirement, "key").unwrap_or_default();
    if operators == Operators::NodeFields {
        if key != "metadata.name" {
            return Some((
                "key",
                "no field of nodes but metadata.name can be used",
                "use it, or a label of the node",
            ));
        }
        return texts().any(|value| !is_dns_subdomain(value)).then_some((
            "values",
            "no node can have this name",
            "use the name of a node",
        ));
    }
    if !is_key(key) {
        return Some(("key", "no label can have this key", KEY));
    }
    texts()
        .any(|value| !is_value(value))
        .then_some(("values", "no label can have one of these values", VALUE))
        // Gt and Lt compare with a number, which can be negative.
        .filter(|_| !matches!(operator, "Gt" | "Lt"))
}
