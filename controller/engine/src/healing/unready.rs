//! Since when machines are not ready.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::ids::Uid;
use crate::model::Machine;

/// What the controller remembers of machines that are not ready. It remains correct if this is lost at any
/// time: a new leader only replaces machines later.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnreadyMachines {
    machines: BTreeMap<Uid, UnreadyTimes>,
}

/// The uptimes of one machine.
#[derive(Clone, Copy, Debug, Default)]
struct UnreadyTimes {
    /// When this leader first observed that it is not ready, without a reason to be so.
    since: Option<Duration>,
    /// When it last had a reason not to be ready. What the platform reports of the time before does not
    /// count.
    excused: Option<Duration>,
}

impl UnreadyMachines {
    /// Updates the memory with the current machines.
    pub(crate) fn observe<'a>(&mut self, machines: impl Iterator<Item = &'a Arc<Machine>>, uptime: Duration) {
        let mut known = BTreeMap::new();
        for machine in machines.filter(|machine| !machine.terminating && !machine.is_ready()) {
            let former = self.machines.get(&machine.id.uid).copied().unwrap_or_default();
            let times = if machine.is_unready() {
                UnreadyTimes { since: former.since.or(Some(uptime)), excused: former.excused }
            } else {
                UnreadyTimes { since: None, excused: Some(uptime) }
            };
            known.insert(machine.id.uid.clone(), times);
        }
        self.machines = known;
    }

    /// How long the machine has not been ready; `None` if it is ready or has a reason not to be.
    pub(super) fn unready_for(
        &self,
        machine: &Machine,
        now: Timestamp,
        uptime: Duration,
    ) -> Option<Duration> {
        if !machine.is_unready() {
            return None;
        }
        let times = self.machines.get(&machine.id.uid).copied().unwrap_or_default();
        let age = |since: Duration| uptime.saturating_sub(since);
        let reported = machine.start_health.not_ready_since.map(|since| now.duration_since(since));
        let reported = reported.and_then(|age| Duration::try_from(age).ok()).unwrap_or_default();
        let seen = times.since.map_or(Duration::ZERO, age);
        Some(seen.max(reported).min(times.excused.map_or(Duration::MAX, age)))
    }
}

#[cfg(test)]
mod tests;
