//! Replays a recorded demand against the decision of an autoscaler.
//!
//! The model is simple: each claim waits for a free machine in the order of arrival, holds it for its
//! duration, and the machine is free again afterwards. A new machine is ready after a fixed time. Free
//! machines leave at once when the replicas are lowered; a machine that starts leaves first.

mod svg;

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::decision::{Explanation, ScaleDecision, decide_scale};
use crate::demand::Demand;
use crate::history::{DesiredHistory, Moment};
use crate::limits::AutoscalerSettings;

pub use svg::render_svg;

/// The longest demand that is replayed: 62 days.
pub const LONGEST_REPLAY: Duration = Duration::from_hours(62 * 24);
/// The time between two decisions.
const STEP: Duration = Duration::from_secs(1);

/// A claim of a recorded demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedClaim {
    /// When the claim is made.
    pub at: Timestamp,
    /// How long its machine is busy.
    pub duration: Duration,
}

/// Why a demand cannot be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// There is no claim.
    #[error("the history contains no claim")]
    Empty,
    /// The demand is too long.
    #[error("the history is longer than 62 days")]
    TooLong,
}

/// The numbers at a time, as a plot shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplaySample {
    /// Seconds since the begin.
    pub second: u64,
    /// Replicas of the pool.
    pub replicas: u32,
    /// Busy machines.
    pub busy: u32,
    /// Claims without a machine.
    pub waiting: u32,
}

/// What a replay shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayResult {
    /// Number of claims.
    pub claims: usize,
    /// Number of claims that got no machine until the end.
    pub unanswered: usize,
    /// Half of the claims wait at most this many seconds.
    pub wait_seconds_p50: u64,
    /// 95 of 100 claims wait at most this many seconds.
    pub wait_seconds_p95: u64,
    /// Hours in which machines existed and no claim held them.
    pub idle_machine_hours: f64,
    /// Number of raises.
    pub raises: u32,
    /// Number of lowerings.
    pub lowerings: u32,
    /// The largest number of replicas.
    pub most_replicas: u32,
    /// The changes of the numbers.
    pub samples: Vec<ReplaySample>,
}

/// The model of a pool.
struct ReplayedPool {
    replicas: u32,
    /// The seconds at which starting machines are ready.
    starting: VecDeque<u64>,
    free: u32,
    /// The seconds at which busy machines are free again.
    busy: Vec<u64>,
    /// The seconds at which waiting claims were made, and how long they hold a machine.
    waiting: VecDeque<(u64, u64)>,
    waits: Vec<u64>,
}

impl ReplayedPool {
    /// What happens until this second.
    fn advance(&mut self, second: u64) {
        while self.starting.pop_front_if(|ready| *ready <= second).is_some() {
            self.free += 1;
        }
        let before = self.busy.len();
        self.busy.retain(|end| *end > second);
        self.free += count_as_u32(before - self.busy.len());
        while self.free > 0
            && let Some((made, duration)) = self.waiting.pop_front()
        {
            self.free -= 1;
            self.busy.push(second + duration);
            self.waits.push(second - made);
        }
    }

    /// Sets the replicas. A machine that is missing starts, and surplus ones leave.
    fn scale(&mut self, replicas: u32, ready: u64) {
        self.replicas = replicas;
        while self.machines() < replicas {
            self.starting.push_back(ready);
        }
        while self.machines() > replicas && self.starting.pop_back().is_some() {}
        self.free -= self.machines().saturating_sub(replicas).min(self.free);
    }

    fn machines(&self) -> u32 {
        self.free + count_as_u32(self.starting.len()) + count_as_u32(self.busy.len())
    }

    fn demand(&self) -> Demand {
        Demand { busy: count_as_u32(self.busy.len()), waiting: count_as_u32(self.waiting.len()) }
    }
}

