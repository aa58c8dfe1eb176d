//! The identity of a template: a hash over its canonical form.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// What the controller does if the requested revision cannot be used. Part of the message.
pub const HELD: &str =
    "the rollout is held, and new machines are created from the last revision that was current";

/// The identity of a revision: 16 lower-case hexadecimal digits (64 bits) if vmpool computed it, or any label
/// value if another controller did.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RevisionId(Arc<str>);

impl RevisionId {
    /// The identity for the content of a template, if no other content is stored with this identity.
    ///
    /// The hash is computed over a canonical form with sorted keys, without nulls and empty objects, so
    /// "absent" and "null" are the same template. It does not depend on Rust types. The caller must first
    /// remove values that equal the defaults of the schema.
    pub fn of(template: &Value) -> Self {
        Fingerprint::of(template).id(1)
    }

    /// The possible names of the stored object of this revision, in the order in which the controller tries
    /// them. The first name may be in use by a revision of an earlier pool with the same name. `uid` is the
    /// UID of the pool.
    pub fn object_names(&self, pool: &str, uid: &str) -> [String; 2] {
        let plain = format!("{pool}-{self}");
        let suffix: String = uid.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
        let distinct = format!("{plain}-{}", suffix.to_ascii_lowercase());
        [plain, distinct]
    }

    /// The identity as stored in labels and in the status.
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

/// A fingerprint of the content of a template, 32 bytes. It is equal for two templates exactly if they are
/// structurally equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of a template, over the form that [`RevisionId::of`] describes.
    pub fn of(template: &Value) -> Self {
        Self::of_exact(&without_empty(template).unwrap_or_default())
    }

    /// The fingerprint of a value in a canonical form in which empty objects are significant, for example a
    /// binding such as `masquerade: {}`. Only the order of keys does not count.
    pub fn of_exact(value: &Value) -> Self {
        Self(Sha256::digest(sort_json_keys(value).to_string().as_bytes()).into())
    }

    /// An identity for this content. If another content has the first identity, the next `attempt` yields
    /// another one.
    pub(super) fn id(&self, attempt: u64) -> RevisionId {
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

/// The value without nulls and empty objects; `None` if it counts as absent.
fn without_empty(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(map) => {
            let kept: Map<String, Value> =
                map.iter().filter_map(|(key, value)| Some((key.clone(), without_empty(value)?))).collect();
            (!kept.is_empty()).then(|| kept.into())
        }
        // Positions in a list are significant, so no entry is removed.
        Value::Array(items) => {
            Some(items.iter().map(|item| without_empty(item).unwrap_or(Value::Null)).collect())
        }
        other => Some(other.clone()),
    }
}

/// The same value with sorted keys, by an ordered map on purpose: any dependency can enable the feature of
/// serde_json that disables sorting.
fn sort_json_keys(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let map: std::collections::BTreeMap<&String, &Value> = map.iter().collect();
            map.into_iter().map(|(key, value)| (key.clone(), sort_json_keys(value))).collect()
        }
        Value::Array(items) => items.iter().map(sort_json_keys).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
