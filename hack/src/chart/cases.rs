//! Cases of values: what the chart renders with them, and not without them.
//!
//! The list is [`CASES`]. Together with the variants, it must set every documented value.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_yaml_ng::Value;

use super::objects::kind_and_name;

/// The list of cases.
const CASES: &str = include_str!("cases.yaml");

/// Values, and what the chart renders with them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ValueCase {
    /// The name in messages.
    pub(super) name: String,
    /// The values, as in a values file.
    pub(super) values: Value,
    /// Parts of objects, by `Kind/name`.
    #[serde(default)]
    objects: BTreeMap<String, Value>,
    /// Objects that are not rendered, as `Kind/name`.
    #[serde(default)]
    absent: Vec<String>,
}

impl ValueCase {
    /// All cases.
    ///
    /// # Errors
    /// The list is not valid.
    pub(super) fn all() -> Result<Vec<Self>> {
        serde_yaml_ng::from_str(CASES).context("reading hack/src/chart/cases.yaml")
    }

    /// What is wrong with the objects that the chart renders with the values, and with those by default.
    pub(super) fn violations(&self, rendered: &[Value], defaults: &[Value]) -> Vec<String> {
        let mut found = self.differences(rendered);
        if self.differences(defaults).is_empty() {
            found.push("holds without its values, too".to_owned());
        }
        found
    }

    fn differences(&self, rendered: &[Value]) -> Vec<String> {
        let object = |id: &str| rendered.iter().find(|object| kind_and_name(object) == id);
        let mut found = Vec::new();
        for (id, wanted) in &self.objects {
            match object(id) {
                None => found.push(format!("{id} is missing")),
                Some(object) => {
                    found.extend(find_difference(wanted, object).map(|text| format!("{id}{text}")));
                }
            }
        }
        let surplus = self.absent.iter().filter(|id| object(id).is_some());
        found.extend(surplus.map(|id| format!("{id} is not expected")));
        found
    }

    /// The paths of the values that the case sets, such as `image.tag`.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        collect_paths(&self.values, "", &mut paths);
        paths
    }
}

/// The first difference between the wanted part and the value: a mapping must have the wanted fields, a list
/// the wanted items in any order, and null stands for a missing field.
fn find_difference(wanted: &Value, actual: &Value) -> Option<String> {
    match wanted {
        Value::Mapping(fields) => fields.iter().find_map(|(key, wanted)| {
            let text = find_difference(wanted, actual.get(key).unwrap_or(&Value::Null))?;
            Some(format!(".{}{text}", key.as_str().unwrap_or_default()))
        }),
        Value::Sequence(items) => {
            let actual = actual.as_sequence().map_or(&[][..], Vec::as_slice);
            let is_missing =
                |item: &&Value| !actual.iter().any(|candidate| find_difference(item, candidate).is_none());
            let missing = items.iter().find(is_missing)?;
            Some(format!(" has no item {}", one_line(missing)))
        }
        scalar => {
            (scalar != actual).then(|| format!(" is {} instead of {}", one_line(actual), one_line(scalar)))
        }
    }
}

fn one_line(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn collect_paths(value: &Value, path: &str, paths: &mut Vec<String>) {
    let Some(fields) = value.as_mapping().filter(|fields| !fields.is_empty()) else {
        paths.push(path.to_owned());
        return;
    };
    for (key, value) in fields {
        let key = key.as_str().unwrap_or_default();
        let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        collect_paths(value, &path, paths);
    }
}

/// The paths in values in the syntax of `--set`, without the indices of lists.
pub(super) fn set_paths(values: &[String]) -> Vec<String> {
    let path = |value: &String| {
        let path = value.split('=').next().unwrap_or_default();
        path.split('[').next().unwrap_or_default().to_owned()
    };
    values.iter().map(path).collect()
}

/// The documented values that neither a case nor a variant sets, in whole or in part.
pub(super) fn untested_values(documented: &[String], tested: &[String]) -> Vec<String> {
    let is_within = |path: &str, outer: &str| {
        path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let is_tested = |value: &&String| tested.iter().any(|path| is_within(path, value));
    let untested = documented.iter().filter(|value| !is_tested(value));
    untested.map(|value| format!("neither a case nor a variant sets {value}")).collect()
}

#[cfg(test)]
mod tests;
