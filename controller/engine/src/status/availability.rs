//! How many machines of a pool can be claimed, and how many are in use.

use std::time::Duration;

use crate::plan::observed::ObservedPool;
use crate::protection::{CLOCK_SKEW, time_after};

/// Counts of the live machines of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Availability {
    /// Machines that can be claimed now: they run, are not protected, and are not being removed or restarted.
    pub free: usize,
    /// Protected machines that were claimed in this pool.
    pub claimed: usize,
    /// Protected machines.
    pub protected: usize,
    /// Time until the first of them is no longer protected.
    pub first_end: Option<Duration>,
}

impl Availability {
    /// Counts the machines.
    pub fn of(observed: &ObservedPool<'_>) -> Self {
        let targets = observed.pool.record.target_uids();
        let mut counts = Self::default();
        for machine in observed.pool_machines().filter(|machine| !machine.terminating) {
            let protected = machine.is_protected(observed.now);
            let pool = observed.pool.id.uid.as_str();
            let claim = machine.protection.as_ref().and_then(|protection| protection.claim_of(pool));
            counts.protected += usize::from(protected);
            let end =
                machine.protection.as_ref().filter(|_| protected).and_then(|protection| protection.end());
            let left = end.map(|end| time_after(end, CLOCK_SKEW).duration_since(observed.now));
            let left = left.and_then(|left| Duration::try_from(left).ok());
            counts.first_end = counts.first_end.into_iter().chain(left).min();
            counts.claimed += usize::from(protected && claim.is_some());
            let is_free =
                observed.pool.may_claim(machine, observed.now) && !targets.contains(&machine.id.uid);
            counts.free += usize::from(is_free);
        }
        counts
    }
}
