//! The schema of the chart's values: every object in it says which fields it has.

use anyhow::{Context, Result};
use serde_json::Value;

/// Objects of Kubernetes' own, whose fields are not ours to list.
const OPEN: &[&str] =
    &["affinity", "egress", "extraEnv", "global", "items", "limits", "metricsFrom", "requests"];

/// Objects in the schema that let unknown fields pass.
///
/// # Errors
/// When it is not JSON.
pub(super) fn violations(schema: &str) -> Result<Vec<String>> {
    let schema: Value = serde_json::from_str(schema).context("reading values.schema.json")?;
    let mut found = Vec::new();
    walk(&schema, "", &mut found);
    Ok(found)
}

fn walk(value: &Value, path: &str, found: &mut Vec<String>) {
    let last = path.rsplit('/').next().unwrap_or_default();
    if value["type"] == "object" && value.get("additionalProperties").is_none() && !OPEN.contains(&last) {
        found.push(format!("values.schema.json lets unknown fields pass at {path:?}"));
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        walk(value, &format!("{path}/{key}"), found);
    }
}
