//! The decision: how many replicas the pool gets.

use std::fmt;
use std::time::Duration;

use crate::demand::Demand;
use crate::history::{DesiredHistory, Moment};
use crate::limits::{LimitsInEffect, ReplicaLimits};

/// Which limit determines the number of machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReached {
    /// None: the demand does.
    No,
    /// The demand is below the smallest number.
    Min,
    /// The demand exceeds the largest number.
    Max,
}

/// What the demand needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DesiredReplicas {
    /// The number of machines.
    pub replicas: u32,
    /// How many of them stay free.
    pub free: u32,
    /// The limit that determines the number.
    pub limited: LimitReached,
}

/// Computes how many machines the demand needs within the limits. Busy machines stay, also beyond `max`.
pub fn compute_desired(limits: ReplicaLimits, demand: Demand) -> DesiredReplicas {
    let free = limits.free.count(demand.busy);
    let wanted = demand.busy.saturating_add(demand.waiting).saturating_add(free);
    let limited = match wanted {
        _ if wanted.max(limits.min) > limits.max => LimitReached::Max,
        _ if wanted < limits.min => LimitReached::Min,
        _ => LimitReached::No,
    };
    let replicas = demand.busy.max(limits.max.min(limits.min.max(wanted)));
    DesiredReplicas { replicas, free, limited }
}

/// What the controller does with the replicas of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleDecision {
    /// Nothing.
    Keep,
    /// It raises them to this number, at once.
    Raise(u32),
    /// It lowers them to this number, which was enough for the whole delay.
    Lower(u32),
}

/// Decides about a pool with `replicas`. The history contains `desired` already.
pub fn decide_scale(
    replicas: u32,
    desired: DesiredReplicas,
    history: &mut DesiredHistory,
    delay: Duration,
) -> ScaleDecision {
    if desired.replicas > replicas {
        return ScaleDecision::Raise(desired.replicas);
    }
    let enough = history.highest(delay).map(|highest| highest.max(desired.replicas));
    match enough.filter(|enough| *enough < replicas) {
        Some(enough) => ScaleDecision::Lower(enough),
        None => ScaleDecision::Keep,
    }
}

/// A decision with the numbers behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// What the demand is.
    pub demand: Demand,
    /// What it needs.
    pub desired: DesiredReplicas,
    /// The active schedule.
    pub schedule: Option<String>,
}

impl Explanation {
    /// Records the demand of this moment, and decides.
    pub fn decide(
        effect: LimitsInEffect,
        demand: Demand,
        history: &mut DesiredHistory,
        moment: Moment,
    ) -> Self {
        let desired = compute_desired(effect.limits, demand);
        history.record(moment, desired.replicas);
        Self { demand, desired, schedule: effect.schedule }
    }
}

/// The numbers, as events and the status have them: `4 busy, 1 waiting, 2 free wanted: 7`.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Demand { busy, waiting } = self.demand;
        let DesiredReplicas { replicas, free, limited } = self.desired;
        write!(f, "{busy} busy, {waiting} waiting, {free} free wanted: {replicas}")?;
        match limited {
            LimitReached::No => {}
            LimitReached::Min => f.write_str(", limited by minReplicas")?,
            LimitReached::Max => f.write_str(", limited by maxReplicas")?,
        }
        self.schedule.as_ref().map_or(Ok(()), |schedule| write!(f, ", schedule {schedule}"))
    }
}

#[cfg(test)]
mod tests;
