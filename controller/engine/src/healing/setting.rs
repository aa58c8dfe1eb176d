//! The setting of a pool: when healing replaces machines that are not ready, and how many.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};
use vmpool_api::{GoDuration, Share, annotations};

use crate::annotated_setting::{AnnotatedSetting, parse_json_annotation};
use crate::limits::clip_name;

/// On pools: [`HEALING_FIELD`] as JSON, for definitions of pools without that field.
pub const HEALING: &str = annotations::HEALING;
/// The field of the spec of pools. It overrides [`HEALING`].
pub const HEALING_FIELD: &str = "healing";
/// How long a machine may take from its start until it is ready for the first time, in a pool without this
/// setting.
pub const START_TIMEOUT: Duration = Duration::from_mins(30);
/// The limits of all durations of the setting.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_hours(24);
const FIELDS: [&str; 4] = ["notReadyFor", "startTimeout", "replaceStuckAfter", "maxUnhealthy"];

/// When healing replaces machines that are not ready, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealingPolicy {
    /// How long a machine must not have been ready.
    pub not_ready_for: Duration,
    /// How long a machine may take from its start until it is ready for the first time. A younger machine is
    /// not replaced.
    pub start_timeout: Duration,
    /// The largest number of machines that may be unhealthy or being replaced. With more, no machine is
    /// replaced, because their common cause is probably not in the machines.
    pub max_unhealthy: Share,
    /// After which time a machine that is still being deleted counts as gone.
    pub replace_stuck_after: Duration,
}

impl Default for HealingPolicy {
    fn default() -> Self {
        Self {
            not_ready_for: Duration::from_mins(5),
            start_timeout: START_TIMEOUT,
            max_unhealthy: Share::Percent(40),
            replace_stuck_after: Duration::from_mins(5),
        }
    }
}

impl HealingPolicy {
    /// [`HealingPolicy::max_unhealthy`] of a pool with this number of desired machines: at least one.
    pub fn ceiling(&self, desired: usize) -> usize {
        match self.max_unhealthy {
            Share::Machines(machines) => usize::try_from(machines).unwrap_or(usize::MAX),
            Share::Percent(percent) => desired.saturating_mul(usize::from(percent)).div_ceil(100),
        }
        .max(1)
    }
}

/// A setting that cannot be read. The text says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text} is not an object with notReadyFor, startTimeout and replaceStuckAfter, durations from 1s to 24h, and \
     maxUnhealthy, a number from 1 or a percentage, for example {{\"notReadyFor\": \"5m\", \"maxUnhealthy\": \"40%\"}}"
)]
pub struct HealingSettingError {
    /// The value, truncated.
    text: String,
}

/// Reads the value of [`HEALING_FIELD`]. Missing fields have their defaults.
///
/// # Errors
/// The value is no object, has other fields, or one of its values is out of range.
pub fn parse_healing(value: &Value) -> Result<HealingPolicy, HealingSettingError> {
    let read = value.as_object().and_then(read_fields);
    read.ok_or_else(|| quote_unreadable(&value.to_string()))
}

fn read_fields(fields: &Map<String, Value>) -> Option<HealingPolicy> {
    let mut policy = HealingPolicy::default();
    for (name, value) in fields {
        match name.as_str() {
            name if !FIELDS.contains(&name) => return None,
            _ if value.is_null() => {}
            "notReadyFor" => policy.not_ready_for = read_duration(value)?,
            "startTimeout" => policy.start_timeout = read_duration(value)?,
            "replaceStuckAfter" => policy.replace_stuck_after = read_duration(value)?,
            _ => policy.max_unhealthy = Share::from_json(value).ok()?,
        }
    }
    Some(policy)
}

fn read_duration(value: &Value) -> Option<Duration> {
    let duration = value.as_str()?.parse::<GoDuration>().ok()?.to_std()?;
    (SHORTEST..=LONGEST).contains(&duration).then_some(duration)
}

/// The setting as a field and as an annotation.
pub const HEALING_SETTING: AnnotatedSetting<HealingPolicy, HealingSettingError> = AnnotatedSetting {
    field: HEALING_FIELD,
    annotation: HEALING,
    parse_field: parse_healing,
    parse_annotation: |text| parse_json_annotation(text, parse_healing, quote_unreadable),
    consequence: ", so healing is off; correct or remove it",
    reason: |_| "it is not an object with durations from 1s to 24h and maxUnhealthy, a number from 1 or a percentage",
    way_out: "use for example {\"notReadyFor\": \"5m\", \"maxUnhealthy\": \"40%\"}, or remove it",
};

/// The setting of a pool: the field of its spec, or else the annotation; `None` if healing is off. An
/// unreadable value turns healing off, and adds a message to `invalid_settings`.
pub fn read_healing(
    field: &Value,
    annotations: Option<&BTreeMap<String, String>>,
    invalid_settings: &mut Vec<String>,
) -> Option<HealingPolicy> {
    HEALING_SETTING.read(field, annotations, invalid_settings).ok().flatten()
}

fn quote_unreadable(text: &str) -> HealingSettingError {
    HealingSettingError { text: clip_name(text).to_owned() }
}

#[cfg(test)]
mod tests;
