//! When a pool recycles machines, read independently of the engine.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use vmpool_api::GoDuration;

use crate::object::JsonObject;

/// On pools, the setting as JSON; on machines, a request.
const RECYCLE: &str = "vmpool.dev/recycle";
/// How often a machine was claimed.
const CLAIMS: &str = "vmpool.dev/claims";
/// No lifetime is shorter.
const SHORTEST: Duration = Duration::from_mins(10);
/// Times of objects have whole seconds.
const ROUNDING: Duration = Duration::from_secs(1);

/// Limits after which machines are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecycleLimits {
    /// The shortest age; `None` without one.
    age: Option<Duration>,
    /// The number of claims; `None` without one.
    claims: Option<u64>,
}

impl RecycleLimits {
    /// The limits of a pool; `None` without any, or if they cannot be read.
    pub(super) fn of(pool: &JsonObject) -> Option<Self> {
        let setting = match pool.at("/spec/recycle") {
            Value::Null => serde_json::from_str(pool.annotation(RECYCLE)?).ok()?,
            field => field.clone(),
        };
        let lifetime = setting["maxLifetime"].as_str();
        let lifetime = lifetime.and_then(|text| text.parse::<GoDuration>().ok()?.to_std());
        let jitter = setting["jitter"].as_u64().unwrap_or(10);
        let kept = u32::try_from(100_u64.saturating_sub(jitter)).unwrap_or_default();
        let age = lifetime.map(|lifetime| (lifetime / 100 * kept).max(SHORTEST));
        Some(Self { age, claims: setting["maxClaims"].as_u64() })
    }

    /// Whether the machine is too old at this time, or was claimed often enough.
    pub(super) fn are_reached(&self, machine: &JsonObject, now: Timestamp) -> bool {
        let created: Option<Timestamp> = machine.text("/metadata/creationTimestamp").parse().ok();
        let age = created.map(|created| Duration::try_from(now.duration_since(created)).unwrap_or_default());
        let claims = machine.annotation(CLAIMS).and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
        let is_old = self.age.zip(age).is_some_and(|(limit, age)| age + ROUNDING >= limit);
        is_old || self.claims.is_some_and(|limit| claims >= limit)
    }
}

/// Whether a user requested the replacement of the machine.
pub(super) fn is_replacement_requested(machine: &JsonObject) -> bool {
    machine.annotation(RECYCLE).is_some()
}
