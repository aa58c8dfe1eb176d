//! Access to rendered manifests.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_yaml_ng::{Deserializer, Value};

/// The documents of a rendered chart.
pub(super) fn parse_rendered_chart(text: &str) -> Result<Vec<Value>> {
    Deserializer::from_str(text)
        .map(Value::deserialize)
        .filter(|document| !matches!(document, Ok(Value::Null)))
        .collect::<Result<_, _>>()
        .context("reading what helm rendered")
}

/// The value at a path of keys and indices separated by dots; null if it is missing.
pub(super) fn value_at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(value, |value, key| match key.parse::<usize>() {
        Ok(index) => &value[index],
        Err(_) => &value[key],
    })
}

/// The string at a path, or an empty string.
pub(super) fn text_at<'a>(value: &'a Value, path: &str) -> &'a str {
    value_at(value, path).as_str().unwrap_or_default()
}

/// The strings of the list at a path.
pub(super) fn texts_at<'a>(value: &'a Value, path: &str) -> Vec<&'a str> {
    list_at(value, path).iter().filter_map(Value::as_str).collect()
}

/// The list at a path.
pub(super) fn list_at<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    value_at(value, path).as_sequence().map_or(&[], Vec::as_slice)
}

/// The name of an object.
pub(super) fn object_name(object: &Value) -> &str {
    text_at(object, "metadata.name")
}

/// `Kind/name`, which is unique within the chart except for roles in several namespaces.
pub(super) fn kind_and_name(object: &Value) -> String {
    format!("{}/{}", text_at(object, "kind"), object_name(object))
}

/// The objects of a kind.
pub(super) fn of_kind<'a>(objects: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| text_at(object, "kind") == kind)
}

/// Whether a non-empty set of match labels is a subset of `labels`.
pub(super) fn labels_match(wanted: &Value, labels: &Value) -> bool {
    wanted.as_mapping().is_some_and(|wanted| {
        !wanted.is_empty() && wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
    })
}

/// The pod templates of the Deployments that a set of labels selects.
pub(super) fn selected_pod_templates<'a>(objects: &'a [Value], wanted: &Value) -> Vec<&'a Value> {
    of_kind(objects, "Deployment")
        .map(|deployment| value_at(deployment, "spec.template"))
        .filter(|pod| labels_match(wanted, value_at(pod, "metadata.labels")))
        .collect()
}

/// The names of the ports of a pod template.
pub(super) fn pod_port_names(pod: &Value) -> BTreeSet<&str> {
    list_at(pod, "spec.containers.0.ports").iter().map(|port| text_at(port, "name")).collect()
}

/// The rules of a role: maps `group/resource`, followed by resource names if there are any, to verbs.
pub(super) fn role_grants(role: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let mut grants: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for rule in list_at(role, "rules") {
        let names = texts_at(rule, "resourceNames").join(",");
        for group in texts_at(rule, "apiGroups") {
            for resource in texts_at(rule, "resources") {
                let key = format!("{group}/{resource} {names}");
                let verbs = grants.entry(key.trim_end().to_owned()).or_default();
                verbs.extend(texts_at(rule, "verbs").into_iter().map(str::to_owned));
            }
        }
    }
    grants
}
