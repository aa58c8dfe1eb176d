//! I21: a controller whose clock is ahead takes young machines for old ones only until it has created a
//! machine.
//!
//! Its first plan can replace all machines of a pool. From then on it knows the clock of the API server, so
//! each leader replaces each machine at most once.

use std::collections::BTreeMap;

use super::replacement::{Replacements, find_removed_machine, has_surplus};
use super::timeline::{DesiredState, Timeline};
use super::{UserActions, Violation};
use crate::object::{JsonObject, TestedKind};
use crate::recorder::{RecordedHistory, RecordedState};

/// Machines that were replaced before their time, beyond as many for each leader as the pool desired at most.
pub fn check_early_replacements(history: &RecordedHistory, actions: &UserActions) -> Vec<Violation> {
    let mut timeline = Timeline::default();
    let mut replacements = Replacements::default();
    let mut pools: BTreeMap<String, EarlyReplacements> = BTreeMap::new();
    let mut found = Vec::new();
    history.replay(|before, change| {
        timeline.observe(change);
        replacements.observe(change);
        if change.kind == TestedKind::Pool {
            let early = pools.entry(change.object.uid().to_owned()).or_default();
            early.desired = early.desired.max(change.object.desired_replicas());
            return;
        }
        let removed = find_removed_machine(before, change, actions);
        let Some(former) = removed.filter(|former| !former.is_standby()) else { return };
        let states = timeline.states_at_deletion(former, change);
        let is_early = || replacements.is_early(former, &states, change.at, actions.clocks_ahead);
        if may_leave(before, former, &states) || !is_early() {
            return;
        }
        let Some(early) = pools.get_mut(former.owner_uid()) else { return };
        early.count += 1;
        let allowed = early.desired.saturating_mul(actions.leaders + 1);
        if early.count > allowed {
            let (name, revision, count) = (former.name(), change.revision, early.count);
            let what = format!(
                "machine {name} was replaced at revision {revision} before its time: it is number {count}, and \
                 {allowed} are allowed before the controllers know the clock of the API server"
            );
            found.push(Violation { invariant: "I21", what });
        }
    });
    found
}

/// Whether the machine may leave for another reason: with its pool, in a scale-down, or by healing.
fn may_leave(before: &RecordedState, machine: &JsonObject, states: &[&DesiredState]) -> bool {
    states.iter().any(|state| state.terminating || state.health.is_some())
        || has_surplus(before, machine.owner_uid(), states)
}

/// The machines of a pool that were replaced before their time.
#[derive(Debug, Default)]
struct EarlyReplacements {
    count: usize,
    /// The largest number of machines that the pool has desired.
    desired: usize,
}
