//! Replays a recorded demand against the decision of an autoscaler, or against another policy.
//!
//! The model is simple: each claim waits for a free machine in the order of arrival, holds it for its
//! duration, and the machine is free again afterwards. A new machine is ready after a fixed time. Free
//! machines leave at once when the replicas are lowered; a machine that starts leaves first.

mod demand_file;
mod policy;
mod pool;
mod svg;

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use self::policy::AutoscalerPolicy;
use self::pool::ReplayedPool;
use crate::demand::Demand;
use crate::history::Moment;
use crate::limits::AutoscalerSettings;

pub use demand_file::{RecordedClaim, RecordedClaimsError, parse_recorded_claims};
pub use policy::{ReplayedSecond, ReplicaPolicy};
pub use svg::render_svg;

/// The longest demand that is replayed: 62 days.
pub const LONGEST_REPLAY: Duration = Duration::from_hours(62 * 24);

/// What is replayed.
#[derive(Clone, Copy, Debug)]
pub struct ReplayedDemand<'c> {
    /// The claims, sorted by their time.
    pub claims: &'c [RecordedClaim],
    /// How long a new machine takes until it is ready.
    pub start_time: Duration,
    /// When the replay begins; `None` begins at the first claim.
    pub from: Option<Timestamp>,
    /// When the replay ends; `None` ends when all claims have ended and the pool has shrunk.
    pub until: Option<Timestamp>,
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
    /// The replay begins after the first claim, or ends before the last one.
    #[error("the replay must begin before the first claim and end after the last one")]
    Outside,
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

/// Replays a demand against an autoscaler, in a pool without machines.
///
/// # Errors
/// [`ReplayError`].
pub fn replay_demand(
    settings: &AutoscalerSettings,
    demand: &ReplayedDemand<'_>,
) -> Result<ReplayResult, ReplayError> {
    let begin = demand.begin()?;
    let moment = Moment { now: begin, uptime: Duration::ZERO };
    replay_policy(&mut AutoscalerPolicy::begin(settings, moment), demand, settings.delay)
}

/// Replays a demand against a policy, in a pool without machines. Without an end of the demand, the replay
/// lasts `tail` longer than all claims.
///
/// # Errors
/// [`ReplayError`].
pub fn replay_policy(
    policy: &mut impl ReplicaPolicy,
    demand: &ReplayedDemand<'_>,
    tail: Duration,
) -> Result<ReplayResult, ReplayError> {
    let begin = demand.begin()?;
    let seconds = demand.seconds(begin, tail)?;
    let mut replay = Replay::begin(begin, demand.start_time.as_secs());
    let mut next = 0;
    for second in 0..=seconds {
        while let Some(claim) =
            demand.claims.get(next).filter(|claim| seconds_since(begin, claim.at) <= second)
        {
            replay.pool.claim(second, claim.duration.as_secs());
            next += 1;
        }
        replay.step(second, policy);
    }
    Ok(replay.finish(demand.claims.len()))
}

impl ReplayedDemand<'_> {
    fn begin(&self) -> Result<Timestamp, ReplayError> {
        let first = self.claims.first().ok_or(ReplayError::Empty)?.at;
        let begin = self.from.unwrap_or(first);
        if begin <= first { Ok(begin) } else { Err(ReplayError::Outside) }
    }

    /// How many seconds the replay lasts.
    fn seconds(&self, begin: Timestamp, tail: Duration) -> Result<u64, ReplayError> {
        let last = self.claims.last().ok_or(ReplayError::Empty)?.at;
        let longest = self.claims.iter().map(|claim| claim.duration).max().unwrap_or_default();
        let until_last = Duration::from_secs(seconds_since(begin, last));
        let seconds = match self.until {
            Some(until) if until < last => return Err(ReplayError::Outside),
            Some(until) => seconds_since(begin, until),
            // The last claim may wait for the start of a machine, and the last machine leaves after the
            // delay.
            None => [longest, self.start_time, tail]
                .into_iter()
                .fold(until_last, Duration::saturating_add)
                .as_secs()
                .saturating_add(1),
        };
        let is_short = until_last.saturating_add(longest) <= LONGEST_REPLAY
            && self.start_time <= LONGEST_REPLAY
            && Duration::from_secs(seconds) <= LONGEST_REPLAY.saturating_mul(3);
        if is_short { Ok(seconds) } else { Err(ReplayError::TooLong) }
    }
}

fn seconds_since(begin: Timestamp, at: Timestamp) -> u64 {
    Duration::try_from(at.duration_since(begin)).unwrap_or_default().as_secs()
}

/// A replay in progress.
struct Replay {
    begin: Timestamp,
    start_seconds: u64,
    pool: ReplayedPool,
    idle_seconds: u64,
    raises: u32,
    lowerings: u32,
    samples: Vec<ReplaySample>,
}

impl Replay {
    fn begin(begin: Timestamp, start_seconds: u64) -> Self {
        Self {
            begin,
            start_seconds,
            pool: ReplayedPool::default(),
            idle_seconds: 0,
            raises: 0,
            lowerings: 0,
            samples: Vec::new(),
        }
    }

    /// One second: machines and claims, and then the decision.
    fn step(&mut self, second: u64, policy: &mut impl ReplicaPolicy) {
        self.pool.advance(second);
        let seen = self.show(second);
        if let Some(to) = policy.decide(&seen) {
            self.raises += u32::from(to > seen.replicas);
            self.lowerings += u32::from(to < seen.replicas);
            self.pool.scale(to, second + self.start_seconds);
        }
        self.idle_seconds += u64::from(self.pool.machines().saturating_sub(seen.demand.busy));
        self.sample(second);
    }

    fn show(&self, second: u64) -> ReplayedSecond {
        let uptime = Duration::from_secs(second);
        let now = self.begin.checked_add(uptime).unwrap_or(Timestamp::MAX);
        ReplayedSecond {
            moment: Moment { now, uptime },
            replicas: self.pool.replicas,
            free: self.pool.free(),
            machines: self.pool.machines(),
            demand: self.pool.demand(),
        }
    }

    fn sample(&mut self, second: u64) {
        let Demand { busy, waiting } = self.pool.demand();
        let sample = ReplaySample { second, replicas: self.pool.replicas, busy, waiting };
        let is_new = self.samples.last().is_none_or(|last| ReplaySample { second, ..*last } != sample);
        self.samples.extend(is_new.then_some(sample));
    }

    fn finish(mut self, claims: usize) -> ReplayResult {
        let unanswered = claims - self.pool.waits.len();
        self.pool.waits.sort_unstable();
        let waits = &self.pool.waits;
        let percentile = |percent: usize| {
            let place = (waits.len() * percent).div_ceil(100).saturating_sub(1);
            waits.get(place).copied().unwrap_or(0)
        };
        ReplayResult {
            claims,
            unanswered,
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