fn count_as_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Replays claims, which are sorted by their time, in a pool without machines.
///
/// # Errors
/// [`ReplayError`].
pub fn replay_demand(
    settings: &AutoscalerSettings,
    claims: &[RecordedClaim],
    start_time: Duration,
) -> Result<ReplayResult, ReplayError> {
    let (Some(first), Some(last)) = (claims.first(), claims.last()) else { return Err(ReplayError::Empty) };
    let begin = first.at;
    let length = Duration::try_from(last.at.duration_since(begin)).unwrap_or_default();
    let end = length + claims.iter().map(|claim| claim.duration).max().unwrap_or_default();
    if end > LONGEST_REPLAY {
        return Err(ReplayError::TooLong);
    }
    let mut replay = Replay::begin(settings, begin, start_time);
    let mut next = 0;
    // The last claim may wait for the start of a machine, and the last machine leaves after the delay.
    let seconds = (end + start_time + settings.delay).as_secs() + 1;
    for second in 0..=seconds {
        while let Some(claim) = claims.get(next).filter(|claim| second_of(begin, claim.at) <= second) {
            replay.pool.waiting.push_back((second, claim.duration.as_secs()));
            next += 1;
        }
        replay.step(second);
    }
    Ok(replay.finish(claims.len()))
}

fn second_of(begin: Timestamp, at: Timestamp) -> u64 {
    Duration::try_from(at.duration_since(begin)).unwrap_or_default().as_secs()
}

/// A replay in progress.
struct Replay<'s> {
    settings: &'s AutoscalerSettings,
    begin: Timestamp,
    start_time: Duration,
    pool: ReplayedPool,
    history: DesiredHistory,
    effect: crate::limits::LimitsInEffect,
    /// The time until which the limits in effect do not change.
    until: Option<Timestamp>,
    idle_seconds: u64,
    raises: u32,
    lowerings: u32,
    samples: Vec<ReplaySample>,
}

impl<'s> Replay<'s> {
    fn begin(settings: &'s AutoscalerSettings, begin: Timestamp, start_time: Duration) -> Self {
        let pool = ReplayedPool {
            replicas: 0,
            starting: VecDeque::new(),
            free: 0,
            busy: Vec::new(),
            waiting: VecDeque::new(),
            waits: Vec::new(),
        };
        Self {
            settings,
            begin,
            start_time,
            pool,
            history: DesiredHistory::begin(Moment { now: begin, uptime: Duration::ZERO }),
            effect: settings.limits_at(begin),
            until: settings.next_change(begin),
            idle_seconds: 0,
            raises: 0,
            lowerings: 0,
            samples: Vec::new(),
        }
    }

    /// One second: machines and claims, and then the decision.
    fn step(&mut self, second: u64) {
        self.pool.advance(second);
        let elapsed = STEP * u32::try_from(second).unwrap_or(u32::MAX);
        let now = self.begin.checked_add(elapsed).unwrap_or(Timestamp::MAX);
        if self.until.is_some_and(|until| until <= now) {
            self.effect = self.settings.limits_at(now);
            self.until = self.settings.next_change(now);
        }
        let moment = Moment { now, uptime: elapsed };
        let demand = self.pool.demand();
        let explained = Explanation::decide(self.effect.clone(), demand, &mut self.history, moment);
        let (replicas, delay) = (self.pool.replicas, self.settings.delay);
        match decide_scale(replicas, explained.desired, &mut self.history, delay) {
            ScaleDecision::Keep => {}
            ScaleDecision::Raise(to) => {
                self.raises += 1;
                self.pool.scale(to, second + self.start_time.as_secs());
            }
            ScaleDecision::Lower(to) => {
                self.lowerings += 1;
                self.pool.scale(to, second);
            }
        }
        self.idle_seconds += u64::from(self.pool.machines().saturating_sub(demand.busy));
        self.sample(second);
    }

    fn sample(&mut self, second: u64) {
        let Demand { busy, waiting } = self.pool.demand();
        let sample = ReplaySample { second, replicas: self.pool.replicas, busy, waiting };
        let is_new = self.samples.last().is_none_or(|last| ReplaySample { second, ..*last } != sample);
        self.samples.extend(is_new.then_some(sample));
    }

    fn finish(mut self, claims: usize) -> ReplayResult {
        self.pool.waits.sort_unstable();
        let waits = &self.pool.waits;
        let percentile = |percent: usize| {
            let place = (waits.len() * percent).div_ceil(100).saturating_sub(1);
            waits.get(place).copied().unwrap_or(0)
        };
        ReplayResult {
            claims,
            unanswered: self.pool.waiting.len(),
            wait_seconds_p50: percentile(50),
            wait_seconds_p95: percentile(95),
            idle_machine_hours: Duration::from_secs(self.idle_seconds).as_secs_f64() / 3600.0,
            raises: self.raises,
            lowerings: self.lowerings,
            most_replicas: self.samples.iter().map(|sample| sample.replicas).max().unwrap_or(0),
            samples: self.samples,
        }
    }
}

#[cfg(test)]
mod tests;
