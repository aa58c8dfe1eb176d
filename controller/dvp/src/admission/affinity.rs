//! Placement rules. Each machine becomes a pod, so what is invalid for a pod is invalid here.

use std::collections::BTreeSet;

use serde_json::Value;
use vmpool_api::names::is_dns_label;
use vmpool_engine::admission::{RuleResult, refuse_value};
use vmpool_platform::syntax::is_key;

use super::rule::Rule;
use super::selectors;
use super::view::{MACHINE, json_at_path, json_entries, json_field, json_text};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn check_placement(spec: &Value) -> RuleResult {
    let affinity = json_field(spec, "affinity");
    check_node_affinity(&format!("{MACHINE}.affinity.nodeAffinity"), json_field(affinity, "nodeAffinity"))?;
    for kind in ["virtualMachineAndPodAffinity", "virtualMachineAndPodAntiAffinity"] {
        check_machine_affinity(&format!("{MACHINE}.affinity.{kind}"), json_field(affinity, kind))?;
    }
    check_topology_spread(
        &format!("{MACHINE}.topologySpreadConstraints"),
        json_entries(json_field(spec, "topologySpreadConstraints")),
    )
}

fn check_node_affinity(path: &str, affinity: &Value) -> RuleResult {
    let required = json_field(affinity, REQUIRED);
    let terms = json_field(required, "nodeSelectorTerms");
    if !required.is_null() && json_entries(terms).is_empty() {
        return refuse_value(
            Rule::Placement,
            format!("{path}.{REQUIRED}.nodeSelectorTerms"),
            terms,
            "without a term no node is suitable",
            format_args!("add a term, or remove {REQUIRED}"),
        );
    }
    for (index, term) in json_entries(terms).iter().enumerate() {
        selectors::node_term(&format!("{path}.{REQUIRED}.nodeSelectorTerms[{index}]"), term)?;
    }
    for (index, preferred) in json_entries(json_field(affinity, PREFERRED)).iter().enumerate() {
        let path = format!("{path}.{PREFERRED}[{index}]");
        check_preference_weight(&path, preferred)?;
        selectors::node_term(&format!("{path}.preference"), json_field(preferred, "preference"))?;
    }
    Ok(())
}

fn check_machine_affinity(path: &str, affinity: &Value) -> RuleResult {
    for (index, required) in json_entries(json_field(affinity, REQUIRED)).iter().enumerate() {
        check_affinity_term(&format!("{path}.{REQUIRED}[{index}]"), required)?;
    }
    for (index, preferred) in json_entries(json_field(affinity, PREFERRED)).iter().enumerate() {
        let path = format!("{path}.{PREFERRED}[{index}]");
        check_preference_weight(&path, preferred)?;
        let name = "virtualMachineAndPodAffinityTerm";
        check_affinity_term(&format!("{path}.{name}"), json_field(preferred, name))?;
    }
    Ok(())
}

fn check_preference_weight(path: &str, preferred: &Value) -> RuleResult {
    let weight = json_field(preferred, "weight");
    if weight.as_i64().is_some_and(|weight| (1..=100).contains(&weight)) {
        return Ok(());
    }
    refuse_value(
        Rule::Placement,
        format!("{path}.weight"),
        weight,
        "out of range",
        "use a number from 1 to 100",
    )
}

fn topology_key(path: &str, owner: &Value) -> RuleResult {
    let key = json_field(owner, "topologyKey");
    if key.as_str().is_some_and(is_key) {
        return Ok(());
    }
    refuse_value(
        Rule::Placement,
        format!("{path}.topologyKey"),
        key,
        "no label of a node can have this key",
        "use one such as kubernetes.io/hostname",
    )
}

fn check_affinity_term(path: &str, term: &Value) -> RuleResult {
    topology_key(path, term)?;
    selectors::check_label_selector(&format!("{path}.labelSelector"), json_field(term, "labelSelector"))?;
    selectors::check_label_selector(
        &format!("{path}.namespaceSelector"),
        json_field(term, "namespaceSelector"),
    )?;
    for (index, namespace) in json_entries(json_field(term, "namespaces")).iter().enumerate() {
        if !namespace.as_str().is_some_and(is_dns_label) {
            let path = format!("{path}.namespaces[{index}]");
            return refuse_value(
                Rule::Placement,
                path,
                namespace,
                "no namespace can have this name",
                "correct it",
            );
        }
    }
    label_keys(path, term)
}

/// `matchLabelKeys` are added to the label selector, so they need a selector and must not repeat its keys.
fn label_keys(path: &str, term: &Value) -> RuleResult {
    let selected: BTreeSet<&str> = json_entries(json_at_path(term, &["labelSelector", "matchExpressions"]))
        .iter()
        .filter_map(|requirement| json_text(requirement, "key"))
        .chain(
            json_at_path(term, &["labelSelector", "matchLabels"])
                .as_object()
                .into_iter()
                .flatten()
                .map(|(key, _)| key.as_str()),
        )
        .collect();
    let mut seen = BTreeSet::new();
    for kind in ["matchLabelKeys", "mismatchLabelKeys"] {
        for (index, key) in json_entries(json_field(term, kind)).iter().enumerate() {
            let refused = |reason, way_out| {
                refuse_value(Rule::Placement, format!("{path}.{kind}[{index}]"), key, reason, way_out)
            };
            let Some(name) = key.as_str().filter(|key| is_key(key)) else {
                return refused("no label can have this key", "correct it");
            };
            if json_field(term, "labelSelector").is_null() {
                return refused("it adds to labelSelector, and there is none", "add labelSelector");
            }
            if selected.contains(name) || !seen.insert(name) {
                return refused("the key is used already", "name each key in one place only");
            }
        }
    }
    Ok(())
}

fn check_topology_spread(path: &str, constraints: &[Value]) -> RuleResult {
    let mut seen = BTreeSet::new();
    for (index, constraint) in constraints.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let skew = json_field(constraint, "maxSkew");
        if skew.as_i64().is_none_or(|skew| skew < 1) {
            return refuse_value(
                Rule::Placement,
                format!("{path}.maxSkew"),
                skew,
                "out of range",
                "use 1 or more",
            );
        }
        topology_key(&path, constraint)?;
        let action = json_field(constraint, "whenUnsatisfiable");
        if !matches!(action.as_str(), Some("DoNotSchedule" | "ScheduleAnyway")) {
            return refuse_value(
                Rule::Placement,
                format!("{path}.whenUnsatisfiable"),
                action,
                "no such word",
                "use DoNotSchedule or ScheduleAnyway",
            );
        }
        if !seen.insert((json_text(constraint, "topologyKey"), action.as_str())) {
            return refuse_value(
                Rule::Placement,
                format!("{path}.topologyKey"),
                json_field(constraint, "topologyKey"),
                "another constraint has the same topologyKey and whenUnsatisfiable",
                "remove one of the two",
            );
        }
        selectors::check_label_selector(
            &format!("{path}.labelSelector"),
            json_field(constraint, "labelSelector"),
        )?;
    }
    Ok(())
}
