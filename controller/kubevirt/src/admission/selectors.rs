//! Rules about the selector of a pool, and about the selectors of its selection policies.

use serde_json::Value;
use vmpool_platform::syntax::{is_key, is_value};
use vmpool_platform::value::{json_at_path, json_entries, json_field, json_text};

use super::findings::Findings;
use super::pool::{INSTANCE, KubeVirtPoolView, is_same_value, to_label_map};
use super::rule::Rule;
use crate::selectors::{LabelSelector, MachineSelector, SelectorError};

const PATH: &str = "spec.selector";

/// The selector and the labels that it must match.
pub(super) fn check_pool_selector(pool: KubeVirtPoolView<'_>, findings: &mut Findings) {
    let selector = pool.selector();
    if let Some(reason) = label_selector_error(selector) {
        findings.refuse(Rule::Selector, PATH, selector, reason, "correct the selector");
        return;
    }
    // A missing selector matches nothing, and an empty one matches everything.
    let read = LabelSelector::read(selector).ok();
    let matches =
        |value: &Value| read.as_ref().is_some_and(|selector| selector.matches(&to_label_map(value)));
    if !matches(pool.labels()) {
        findings.refuse(
            Rule::SelectorMatch,
            PATH,
            selector,
            "selector does not match labels",
            "add its labels to spec.virtualMachineTemplate.metadata.labels",
        );
    } else if !matches(pool.inner_labels()) {
        let detail = format!(
            "it does not match {INSTANCE}.metadata.labels, so Services with these labels and autoscalers find no pods; \
             repeat the labels there"
        );
        findings.warn(Rule::InnerLabels, PATH, detail);
    }
}

/// The selector of an existing pool. An absent map or list equals an empty one.
pub(super) fn is_selector_unchanged(old: KubeVirtPoolView<'_>, new: KubeVirtPoolView<'_>) -> bool {
    let (before, after) = (old.selector(), new.selector());
    before.is_null() == after.is_null()
        && ["matchLabels", "matchExpressions"]
            .iter()
            .all(|part| is_same_value(json_field(before, part), json_field(after, part)))
}

pub(super) fn refuse_selector_change(new: KubeVirtPoolView<'_>, findings: &mut Findings) {
    findings.refuse(
        Rule::SelectorChanged,
        PATH,
        new.selector(),
        "selector is immutable after creation of the pool",
        "create another pool",
    );
}

/// The selectors of the selection policy at `path` of the spec.
pub(super) fn check_selection_policy(pool: KubeVirtPoolView<'_>, strategy: &str, findings: &mut Findings) {
    let selectors = json_at_path(pool.part(strategy), &["proactive", "selectionPolicy", "selectors"]);
    let path = format!("spec.{strategy}.proactive.selectionPolicy.selectors");
    let by_label = json_field(selectors, "labelSelector");
    if !by_label.is_null()
        && let Some(reason) = label_selector_error(by_label)
    {
        let path = format!("{path}.labelSelector");
        findings.refuse(Rule::PolicySelectors, path, by_label, reason, "correct the selector");
        return;
    }
    if let Err(error) = MachineSelector::read(selectors) {
        let path = format!("{path}.nodeSelectorRequirementMatcher");
        let value = json_field(selectors, "nodeSelectorRequirementMatcher");
        findings.refuse(Rule::PolicySelectors, path, value, error, "correct the requirement");
    }
}

/// Why a label selector is invalid. The texts contain those of Kubernetes.
fn label_selector_error(selector: &Value) -> Option<String> {
    if selector.is_null() {
        return None;
    }
    if let Err(error) = LabelSelector::read(selector) {
        return Some(match error {
            SelectorError::Operator { operator, .. } => {
                format!("{operator:?} is not a valid label selector operator")
            }
            SelectorError::Values { operator, .. } if matches!(&*operator, "In" | "NotIn") => {
                "for 'in', 'notin' operators, values set can't be empty".to_owned()
            }
            SelectorError::Values { .. } => {
                "values set must be empty for exists and does not exist".to_owned()
            }
            error @ SelectorError::Type { .. } => error.to_string(),
        });
    }
    let by_label = json_field(selector, "matchLabels").as_object().into_iter().flatten();
    let by_label = by_label.map(|(key, value)| (key.as_str(), std::slice::from_ref(value)));
    let expressions = json_entries(json_field(selector, "matchExpressions")).iter();
    let expressions = expressions.map(|entry| {
        (json_text(entry, "key").unwrap_or_default(), json_entries(json_field(entry, "values")))
    });
    by_label.chain(expressions).find_map(|(key, values)| {
        if !is_key(key) {
            return Some(format!("no label can have the key {key:?}"));
        }
        let odd = values.iter().find(|value| !value.as_str().is_some_and(is_value))?;
        Some(format!("label {key:?} cannot have the value {odd}"))
    })
}
