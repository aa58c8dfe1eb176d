//! Reading rendered manifests.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_yaml_ng::{Deserializer, Value};

/// The documents of a rendered chart.
pub(super) fn parse(text: &str) -> Result<Vec<Value>> {
    Deserializer::from_str(text)
        .map(Value::deserialize)
        .filter(|document| !matches!(document, Ok(Value::Null)))
        .collect::<Result<_, _>>()
        .context("reading what helm rendered")
}

/// Follows keys and indices separated by dots; nothing found is null.
pub(super) fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(value, |value, key| match key.parse::<usize>() {
        Ok(index) => &value[index],
        Err(_) => &value[key],
    })
}

/// The string there, or nothing.
pub(super) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    at(value, path).as_str().unwrap_or_default()
}

/// The strings of the list there.
pub(super) fn texts<'a>(value: &'a Value, path: &str) -> Vec<&'a str> {
    list(value, path).iter().filter_map(Value::as_str).collect()
}

/// The list there.
pub(super) fn list<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    at(value, path).as_sequence().map_or(&[], Vec::as_slice)
}

/// `Kind/name`, which is unique within the chart.
pub(super) fn id(object: &Value) -> String {
    format!("{}/{}", text(object, "kind"), text(object, "metadata.name"))
}

/// What the rules of a role allow: `group/resource` to verbs.
pub(super) fn grants(role: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let mut grants: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for rule in list(role, "rules") {
        for group in texts(rule, "apiGroups") {
            for resource in texts(rule, "resources") {
                let verbs = grants.entry(format!("{group}/{resource}")).or_default();
                verbs.extend(texts(rule, "verbs").into_iter().map(str::to_owned));
            }
        }
    }
    grants
}
