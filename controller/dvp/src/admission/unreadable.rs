//! The refusal of a part that does not have the types of the API.

use serde_json::Value;
use vmpool_engine::admission::{RuleResult, refuse_value, shorten_text};

use super::rule::Rule;

/// Refuses the value at `path`. The message contains the error of the decoder.
pub(super) fn refuse_unreadable_value<T>(
    path: &str,
    value: &Value,
    error: &serde_json::Error,
) -> RuleResult<T> {
    // For a large value only its type, because it can contain data that must not be logged.
    let value = match value {
        Value::Object(map) => Value::from(format!("an object of {} fields", map.len())),
        Value::Array(list) => Value::from(format!("a list of {} entries", list.len())),
        other => other.clone(),
    };
    refuse_value(
        Rule::Unreadable,
        path,
        &value,
        format_args!("it cannot be read: {}", shorten_text(&error.to_string(), 200)),
        "correct it; kubectl explain virtualmachinepools.virtualization.deckhouse.io --recursive shows the types",
    )
}
