//! The limits of an autoscaler, and which of them apply at a time.

use std::time::Duration;

use jiff::Timestamp;

use crate::demand::FreeMachines;
use crate::schedule::ScalingSchedule;

/// The delay of an autoscaler that sets none.
pub const DEFAULT_DELAY: Duration = Duration::from_mins(5);

/// How many machines a pool has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaLimits {
    /// The smallest number, as long as it does not exceed `max`.
    pub min: u32,
    /// The largest number, as long as no more are busy.
    pub max: u32,
    /// How many machines stay free.
    pub free: FreeMachines,
}

/// The pool of an autoscaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoscaledPool {
    /// API group of the pool. The version has no effect.
    pub group: String,
    /// Kind of the pool.
    pub kind: String,
    /// Name of the pool. Its namespace is that of the autoscaler.
    pub name: String,
}

/// What an autoscaler requests, as far as it can be read.
#[derive(Clone, Debug, PartialEq)]
pub struct AutoscalerSettings {
    /// The pool.
    pub pool: AutoscaledPool,
    /// The limits while no schedule is active.
    pub limits: ReplicaLimits,
    /// How long fewer machines must be enough.
    pub delay: Duration,
    /// The schedules that can be read, in their order.
    pub schedules: Vec<ScalingSchedule>,
    /// Whether the autoscaler is paused.
    pub paused: bool,
    /// What cannot be read, for users.
    pub problems: Vec<String>,
    /// Whether a field outside the schedules cannot be read. The controller then writes no number.
    pub is_unusable: bool,
}

/// The limits at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitsInEffect {
    /// The limits.
    pub limits: ReplicaLimits,
    /// The last schedule in the list that is active.
    pub schedule: Option<String>,
}

impl AutoscalerSettings {
    /// The limits at this time: each field has the value of the last active schedule that sets it.
    pub fn limits_at(&self, now: Timestamp) -> LimitsInEffect {
        let mut effect = LimitsInEffect { limits: self.limits, schedule: None };
        for schedule in self.schedules.iter().filter(|schedule| schedule.is_active(now)) {
            let changes = &schedule.changes;
            effect.limits.min = changes.min.unwrap_or(effect.limits.min);
            effect.limits.max = changes.max.unwrap_or(effect.limits.max);
            effect.limits.free = changes.free.unwrap_or(effect.limits.free);
            effect.schedule = Some(schedule.name.clone());
        }
        effect
    }

    /// The next time after this one at which the limits can change.
    pub fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        self.schedules.iter().filter_map(|schedule| schedule.next_change(now)).min()
    }
}

#[cfg(test)]
mod tests;
