//! The schema of the chart's values: every object must list its fields.

use anyhow::{Context, Result};
use serde_json::Value;

/// Objects of Kubernetes' own types, whose fields the schema does not list.
const OPEN: &[&str] =
    &["affinity", "egress", "extraEnv", "global", "items", "limits", "metricsFrom", "requests"];

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

fn walk(value: &Value, path: &str, found: &mut Vec<String>) {
    let last = path.rsplit('/').next().unwrap_or_default();
    if value["type"] == "object" && value.get("additionalProperties").is_none() && !OPEN.contains(&last) {
        found.push(format!("values.schema.json accepts unknown fields at {path:?}"));
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        walk(value, &format!("{path}/{key}"), found);
    }
}
