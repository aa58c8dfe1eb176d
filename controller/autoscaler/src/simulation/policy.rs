//! What decides about the replicas of a replayed pool.

use jiff::Timestamp;

use crate::decision::{Explanation, ScaleDecision, decide_scale};
use crate::demand::Demand;
use crate::history::{DesiredHistory, Moment};
use crate::limits::{AutoscalerSettings, LimitsInEffect};

/// What a policy sees of a replayed pool at a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayedSecond {
    /// The time on both clocks.
    pub moment: Moment,
    /// Replicas of the pool.
    pub replicas: u32,
    /// Number of machines that can be claimed.
    pub free: u32,
    /// Number of machines, also starting ones.
    pub machines: u32,
    /// Busy machines and waiting claims.
    pub demand: Demand,
}

/// Decides about the replicas of a replayed pool.
pub trait ReplicaPolicy {
    /// The replicas from this second on; `None` if they stay.
    fn decide(&mut self, seen: &ReplayedSecond) -> Option<u32>;
}

/// The decision of an autoscaler.
pub(super) struct AutoscalerPolicy<'s> {
    settings: &'s AutoscalerSettings,
    history: DesiredHistory,
    effect: LimitsInEffect,
    /// The time until which the limits in effect do not change.
    until: Option<Timestamp>,
}

impl<'s> AutoscalerPolicy<'s> {
    /// The decision of an autoscaler whose memory begins at this time.
    pub(super) fn begin(settings: &'s AutoscalerSettings, moment: Moment) -> Self {
        Self {
            settings,
            history: DesiredHistory::begin(moment),
            effect: settings.limits_at(moment.now),
            until: settings.next_change(moment.now),
        }
    }
}

impl ReplicaPolicy for AutoscalerPolicy<'_> {
    fn decide(&mut self, seen: &ReplayedSecond) -> Option<u32> {
        let now = seen.moment.now;
        if self.until.is_some_and(|until| until <= now) {
            self.effect = self.settings.limits_at(now);
            self.until = self.settings.next_change(now);
        }
        let explained = Explanation::decide(self.effect.clone(), seen.demand, &mut self.history, seen.moment);
        match decide_scale(seen.replicas, explained.desired, &mut self.history, self.settings.delay) {
            ScaleDecision::Keep => None,
            ScaleDecision::Raise(to) | ScaleDecision::Lower(to) => Some(to),
        }
    }
}
