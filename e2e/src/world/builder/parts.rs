//! What the builders of both platforms use.

use serde_json::Value;

/// The scale-down policy of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolScaleDownPolicy {
    /// The newest machine first.
    NewestFirst,
    /// The oldest machine first.
    OldestFirst,
    /// Only targets of a targeted removal.
    Explicit,
}

impl PoolScaleDownPolicy {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::NewestFirst => "NewestFirst",
            Self::OldestFirst => "OldestFirst",
            Self::Explicit => "Explicit",
        }
    }
}

/// Adds to a list.
pub(super) fn push_list_item(list: &mut Value, item: Value) {
    if let Some(list) = list.as_array_mut() {
        list.push(item);
    }
}
