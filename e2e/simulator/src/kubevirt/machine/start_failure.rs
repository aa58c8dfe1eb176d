//! Starts that fail, and the backoff between them.

use super::{
    facts::{MachineInstance, MachinePassFacts},
    run::counts_failures,
};
use crate::{
    duration::Delay,
    kubevirt::{
        json::{rounded_up, stable_number},
        model::KubeVirtModel,
        objects::{InstancePhase, InstanceView, KubeVirtMachineView, SimulatedStartFailure},
    },
    objects::NamespacedKey,
};
use jiff::Timestamp;
use std::time::Duration;

/// The backoff after the first failed start, without its random part.
const FIRST: Duration = Duration::from_secs(10);
/// No backoff is longer.
const LONGEST: Duration = Duration::from_mins(5);

/// Whether an instance ended without ever having run.
fn failed_to_start(instance: &InstanceView) -> bool {
    instance.status.phase.is_final() && !instance.status.ever_ran()
}

/// Whether the status of a machine lacks the failed start that its instance shows.
pub(super) fn is_unrecorded(facts: &MachinePassFacts) -> bool {
    let MachineInstance::Own(instance) = &facts.instance else { return false };
    let recorded = facts.machine.status.start_failure.as_ref();
    counts_failures(facts.machine.spec.run_strategy)
        && failed_to_start(instance)
        && recorded.is_none_or(|failure| *failure.last_failed_instance != *instance.meta.uid)
}

/// The backoff after that many failed starts: `first` × n², plus up to half of that, which `chance` decides.
fn backoff(first: Duration, count: u64, chance: u64) -> Duration {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let base = first.saturating_mul(count.saturating_mul(count)).min(LONGEST);
    let share = u32::try_from(chance % 1000).unwrap_or_default();
    (base + base / 2000 * share).min(LONGEST)
}

impl KubeVirtModel {
    /// The failed starts that a machine's status shows next.
    pub(super) fn start_failure(
        &self,
        key: &NamespacedKey,
        machine: &KubeVirtMachineView,
        instance: Option<&InstanceView>,
        now: Timestamp,
    ) -> Option<SimulatedStartFailure> {
        let known = machine.status.start_failure.clone();
        if !counts_failures(machine.spec.run_strategy) {
            return None;
        }
        let Some(instance) = instance else { return known };
        if instance.status.phase == InstancePhase::Running {
            return None;
        }
        let recorded =
            known.as_ref().is_some_and(|failure| *failure.last_failed_instance == *instance.meta.uid);
        if recorded || !failed_to_start(instance) {
            return known;
        }
        let count = known.map_or(0, |failure| failure.consecutive_fail_count) + 1;
        let first = match self.knobs_of_machine(key, machine).get(|knobs| knobs.start_backoff) {
            None => FIRST,
            Some(Delay::After(first)) => first,
            Some(Delay::Never) => LONGEST,
        };
        let wait = backoff(first, count, stable_number((self.settings.seed, &*instance.meta.uid)));
        Some(SimulatedStartFailure {
            consecutive_fail_count: count,
            last_failed_instance: instance.meta.uid.to_string(),
            retry_after_timestamp: Some(rounded_up(now + wait)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::after_the_first_failure(1, 10..=15)]
    #[case::after_the_second(2, 40..=60)]
    #[case::after_the_fifth(5, 250..=300)]
    #[case::never_more_than_five_minutes(1000, 300..=300)]
    fn backoff_grows_with_the_square_of_the_failures(
        #[case] count: u64,
        #[case] seconds: std::ops::RangeInclusive<u64>,
    ) {
        for chance in [0, 1, 500, 999, u64::MAX] {
            let wait = backoff(FIRST, count, chance);
            assert!(seconds.contains(&wait.as_secs()), "{wait:?}");
        }
        assert!(count > 5 || backoff(FIRST, count, 0) < backoff(FIRST, count, 999));
    }
}
