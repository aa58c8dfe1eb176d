//! The setting of a pool: how many standby machines it has, and how they warm up.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use vmpool_api::GoDuration;

use super::state::STANDBY;
use crate::annotated_setting::{AnnotatedSetting, parse_json_annotation};
use crate::limits::clip_name;

/// The field of the spec of pools. It overrides the annotation [`STANDBY`], which has the same JSON.
pub const STANDBY_FIELD: &str = "standby";
/// The delay of a pool without this setting.
const DEFAULT_DELAY: Duration = Duration::from_mins(1);
/// The longest delay.
pub const LONGEST_WARM_UP_DELAY: Duration = Duration::from_hours(1);

/// Whether a standby machine runs before it is stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WarmUp {
    /// It runs until it has been ready for the delay.
    #[default]
    FirstReady,
    /// It is created stopped.
    None,
}

/// The standby machines of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandbySettings {
    /// Their desired number.
    pub replicas: usize,
    /// Whether they run first.
    pub warm_up: WarmUp,
    /// How long they must have been ready before they are stopped.
    pub delay: Duration,
}

impl StandbySettings {
    /// No standby machines.
    pub const NONE: Self = Self { replicas: 0, warm_up: WarmUp::FirstReady, delay: DEFAULT_DELAY };
}

/// A setting that cannot be read. The text says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text} is not an object with replicas, a number from 0, and optionally warmUp, FirstReady or None, and \
     warmUpDelay, a duration from 0s to 1h, for example {{\"replicas\": 2}}"
)]
pub struct StandbySettingError {
    /// The value, truncated.
    text: String,
}

/// Reads the value of [`STANDBY_FIELD`].
///
/// # Errors
/// The value is not an object with `replicas`, or has other fields or values than [`StandbySettings`].
pub fn parse_standby(value: &Value) -> Result<StandbySettings, StandbySettingError> {
    read_settings(value).ok_or_else(|| quote_unreadable(&value.to_string()))
}

fn read_settings(value: &Value) -> Option<StandbySettings> {
    let fields = value.as_object()?;
    if fields.keys().any(|key| !["replicas", "warmUp", "warmUpDelay"].contains(&key.as_str())) {
        return None;
    }
    let replicas = i32::try_from(fields.get("replicas")?.as_i64()?).ok()?;
    let warm_up = match fields.get("warmUp") {
        None | Some(Value::Null) => WarmUp::FirstReady,
        Some(Value::String(text)) if text == "FirstReady" => WarmUp::FirstReady,
        Some(Value::String(text)) if text == "None" => WarmUp::None,
        Some(_) => return None,
    };
    let delay = match fields.get("warmUpDelay") {
        None | Some(Value::Null) => DEFAULT_DELAY,
        Some(Value::String(text)) => text.parse::<GoDuration>().ok().and_then(GoDuration::to_std)?,
        Some(_) => return None,
    };
    let replicas = usize::try_from(replicas).ok()?;
    (delay <= LONGEST_WARM_UP_DELAY).then_some(StandbySettings { replicas, warm_up, delay })
}

/// The setting as a field and as an annotation.
pub const STANDBY_SETTING: AnnotatedSetting<StandbySettings, StandbySettingError> = AnnotatedSetting {
    field: STANDBY_FIELD,
    annotation: STANDBY,
    parse_field: parse_standby,
    parse_annotation: |text| parse_json_annotation(text, parse_standby, quote_unreadable),
    consequence: "; until it is corrected or removed, the controller creates, activates and deletes no standby machine",
    reason: |_| "it is not an object with replicas from 0, warmUp FirstReady or None, and warmUpDelay from 0s to 1h",
    way_out: "use for example {\"replicas\": 2}, or remove it",
};

/// The setting of a pool: the field of its spec, or else the annotation. `None` for an unreadable value,
/// which adds a message to `invalid_settings`: the controller then leaves all standby machines.
pub fn read_standby(
    field: &Value,
    annotations: Option<&BTreeMap<String, String>>,
    invalid_settings: &mut Vec<String>,
) -> Option<StandbySettings> {
    let read = STANDBY_SETTING.read(field, annotations, invalid_settings);
    read.ok().map(|standby| standby.unwrap_or(StandbySettings::NONE))
}

/// The message about a pool that cannot have standby machines.
pub fn describe_standby_obstacle(obstacle: &str) -> String {
    format!(
        "{STANDBY_FIELD}: {obstacle}, so the controller creates, activates and deletes no standby machine; correct it, \
         or set standby.replicas to 0"
    )
}

fn quote_unreadable(text: &str) -> StandbySettingError {
    StandbySettingError { text: clip_name(text).to_owned() }
}
