//! Formats changes for the transcript.

use std::collections::BTreeSet;

use serde_json::Value;
use vmpool_model::{ChangeKind, ObjectChange};

/// Maximum length of a printed value in characters.
const MAX_LENGTH: usize = 160;
/// Fields that change with every write and carry no information.
const IGNORED_FIELDS: [&str; 2] = ["resourceVersion", "lastTransitionTime"];

/// One change as a line of the transcript.
pub(crate) fn description_of(change: &ObjectChange) -> String {
    let resource = change.key.resource.split('.').next().unwrap_or_default();
    let what = match (change.kind, &change.before) {
        (ChangeKind::Added, _) => truncated_json(&change.object["spec"]),
        (ChangeKind::Deleted, _) => "deleted".to_owned(),
        (ChangeKind::Modified, before) => {
            difference(before.as_deref().unwrap_or(&Value::Null), &change.object, "")
        }
    };
    format!("  {} {resource} {}: {what}", change.version, change.key.name)
}

/// A value, truncated to [`MAX_LENGTH`] characters.
pub(crate) fn truncated_json(value: &Value) -> String {
    let mut text = value.to_string();
    // Certificates differ between processes. They are cut, so that the same run gives the same transcript in
    // each process.
    let certificate = text.find("-----BEGIN");
    let far = text.char_indices().nth(MAX_LENGTH).map(|(end, _)| end);
    if let Some(end) = certificate.into_iter().chain(far).min() {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// The differences between two values, by path.
fn difference(old: &Value, new: &Value, path: &str) -> String {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            let parts = keys.into_iter().filter(|key| !IGNORED_FIELDS.contains(&key.as_str()));
            let parts = parts.filter_map(|key| {
                let (old, new) = (old.get(key).unwrap_or(&Value::Null), new.get(key).unwrap_or(&Value::Null));
                (old != new).then(|| match key.as_str() {
                    "conditions" => changed_conditions(old, new),
                    _ => difference(old, new, &format!("{path}/{key}")),
                })
            });
            parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
        }
        _ => format!("{path}={}", truncated_json(new)),
    }
}

/// The conditions that are new, or have another status or reason.
fn changed_conditions(old: &Value, new: &Value) -> String {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let short = |condition: &Value| {
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        format!("{}={} {}", text("type"), text("status"), text("reason")).trim_end().to_owned()
    };
    let before: BTreeSet<String> = list(old).iter().map(short).collect();
    let after: BTreeSet<String> = list(new).iter().map(short).collect();
    after.difference(&before).cloned().collect::<Vec<_>>().join(", ")
}
