//! Identity of a template: a hash that no upgrade of ours can change.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Names one content of a template: 16 lower-case hexadecimal digits (64 bits) when we computed it, anything that fits
/// into a label value when another controller did.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RevisionId(Arc<str>);

impl RevisionId {
    /// The id of a template's content.
    ///
    /// The hash covers a canonical form: keys sorted, and what is null or an empty object left out, so that
    /// "absent" and "null" are the same template. It does not depend on the layout of any type of ours. The caller
    /// removes values that equal the schema's defaults first.
    pub fn of(template: &Value) -> Self {
        let digest = Sha256::digest(canonical(template).unwrap_or_default().to_string().as_bytes());
        let first = digest.iter().take(8).fold(0u64, |id, byte| id << 8 | u64::from(*byte));
        Self(format!("{first:016x}").into())
    }

    /// The id as it stands in labels and in the status.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for RevisionId {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for RevisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RevisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `None` for what counts as absent.
fn canonical(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(map) => {
            // An ordered map on purpose: whether serde_json sorts is a feature that any dependency may switch.
            let kept: std::collections::BTreeMap<&String, Value> =
                map.iter().filter_map(|(key, value)| canonical(value).map(|value| (key, value))).collect();
            (!kept.is_empty()).then(|| kept.into_iter().map(|(k, v)| (k.clone(), v)).collect())
        }
        // Positions in a list mean something: nothing is dropped from one.
        Value::Array(items) => {
            Some(items.iter().map(|item| canonical(item).unwrap_or(Value::Null)).collect())
        }
        other => Some(other.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_id_of_a_template_never_changes() {
        // A fixed value on purpose: changing the hash would make every pool of every user look outdated.
        let id = RevisionId::of(&json!({"spec": {"cpu": {"cores": 1}}, "metadata": {"labels": {"a": "b"}}}));
        assert_eq!(id.as_str(), "a2b9efb21fdcca10");
    }

    #[test]
    fn absent_null_and_empty_are_the_same() {
        let plain = RevisionId::of(&json!({"spec": {"cores": 1}}));
        assert_eq!(plain, RevisionId::of(&json!({"spec": {"cores": 1, "x": null}, "metadata": {}})));
        assert_eq!(plain, RevisionId::of(&json!({"metadata": {"labels": {}}, "spec": {"cores": 1}})));
    }

    #[test]
    fn order_of_lists_and_every_value_matter() {
        let ids: std::collections::BTreeSet<_> = [
            json!({"l": [1, 2]}),
            json!({"l": [2, 1]}),
            json!({"l": [1, 2, null]}),
            json!({"l": "12"}),
            json!({"l": []}),
            json!({}),
        ]
        .iter()
        .map(RevisionId::of)
        .collect();
        assert_eq!(ids.len(), 6);
    }
}
