//! I21: a controller whose clock is ahead takes young machines for old ones only until it has created a
//! machine.
//!
//! Its first plan can replace all machines of a pool. From then on it knows the clock of the API server, so
//! each leader replaces each machine at most once.

use std::collections::BTreeMap;

use super::replacement::Replacements;
use super::replacement_budget::has_surplus;
use super::timeline::{DesiredState, Timeline, accepted_at};
use super::{UserActions, Violation};
use crate::object::{JsonObject, TestedKind};
use crate::recorder::{RecordedChange, RecordedHistory, RecordedState};

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
            pools.entry(change.object.uid().to_owned()).or_default().scale(&change.object);
            return;
        }
        let Some(former) = removed_machine(before, change, actions) else { return };
        let stamp = change.object.text("/metadata/deletionTimestamp");
        let states = timeline.readable_states(former.owner_uid(), accepted_at(change.at, stamp));
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

/// The former state of an active machine that the controller deletes with this change.
fn removed_machine<'b>(
    before: &'b RecordedState,
    change: &RecordedChange,
    actions: &UserActions,
) -> Option<&'b JsonObject> {
    if change.kind != TestedKind::Machine || !(change.removed || change.object.is_terminating()) {
        return None;
    }
    let former = before.get(TestedKind::Machine, change.object.uid())?;
    let is_removed_now = !former.is_terminating() && !actions.is_removed_by_user(former.uid());
    (is_removed_now && !former.is_standby()).then_some(former)
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

impl EarlyReplacements {
    fn scale(&mut self, pool: &JsonObject) {
        let desired = pool.number("/spec/replicas").and_then(|count| usize::try_from(count).ok());
        self.desired = self.desired.max(desired.unwrap_or_default());
    }
}
