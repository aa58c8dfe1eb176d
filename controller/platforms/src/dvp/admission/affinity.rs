//! Placement rules. Each machine becomes a pod, so what is invalid for a pod is invalid here.

use std::collections::BTreeSet;

use serde_json::Value;
use vmpool_api::names::is_dns_label;
use vmpool_engine::admission::{Checked, refuse};

use super::rule::Rule;
use super::selectors;
use super::view::{MACHINE, at, field, list, text};
use crate::syntax::is_key;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn check(spec: &Value) -> Checked {
    let affinity = field(spec, "affinity");
    nodes(&format!("{MACHINE}.affinity.nodeAffinity"), field(affinity, "nodeAffinity"))?;
    for kind in ["virtualMachineAndPodAffinity", "virtualMachineAndPodAntiAffinity"] {
        machines(&format!("{MACHINE}.affinity.{kind}"), field(affinity, kind))?;
    }
    spread(&format!("{MACHINE}.topologySpreadConstraints"), list(field(spec, "topologySpreadConstraints")))
}

fn nodes(path: &str, affinity: &Value) -> Checked {
    let required = field(affinity, REQUIRED);
    let terms = field(required, "nodeSelectorTerms");
    if !required.is_null() && list(terms).is_empty() {
        return refuse(
            Rule::Placement,
            format!("{path}.{REQUIRED}.nodeSelectorTerms"),
            terms,
            "without a term no node is suitable",
            format_args!("add a term, or remove {REQUIRED}"),
        );
    }
    for (index, term) in list(terms).iter().enumerate() {
        selectors::node_term(&format!("{path}.{REQUIRED}.nodeSelectorTerms[{index}]"), term)?;
    }
    for (index, preferred) in list(field(affinity, PREFERRED)).iter().enumerate() {
        let path = format!("{path}.{PREFERRED}[{index}]");
        weight(&path, preferred)?;
        selectors::node_term(&format!("{path}.preference"), field(preferred, "preference"))?;
    }
    Ok(())
}

fn machines(path: &str, affinity: &Value) -> Checked {
    for (index, required) in list(field(affinity, REQUIRED)).iter().enumerate() {
        term(&format!("{path}.{REQUIRED}[{index}]"), required)?;
    }
    for (index, preferred) in list(field(affinity, PREFERRED)).iter().enumerate() {
        let path = format!("{path}.{PREFERRED}[{index}]");
        weight(&path, preferred)?;
        let name = "virtualMachineAndPodAffinityTerm";
        term(&format!("{path}.{name}"), field(preferred, name))?;
    }
    Ok(())
}

fn weight(path: &str, preferred: &Value) -> Checked {
    let weight = field(preferred, "weight");
    if weight.as_i64().is_some_and(|weight| (1..=100).contains(&weight)) {
        return Ok(());
    }
    refuse(Rule::Placement, format!("{path}.weight"), weight, "out of range", "use a number from 1 to 100")
}

fn topology_key(path: &str, owner: &Value) -> Checked {
    let key = field(owner, "topologyKey");
    if key.as_str().is_some_and(is_key) {
        return Ok(());
    }
    refuse(
        Rule::Placement,
        format!("{path}.topologyKey"),
        key,
        "no label of a node can have this key",
        "use one such as kubernetes.io/hostname",
    )
}

fn term(path: &str, term: &Value) -> Checked {
    topology_key(path, term)?;
    selectors::labels(&format!("{path}.labelSelector"), field(term, "labelSelector"))?;
    selectors::labels(&format!("{path}.namespaceSelector"), field(term, "namespaceSelector"))?;
    for (index, namespace) in list(field(term, "namespaces")).iter().enumerate() {
        if !namespace.as_str().is_some_and(is_dns_label) {
            let path = format!("{path}.namespaces[{index}]");
            return refuse(Rule::Placement, path, namespace, "no namespace can have this name", "correct it");
        }
    }
    label_keys(path, term)
}

/// `matchLabelKeys` are added to the label selector, so they need a selector and must not repeat its keys.
fn label_keys(path: &str, term: &Value) -> Checked {
    let selected: BTreeSet<&str> = list(at(term, &["labelSelector", "matchExpressions"]))
        .iter()
        .filter_map(|requirement| text(requirement, "key"))
        .chain(
            at(term, &["labelSelector", "matchLabels"])
                .as_object()
                .into_iter()
                .flatten()
                .map(|(key, _)| key.as_str()),
        )
        .collect();
    let mut seen = BTreeSet::new();
    for kind in ["matchLabelKeys", "mismatchLabelKeys"] {
        for (index, key) in list(field(term, kind)).iter().enumerate() {
            let refused = |reason, way_out| {
                refuse(Rule::Placement, format!("{path}.{kind}[{index}]"), key, reason, way_out)
            };
            let Some(name) = key.as_str().filter(|key| is_key(key)) else {
                return refused("no label can have this key", "correct it");
            };
            if field(term, "labelSelector").is_null() {
                return refused("it adds to labelSelector, and there is none", "add labelSelector");
            }
            if selected.contains(name) || !seen.insert(name) {
                return refused("the key is used already", "name each key in one place only");
            }
        }
    }
    Ok(())
}

fn spread(path: &str, constraints: &[Value]) -> Checked {
    let mut seen = BTreeSet::new();
    for (index, constraint) in constraints.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let skew = field(constraint, "maxSkew");
        if skew.as_i64().is_none_or(|skew| skew < 1) {
            return refuse(Rule::Placement, format!("{path}.maxSkew"), skew, "out of range", "use 1 or more");
        }
        topology_key(&path, constraint)?;
        let action = field(constraint, "whenUnsatisfiable");
        if !matches!(action.as_str(), Some("DoNotSchedule" | "ScheduleAnyway")) {
            return refuse(
                Rule::Placement,
                format!("{path}.whenUnsatisfiable"),
                action,
                "no such word",
                "use DoNotSchedule or ScheduleAnyway",
            );
        }
        if !seen.insert((text(constraint, "topologyKey"), action.as_str())) {
            return refuse(
                Rule::Placement,
                format!("{path}.topologyKey"),
                field(constraint, "topologyKey"),
                "another constraint has the same topologyKey and whenUnsatisfiable",
                "remove one of the two",
            );
        }
        selectors::labels(&format!("{path}.labelSelector"), field(constraint, "labelSelector"))?;
    }
    Ok(())
}
