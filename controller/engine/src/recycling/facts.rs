//! What the annotations of a machine say about its replacement.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use vmpool_api::annotations;

/// On machines: when a user requested the replacement, RFC 3339. A time before the creation requests nothing.
pub const REQUEST: &str = annotations::RECYCLE;
/// On machines: how often the machine was claimed. Only the aggregated API writes it.
pub const CLAIMS: &str = annotations::CLAIMS;

/// What the annotations of a machine say about its replacement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecycleFacts {
    /// When the replacement was requested; `None` if it was not, or if the time cannot be read.
    pub requested: Option<Timestamp>,
    /// How often the machine was claimed, without renewals. Zero if the number cannot be read.
    pub claims: u32,
}

impl RecycleFacts {
    /// Reads the annotations of a machine; `None` if they contain nothing about its replacement.
    pub fn read(annotations: Option<&BTreeMap<String, String>>) -> Option<Arc<Self>> {
        let get = |key: &str| annotations?.get(key).map(String::as_str);
        let read = Self {
            requested: get(REQUEST).and_then(|text| text.parse().ok()),
            claims: get(CLAIMS).and_then(|text| text.parse().ok()).unwrap_or_default(),
        };
        (read != Self::default()).then(|| Arc::new(read))
    }
}

/// The text of [`CLAIMS`] for this number of claims; `None` if the annotation is removed.
pub fn format_claim_count(claims: u32) -> Option<String> {
    (claims > 0).then(|| claims.to_string())
}
