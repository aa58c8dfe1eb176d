//! The schema of the chart's values: every object must list its fields.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::Value;

/// Objects of Kubernetes' own types, whose fields the schema does not list.
const OPEN: &[&str] = &[
    "affinity",
    "containerSecurityContext",
    "egress",
    "extraEnv",
    "global",
    "items",
    "limits",
    "metricsFrom",
    "podSecurityContext",
    "requests",
];

/// Objects in the schema that accept unknown fields.
///
/// # Errors
/// If the schema is not JSON.
pub(super) fn values_schema_violations(schema: &str) -> Result<Vec<String>> {
    let schema: Value = serde_json::from_str(schema).context("reading values.schema.json")?;
    let mut found = Vec::new();
    walk(&schema, "", &mut found);
    Ok(found)
}

/// Differences between the feature gates of the schema and those of the programs, whose source is given.
///
/// # Errors
/// If the schema is not JSON.
pub(super) fn feature_gate_violations(schema: &str, source: &str) -> Result<Vec<String>> {
    let schema: Value = serde_json::from_str(schema).context("reading values.schema.json")?;
    let gates = &schema["properties"]["featureGates"]["properties"];
    let stored: BTreeSet<&str> = gates.as_object().into_iter().flatten().map(|(name, _)| &**name).collect();
    // Each arm of `Feature::name`.
    let names = source.lines().filter_map(|line| line.trim().strip_prefix("Self::")?.split_once(" => \""));
    let known: BTreeSet<&str> = names
        .filter_map(|(variant, name)| Some(name.strip_suffix("\",")?).filter(|name| *name == variant))
        .chain(["AllAlpha", "AllBeta"])
        .collect();
    let mut found = Vec::new();
    if stored != known {
        found
            .push(format!("values.schema.json has the feature gates {stored:?}, and the programs {known:?}"));
    }
    Ok(found)
}

fn walk(value: &Value, path: &str, found: &mut Vec<String>) {
    let last = path.rsplit('/').next().unwrap_or_default();
    if value["type"] == "object" && value.get("additionalProperties").is_none() && !OPEN.contains(&last) {
        found.push(format!("values.schema.json accepts unknown fields at {path:?}"));
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        walk(value, &format!("{path}/{key}"), found);
    }
}
