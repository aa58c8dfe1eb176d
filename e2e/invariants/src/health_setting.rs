//! The setting of healing of a pool, read independently of the engine.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;
use vmpool_api::GoDuration;

use crate::object::JsonObject;

/// The annotation of pools with the setting, for definitions that drop the field.
const ANNOTATION: &str = "vmpool.dev/healing";

/// When the controller replaces machines that are not ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HealthSetting {
    pub(super) not_ready_for: SignedDuration,
    pub(super) start_timeout: SignedDuration,
    pub(super) max_unhealthy: usize,
    /// After which time a machine that is being deleted counts as gone; `None` if it never does.
    pub(super) replace_stuck_after: Option<SignedDuration>,
}

/// The setting; `None` if healing is off or cannot be read.
pub(super) fn health_setting(pool: &JsonObject, desired: usize) -> Option<HealthSetting> {
    let setting = match pool.at("/spec/healing") {
        Value::Null => serde_json::from_str(pool.annotation(ANNOTATION)?).ok()?,
        field => field.clone(),
    };
    setting.as_object()?;
    let stuck = read_duration(&setting["replaceStuckAfter"], 5)?;
    let preserves = !["", "Disabled"]
        .contains(&pool.text("/spec/scaleInStrategy/proactive/statePreservation"))
        || !["", "Disabled"].contains(&pool.text("/spec/scaleInStrategy/opportunistic/statePreservation"));
    Some(HealthSetting {
        not_ready_for: read_duration(&setting["notReadyFor"], 5)?,
        start_timeout: read_duration(&setting["startTimeout"], 30)?,
        max_unhealthy: read_ceiling(&setting["maxUnhealthy"], desired)?,
        replace_stuck_after: (!preserves).then_some(stuck),
    })
}

/// A duration, or the default in minutes.
fn read_duration(value: &Value, default: i64) -> Option<SignedDuration> {
    match value {
        Value::Null => Some(SignedDuration::from_mins(default)),
        value => {
            let duration: Duration = value.as_str()?.parse::<GoDuration>().ok()?.to_std()?;
            SignedDuration::try_from(duration).ok()
        }
    }
}

fn read_ceiling(value: &Value, desired: usize) -> Option<usize> {
    let percent = |percent: usize| desired.saturating_mul(percent).div_ceil(100).max(1);
    match value {
        Value::Null => Some(percent(40)),
        Value::String(text) => Some(percent(text.strip_suffix('%')?.parse().ok()?)),
        number => usize::try_from(number.as_u64()?).ok(),
    }
}
