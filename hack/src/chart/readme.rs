//! The table of values in the chart's README, generated from the comments in `values.yaml`.
//!
//! The comment directly above a key becomes its row. A mapping without a comment is a section, and its keys
//! have rows. A mapping with a comment is one value, such as resources.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};
use serde_yaml_ng::Value;

use crate::workspace::Workspace;

const VALUES: &str = "charts/vmpool/values.yaml";
const README: &str = "charts/vmpool/README.md";

/// The markers around the table.
const BEGIN: &str = "<!-- Made of values.yaml by `cargo xtask generate`. -->\n";
const END: &str = "<!-- End of what is made. -->\n";

/// Writes the table, or with `check` compares it with what would be written.
///
/// # Errors
/// A value has no comment, the README has no markers for the table, or with `check` the table is out of date.
pub(crate) fn generate_values_table(workspace: &Workspace, check: bool) -> Result<()> {
    let read =
        |file: &str| fs::read_to_string(workspace.path(file)).with_context(|| format!("reading {file}"));
    let current = read(README)?;
    let wanted = with_table(&current, &table(&read(VALUES)?)?)?;
    if check && wanted != current {
        bail!("{README} is out of date: run `cargo xtask generate`");
    }
    if !check {
        fs::write(workspace.path(README), wanted).with_context(|| format!("writing {README}"))?;
    }
    Ok(())
}

/// The paths of the values in the table, such as `image.tag`.
///
/// # Errors
/// The text is not YAML.
pub(super) fn documented_values(text: &str) -> Result<Vec<String>> {
    let values: Value = serde_yaml_ng::from_str(text).with_context(|| format!("reading {VALUES}"))?;
    let mut rows = Vec::new();
    collect(&values, "", &comments(text), &mut rows, &mut Vec::new());
    let path = |row: &String| row.split('`').nth(1).unwrap_or_default().to_owned();
    Ok(rows.iter().map(path).collect())
}

/// The README with the table replaced.
fn with_table(readme: &str, table: &str) -> Result<String> {
    let place =
        || format!("{README} lacks the markers of the table of values: {} and {}", BEGIN.trim(), END.trim());
    let (before, rest) = readme.split_once(BEGIN).with_context(place)?;
    let (_, after) = rest.split_once(END).with_context(place)?;
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

/// The table for the text of a values file.
fn table(text: &str) -> Result<String> {
    let values: Value = serde_yaml_ng::from_str(text).with_context(|| format!("reading {VALUES}"))?;
    let mut rows = vec!["| Value | Default | Meaning |".to_owned(), "| --- | --- | --- |".to_owned()];
    let mut missing = Vec::new();
    collect(&values, "", &comments(text), &mut rows, &mut missing);
    if !missing.is_empty() {
        bail!("{VALUES} has no comment above {}", missing.join(", "));
    }
    rows.push(String::new());
    Ok(rows.join("\n"))
}

fn collect(
    value: &Value,
    path: &str,
    comments: &BTreeMap<String, String>,
    rows: &mut Vec<String>,
    missing: &mut Vec<String>,
) {
    if let Some(comment) = comments.get(path) {
        let meaning = comment.strip_suffix('.').unwrap_or(comment).replace('|', "\\|");
        rows.push(format!("| `{path}` | `{}` | {meaning} |", inline(value)));
        return;
    }
    match value.as_mapping().filter(|mapping| !mapping.is_empty()) {
        Some(mapping) => {
            for (key, value) in mapping {
                let key = key.as_str().unwrap_or_default();
                let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
                collect(value, &path, comments, rows, missing);
            }
        }
        None => missing.push(path.to_owned()),
    }
}

/// A value in one line of YAML.
fn inline(value: &Value) -> String {
    let join = |parts: Vec<String>| parts.join(", ");
    match value {
        // A string that YAML would read as another type, such as a number, keeps its quotes.
        Value::String(text) if !serde_yaml_ng::from_str::<Value>(text).is_ok_and(|read| read.is_string()) => {
            format!("\"{text}\"")
        }
        Value::String(text) => text.clone(),
        Value::Sequence(items) => format!("[{}]", join(items.iter().map(inline).collect())),
        Value::Mapping(fields) => {
            let field = |(key, value): (&Value, &Value)| format!("{}: {}", inline(key), inline(value));
            format!("{{{}}}", join(fields.iter().map(field).collect()))
        }
        other => serde_yaml_ng::to_string(other).map(|text| text.trim().to_owned()).unwrap_or_default(),
    }
}

/// The comment above each key, by the key's path.
fn comments(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut above: Vec<&str> = Vec::new();
    let mut parents: Vec<(usize, &str)> = Vec::new();
    for line in text.lines() {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        if let Some(comment) = content.strip_prefix('#') {
            above.push(comment.trim());
            continue;
        }
        let comment = std::mem::take(&mut above).join(" ");
        let Some((key, _)) = content.split_once(':').filter(|_| !content.starts_with('-')) else { continue };
        parents.retain(|(parent, _)| *parent < indent);
        parents.push((indent, key));
        if !comment.is_empty() {
            let path: Vec<&str> = parents.iter().map(|(_, key)| *key).collect();
            found.insert(path.join("."), comment);
        }
    }
    found
}

#[cfg(test)]
mod tests;
