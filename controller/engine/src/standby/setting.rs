//! The setting of a pool: how many standby machines it has, and how they warm up.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use vmpool_api::GoDuration;

use super::state::STANDBY;
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
    read_settings(value).ok_or_else(|| StandbySettingError { text: clip_name(&value.to_string()).to_owned() })
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

/// The setting of a pool: the field of its spec, or else the annotation. `None` for an unreadable value,
/// which adds a message to `invalid_settings`: the controller then leaves all standby machines.
pub fn read_standby(
    field: &Value,
    annotations: Option<&BTreeMap<String, String>>,
    invalid_settings: &mut Vec<String>,
) -> Option<StandbySettings> {
    let annotation = annotations.and_then(|annotations| annotations.get(STANDBY));
    let (setting, read) = match (field, annotation) {
        (Value::Null, None) => return Some(StandbySettings::NONE),
        (Value::Null, Some(text)) => (format!("annotation {STANDBY}"), parse_annotation(text)),
        (field, _) => (STANDBY_FIELD.to_owned(), parse_standby(field)),
    };
    read.map_err(|error| {
        invalid_settings.push(format!(
            "{setting}: {error}; until it is corrected or removed, the controller creates, activates and deletes no \
             standby machine"
        ));
    })
    .ok()
}

/// The message about a pool that cannot have standby machines.
pub fn describe_standby_obstacle(obstacle: &str) -> String {
    format!(
        "{STANDBY_FIELD}: {obstacle}, so the controller creates, activates and deletes no standby machine; correct it, \
         or set standby.replicas to 0"
    )
}

/// Reads the value of the annotation [`STANDBY`] of a pool.
///
/// # Errors
/// As [`parse_standby`], and if it is no JSON.
fn parse_annotation(text: &str) -> Result<StandbySettings, StandbySettingError> {
    let error = || StandbySettingError { text: clip_name(text).to_owned() };
    parse_standby(&serde_json::from_str(text).map_err(|_| error())?).map_err(|_| error())
}
