//! The setting of a pool: for how long a machine may drain.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use vmpool_api::{GoDuration, annotations};

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
    let error = || DrainSettingError { text: clip_name(&value.to_string()).to_owned() };
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

/// The timeout of a pool: the field of its spec, or else the annotation. An unreadable value counts as the
/// default, and adds a message to `invalid_settings`.
pub fn read_drain(
    field: &Value,
    annotations: Option<&BTreeMap<String, String>>,
    invalid_settings: &mut Vec<String>,
) -> Duration {
    let annotation = annotations.and_then(|annotations| annotations.get(DRAIN));
    let (setting, read) = match (field, annotation) {
        (Value::Null, None) => return DEFAULT_TIMEOUT,
        (Value::Null, Some(text)) => (format!("annotation {DRAIN}"), parse_annotation(text)),
        (field, _) => (DRAIN_FIELD.to_owned(), parse_drain(field)),
    };
    read.unwrap_or_else(|error| {
        invalid_settings
            .push(format!("{setting}: {error}, so the default of 10m applies; correct or remove it"));
        DEFAULT_TIMEOUT
    })
}

/// Reads the value of [`DRAIN`].
///
/// # Errors
/// As [`parse_drain`], and if it is no JSON.
fn parse_annotation(text: &str) -> Result<Duration, DrainSettingError> {
    let error = || DrainSettingError { text: clip_name(text).to_owned() };
    parse_drain(&serde_json::from_str(text).map_err(|_| error())?).map_err(|_| error())
}
