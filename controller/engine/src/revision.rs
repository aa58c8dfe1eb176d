//! Identity of a template: a hash that no upgrade of ours can change, and the history that keeps it.

mod history;

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

pub use history::{History, Resolved, Stored};

/// What a revision that cannot be used means for the pool.
pub const HELD: &str =
    "the rollout is held, and new machines are created from the revision that was in force last";

/// Names one content of a template: 16 lower-case hexadecimal digits (64 bits) when we computed it, anything that fits
/// into a label value when another controller did.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RevisionId(Arc<str>);

impl RevisionId {
    /// The id of a template's content, as long as no other one is stored under it.
    ///
    /// The hash covers a canonical form: keys sorted, and what is null or an empty object left out, so that
    /// "absent" and "null" are the same template. It does not depend on the layout of any type of ours. The caller
    /// removes values that equal the schema's defaults first.
    pub fn of(template: &Value) -> Self {
        Fingerprint::of(template).id(1)
    }

    /// The names that the object of this stored revision may have, in the order in which they are tried: the plain one
    /// is given away where an earlier pool of the same name has left its own behind. `uid` is that of the pool.
    pub fn object_names(&self, pool: &str, uid: &str) -> [String; 2] {
        let plain = format!("{pool}-{self}");
        let suffix: String = uid.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
        let distinct = format!("{plain}-{}", suffix.to_ascii_lowercase());
        [plain, distinct]
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

impl From<Arc<str>> for RevisionId {
    fn from(text: Arc<str>) -> Self {
        Self(text)
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

/// What a template consists of, in 32 bytes: equal for two templates exactly if they are structurally equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of a template, over the form that [`RevisionId::of`] describes.
    pub fn of(template: &Value) -> Self {
        let text = canonical(template).unwrap_or_default().to_string();
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// An id for it. Where another content has the first one, the next `attempt` gives another.
    fn id(&self, attempt: u64) -> RevisionId {
        let digest = match attempt {
            0 | 1 => self.0,
            _ => Sha256::new().chain_update(self.0).chain_update(attempt.to_be_bytes()).finalize().into(),
        };
        let first = digest.iter().take(8).fold(0u64, |id, byte| id << 8 | u64::from(*byte));
        RevisionId(format!("{first:016x}").into())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
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
mod tests;
