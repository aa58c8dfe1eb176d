//! The setting of a pool: after how long without progress it is stalled.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use vmpool_api::annotations;

use crate::annotated_setting::AnnotatedSetting;
use crate::limits::clip_name;

/// On pools: the deadline in seconds, for example `1800`, for definitions of pools without the field.
pub const PROGRESS_DEADLINE: &str = annotations::PROGRESS_DEADLINE_SECONDS;
/// The field of the spec of pools. It overrides [`PROGRESS_DEADLINE`].
pub const PROGRESS_DEADLINE_FIELD: &str = "progressDeadlineSeconds";
/// The deadline of a pool without this setting, as for Deployments.
pub const DEFAULT_DEADLINE: Duration = Duration::from_mins(10);

/// A setting that cannot be read. The text says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text} is not a whole number of seconds from 1 to 2147483647")]
pub struct ProgressDeadlineError {
    /// The value, truncated.
    text: String,
}

/// Reads the value of [`PROGRESS_DEADLINE_FIELD`].
///
/// # Errors
/// The value is not a whole number of seconds, from 1 to the largest that the definitions of pools allow.
pub fn parse_progress_deadline(value: &Value) -> Result<Duration, ProgressDeadlineError> {
    let seconds = value.as_i64().and_then(|seconds| i32::try_from(seconds).ok());
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0);
    seconds.map(Duration::from_secs).ok_or_else(|| invalid_deadline(&value.to_string()))
}

/// Reads the value of [`PROGRESS_DEADLINE`].
///
/// # Errors
/// As [`parse_progress_deadline`]. A sign or a space is refused, too.
pub fn parse_progress_deadline_text(text: &str) -> Result<Duration, ProgressDeadlineError> {
    let is_number = text.bytes().all(|digit| digit.is_ascii_digit());
    let seconds = text.parse::<i32>().ok().filter(|_| is_number);
    let seconds = seconds.ok_or_else(|| invalid_deadline(text))?;
    parse_progress_deadline(&seconds.into())
}

fn invalid_deadline(text: &str) -> ProgressDeadlineError {
    ProgressDeadlineError { text: clip_name(text).to_owned() }
}

/// The setting as a field and as an annotation.
pub const PROGRESS_DEADLINE_SETTING: AnnotatedSetting<Duration, ProgressDeadlineError> = AnnotatedSetting {
    field: PROGRESS_DEADLINE_FIELD,
    annotation: PROGRESS_DEADLINE,
    parse_field: parse_progress_deadline,
    parse_annotation: parse_progress_deadline_text,
    consequence: ", so the default of 600 applies; correct or remove it",
    reason: |_| "it is not a whole number of seconds from 1",
    way_out: "use for example 1800, or remove it",
};

/// The deadline of a pool: the field of its spec, or else the annotation. An unreadable value counts as the
/// default, and adds a message to `invalid_settings`.
pub fn read_progress_deadline(
    field: &Value,
    annotations: Option<&BTreeMap<String, String>>,
    invalid_settings: &mut Vec<String>,
) -> Duration {
    PROGRESS_DEADLINE_SETTING.read_or(DEFAULT_DEADLINE, field, annotations, invalid_settings)
}
