//! The setting of a pool: for how long a machine may drain.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use vmpool_api::{GoDuration, annotations};

use crate::annotated_setting::{AnnotatedSetting, parse_json_annotation};
use crate::limits::clip_name;

/// On pools: [`DRAIN_FIELD`] as JSON, for definitions of pools without that field.
pub const DRAIN: &str = annotations::DRAIN;
/// The field of the spec of pools. It overrides [`DRAIN`].
pub const DRAIN_FIELD: &str = "drain";
/// The timeout of a pool without this setting.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(10);
/// The largest timeout.
pub const LONGEST_TIMEOUT: Duration = Duration::from_hours(24);

/// A setting that cannot be read. The text says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text} is not an object with timeout, a duration from 0s to 24h, for example {{\"timeout\": \"10m\"}}"
)]
pub struct DrainSettingError {
    /// The value, truncated.
    text: String,
}

/// Reads the value of [`DRAIN_FIELD`]: the timeout. With zero, no machine drains.
///
/// # Errors
/// The value is not an object with `timeout`, or that is not a duration from 0 to [`LONGEST_TIMEOUT`].
pub fn parse_drain(value: &Value) -> Result<Duration, DrainSettingError> {
    let error = || quote_unreadable(&value.to_string());
    let fields = value.as_object().ok_or_else(error)?;
    if fields.keys().any(|key| key != "timeout") {
        return Err(error());
    }
    match fields.get("timeout") {
        None | Some(Value::Null) => Ok(DEFAULT_TIMEOUT),
        Some(Value::String(text)) => {
            let parsed = text.parse::<GoDuration>().ok().and_then(GoDuration::to_std);
            parsed.filter(|timeout| *timeout <= LONGEST_TIMEOUT).ok_or_else(error)
        }
        Some(_) => Err(error()),
    }
}

/// The setting as a field and as an annotation.
pub const DRAIN_SETTING: AnnotatedSetting<Duration, DrainSettingError> = AnnotatedSetting {
    field: DRAIN_FIELD,
    annotation: DRAIN,
    parse_field: parse_drain,
    parse_annotation: |text| parse_json_annotation(text, parse_drain, quote_unreadable),
    consequence: ", so the default of 10m applies; correct or remove it",
    reason: |_| "it is not an object with timeout, a duration from 0s to 24h",
    way_out: "use for example {\"timeout\": \"10m\"}, or remove it",
};

/// The timeout of a pool: the field of its spec, or else the annotation. An unreadable value counts as the
/// default, and adds a message to `invalid_settings`.
pub fn read_drain(
    field: &Value,
    annotations: Option<&BTreeMap<String, String>>,
    invalid_settings: &mut Vec<String>,
) -> Duration {
    DRAIN_SETTING.read_or(DEFAULT_TIMEOUT, field, annotations, invalid_settings)
}

fn quote_unreadable(text: &str) -> DrainSettingError {
    DrainSettingError { text: clip_name(text).to_owned() }
}
