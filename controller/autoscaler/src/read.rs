//! Reads a stored autoscaler. What cannot be read is skipped and named.

use std::time::Duration;

use jiff::tz::TimeZone;
use serde_json::Value;
use vmpool_api::autoscaler::{
    PoolAutoscaler, PoolAutoscalerPoolRef, PoolAutoscalerSchedules, PoolAutoscalerSpec,
};
use vmpool_api::{GoDuration, IntOrPercent};

use crate::MAX_SCHEDULES;
use crate::cron::{CronError, CronExpression};
use crate::demand::FreeMachines;
use crate::limits::{AutoscaledPool, AutoscalerSettings, DEFAULT_DELAY, ReplicaLimits};
use crate::schedule::{LimitChanges, ScalingSchedule, find_time_zone};

/// The longest delay of a lowering.
pub const LONGEST_DELAY: Duration = Duration::from_hours(24);
/// The shortest time that a schedule is active.
pub const SHORTEST_SCHEDULE: Duration = Duration::from_mins(1);
/// The longest time that a schedule is active: 31 days.
pub const LONGEST_SCHEDULE: Duration = Duration::from_hours(744);
/// The greatest number of machines in a field.
pub const MOST_MACHINES: u32 = 100_000;
/// The largest percentage of free machines.
const MOST_PERCENT: u16 = 1000;

/// The path of the schedules.
const SCHEDULES: &str = "spec.schedules";

/// Why a field cannot be read. The text says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// The number of free machines.
    #[error(
        "must be a number of machines from 0 to {MOST_MACHINES}, or a percentage from 1% to {MOST_PERCENT}%"
    )]
    Free,
    /// A number of machines.
    #[error("must be a number from 0 to {MOST_MACHINES}")]
    Number,
    /// The delay of a lowering.
    #[error("must be a duration from 0s to 24h, such as 90s or 5m")]
    Delay,
    /// The duration of a schedule.
    #[error("must be a duration from 1m to 744h, such as 90m or 10h")]
    Duration,
    /// The start of a schedule.
    #[error("must be a cron expression such as \"30 7 * * MON-FRI\": {0}")]
    Start(#[from] CronError),
    /// The time zone of a schedule.
    #[error("must be a name of the IANA time zone database such as Europe/Berlin")]
    TimeZone,
}

/// A field that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldProblem {
    /// Path of the field in the object.
    pub field: String,
    /// Why.
    pub error: FieldError,
}

/// Reads the spec of an autoscaler. If a field outside the schedules cannot be read, the limits are unknown.
pub fn read_autoscaler(object: &PoolAutoscaler) -> AutoscalerSettings {
    let spec = &object.spec;
    let problems = find_field_problems(spec);
    let schedules = spec.schedules.iter().flatten().take(MAX_SCHEDULES);
    AutoscalerSettings {
        is_unusable: problems.iter().any(|problem| !problem.field.starts_with(SCHEDULES)),
        pool: read_pool_reference(&spec.pool_ref),
        limits: ReplicaLimits {
            min: read_number(spec.min_replicas.unwrap_or(0)).unwrap_or(0),
            max: read_number(spec.max_replicas).unwrap_or(0),
            free: read_free(spec.free.as_ref()).ok().flatten().unwrap_or(FreeMachines::Machines(0)),
        },
        delay: read_delay(spec).unwrap_or(DEFAULT_DELAY),
        schedules: schedules.filter_map(|schedule| read_schedule(schedule).ok()).collect(),
        paused: spec.paused.unwrap_or(false),
        problems: problems.iter().map(|problem| format!("{} {}", problem.field, problem.error)).collect(),
    }
}

/// Reads the reference to the pool.
pub fn read_pool_reference(reference: &PoolAutoscalerPoolRef) -> AutoscaledPool {
    AutoscaledPool {
        group: reference.api_version.split_once('/').map_or("", |(group, _)| group).to_owned(),
        kind: reference.kind.clone(),
        name: reference.name.clone(),
    }
}

