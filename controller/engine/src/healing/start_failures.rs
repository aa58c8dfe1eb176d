//! Machines that do not start: since when, and how often the controller has replaced them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::ids::Uid;
use crate::model::{Machine, MachineActivity};

/// The delay of the second replacement of the same ordinal. It doubles with every further one.
const FIRST_DELAY: Duration = Duration::from_secs(20);
/// The maximum of this delay.
const LONGEST_DELAY: Duration = Duration::from_mins(10);
/// How long a machine must run until its replacements are forgotten.
const RECOVERED: Duration = Duration::from_mins(10);

/// The replacements of the machines with one name, which pass to a successor with another name.
#[derive(Clone, Copy, Debug, Default)]
struct Replacements {
    count: u32,
    last: Duration,
    /// Since when the machine with this name runs.
    running: Option<Duration>,
}

/// What the controller remembers of machines that do not start. It remains correct if this is lost at any
/// time.
#[derive(Clone, Debug, Default)]
pub struct StartFailures {
    /// Since when the platform reports a failing state. A machine that fails alternates between states, for
    /// example with every start that it attempts, so the time ends only when the machine is ready.
    failing: BTreeMap<Uid, Duration>,
    replacements: BTreeMap<Arc<str>, Replacements>,
    /// The live machines when a replaced machine was last seen to have no successor yet.
    former: Option<BTreeSet<Arc<str>>>,
}

impl StartFailures {
    /// Updates the memory with the current machines.
    pub fn observe<'a>(
        &mut self,
        machines: impl Iterator<Item = &'a Arc<Machine>> + Clone,
        uptime: Duration,
    ) {
        if !self.replacements.is_empty() {
            let live = machines.clone().filter(|machine| !machine.terminating);
            self.pass_on_replacements(live.map(|machine| machine.id.name.clone()).collect());
        }
        let mut failing = BTreeMap::new();
        for machine in machines {
            let health = &machine.start_health;
            let since = self.failing.get(&machine.id.uid).copied().filter(|_| health.not_ready);
            if let Some(since) = since.or_else(|| health.failing.then_some(uptime)) {
                failing.insert(machine.id.uid.clone(), since);
            }
            if let Some(replacements) = self.replacements.get_mut(&machine.id.name) {
                let runs = machine.activity == MachineActivity::Running;
                replacements.running = runs.then(|| replacements.running.unwrap_or(uptime));
                if replacements.running.is_some_and(|since| uptime.saturating_sub(since) >= RECOVERED) {
                    self.replacements.remove(&machine.id.name);
                }
            }
        }
        self.failing = failing;
    }

    /// Passes the replacements of machines that are gone, or are being deleted, on to machines that are new
    /// since. If there are several of both, any successor is as good as another. With ordinals, too, a
    /// successor has another name while the former machine still exists, or if it was a standby machine.
    fn pass_on_replacements(&mut self, live: BTreeSet<Arc<str>>) {
        let vacant: Vec<Arc<str>> =
            self.replacements.keys().filter(|name| !live.contains(*name)).cloned().collect();
        let former = self.former.take();
        if vacant.is_empty() {
            return;
        }
        let is_new = |name: &&Arc<str>| former.as_ref().is_some_and(|former| !former.contains(*name));
        for (from, to) in vacant.iter().zip(live.iter().filter(is_new)) {
            if let Some(replacements) = self.replacements.remove(from) {
                self.replacements.insert(to.clone(), replacements);
            }
        }
        self.former = Some(live);
    }

    /// Records that the controller deleted the machine with this name because it did not start.
    pub fn replaced(&mut self, name: &Arc<str>, uptime: Duration) {
        let replacements = self.replacements.entry(name.clone()).or_default();
        *replacements =
            Replacements { count: replacements.count.saturating_add(1), last: uptime, running: None };
    }

    /// How long this machine has been in failing states, without having been ready.
    pub(super) fn failing_for(&self, machine: &Uid, uptime: Duration) -> Duration {
        self.failing.get(machine).map_or(Duration::ZERO, |since| uptime.saturating_sub(*since))
    }

    /// The remaining delay until a machine with this name may be replaced again.
    pub(crate) fn delay(&self, name: &str, uptime: Duration) -> Duration {
        let Some(Replacements { count, last, .. }) = self.replacements.get(name) else {
            return Duration::ZERO;
        };
        let delay = FIRST_DELAY.saturating_mul(1 << (count - 1).min(16)).min(LONGEST_DELAY);
        (*last + delay).saturating_sub(uptime)
    }

    /// How often the controller replaced the machine with this name because it did not start.
    pub(super) fn replacements(&self, name: &str) -> u32 {
        self.replacements.get(name).map_or(0, |replacements| replacements.count)
    }

    /// The time since the last replacement of the machine with this name.
    pub(super) fn since_replaced(&self, name: &str, uptime: Duration) -> Duration {
        self.replacements
            .get(name)
            .map_or(Duration::MAX, |replacements| uptime.saturating_sub(replacements.last))
    }

    /// The number of names whose machines were replaced and have not run since.
    pub(super) fn replaced_count(&self) -> usize {
        self.replacements.values().filter(|replacements| replacements.running.is_none()).count()
    }

    /// Whether a machine with this name was replaced and has not run since.
    pub(super) fn is_replacement(&self, name: &str) -> bool {
        self.replacements.get(name).is_some_and(|replacements| replacements.running.is_none())
    }
}