/// The fields of a spec that cannot be read.
pub fn find_field_problems(spec: &PoolAutoscalerSpec) -> Vec<FieldProblem> {
    let mut problems = Vec::new();
    let mut check = |field: &str, error: Option<FieldError>| {
        problems.extend(error.map(|error| FieldProblem { field: field.to_owned(), error }));
    };
    check("spec.minReplicas", read_number(spec.min_replicas.unwrap_or(0)).err());
    check("spec.maxReplicas", read_number(spec.max_replicas).err());
    check("spec.free", read_free(spec.free.as_ref()).err());
    check("spec.scaleDown.delay", read_delay(spec).err());
    for (place, schedule) in spec.schedules.iter().flatten().take(MAX_SCHEDULES).enumerate() {
        problems.extend(read_schedule(schedule).err().map(|problem| FieldProblem {
            field: format!("{SCHEDULES}[{place}].{}", problem.field),
            error: problem.error,
        }));
    }
    problems
}

/// Reads a schedule. The error names the first field that cannot be read.
fn read_schedule(schedule: &PoolAutoscalerSchedules) -> Result<ScalingSchedule, FieldProblem> {
    let named = |field: &str| {
        let field = field.to_owned();
        move |error| FieldProblem { field, error }
    };
    let number = |value: Option<i32>, field: &str| value.map(read_number).transpose().map_err(named(field));
    let start = CronExpression::parse(&schedule.start).map_err(FieldError::from);
    let allowed = SHORTEST_SCHEDULE..=LONGEST_SCHEDULE;
    let duration = parse_duration(&schedule.duration).filter(|duration| allowed.contains(duration));
    Ok(ScalingSchedule {
        name: schedule.name.clone(),
        start: start.map_err(named("start"))?,
        duration: duration.ok_or(FieldError::Duration).map_err(named("duration"))?,
        zone: read_zone(schedule.time_zone.as_deref()).map_err(named("timeZone"))?,
        changes: LimitChanges {
            min: number(schedule.min_replicas, "minReplicas")?,
            max: number(schedule.max_replicas, "maxReplicas")?,
            free: read_free(schedule.free.as_ref()).map_err(named("free"))?,
        },
    })
}

fn read_zone(name: Option<&str>) -> Result<TimeZone, FieldError> {
    name.map_or(Some(TimeZone::UTC), find_time_zone).ok_or(FieldError::TimeZone)
}

fn read_delay(spec: &PoolAutoscalerSpec) -> Result<Duration, FieldError> {
    let Some(text) = spec.scale_down.as_ref().and_then(|scale_down| scale_down.delay.as_deref()) else {
        return Ok(DEFAULT_DELAY);
    };
    parse_duration(text).filter(|delay| *delay <= LONGEST_DELAY).ok_or(FieldError::Delay)
}

fn parse_duration(text: &str) -> Option<Duration> {
    text.parse::<GoDuration>().ok().and_then(GoDuration::to_std)
}

fn read_number(number: i32) -> Result<u32, FieldError> {
    u32::try_from(number).ok().filter(|number| *number <= MOST_MACHINES).ok_or(FieldError::Number)
}

fn read_free(free: Option<&IntOrPercent>) -> Result<Option<FreeMachines>, FieldError> {
    let Some(free) = free else { return Ok(None) };
    let read = match free.as_json() {
        Value::Number(number) => {
            let number = number.as_u64().and_then(|number| u32::try_from(number).ok());
            number.filter(|number| *number <= MOST_MACHINES).map(FreeMachines::Machines)
        }
        Value::String(text) => parse_percentage(text).map(FreeMachines::Percent),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    read.map(Some).ok_or(FieldError::Free)
}

fn parse_percentage(text: &str) -> Option<u16> {
    let digits = text.strip_suffix('%')?;
    let is_number = digits.bytes().all(|digit| digit.is_ascii_digit()) && !digits.starts_with('0');
    let percent = is_number.then(|| digits.parse().ok()).flatten()?;
    (1..=MOST_PERCENT).contains(&percent).then_some(percent)
}

#[cfg(test)]
mod tests;
