//! I21: replacements of machines make no more machines unavailable than the disruption budget of the pool.
//!
//! The check counts the replaced machines that were available and whose places are still empty. Losses for
//! other reasons do not count, because the controller may not have seen them.

use std::collections::BTreeMap;

use super::replacement::{Replacements, find_removed_machine, has_surplus};
use super::timeline::Timeline;
use super::{UserActions, Violation};
use crate::object::{JsonObject, TestedKind};
use crate::recorder::{RecordedChange, RecordedHistory, RecordedState};

/// Available machines that were replaced although the empty places of replaced machines exceed the budget
/// that any reader could still see.
pub fn check_replacement_budget(history: &RecordedHistory, actions: &UserActions) -> Vec<Violation> {
    let mut timeline = Timeline::default();
    let mut replacements = Replacements::default();
    let mut places: BTreeMap<String, EmptyPlaces> = BTreeMap::new();
    let mut found = Vec::new();
    history.replay(|before, change| {
        for (pool, empty) in &mut places {
            empty.fill(count_available(before, pool));
        }
        timeline.observe(change);
        replacements.observe(change);
        if change.kind == TestedKind::Pool {
            places.entry(change.object.uid().to_owned()).or_default().scale(&change.object);
            return;
        }
        let Some(former) = replaced_machine(before, change, actions) else { return };
        let pool = former.owner_uid();
        let states = timeline.states_at_deletion(former, change);
        let is_replacement = states.iter().all(|state| !state.terminating)
            && replacements.recycles(former, &states, change.at + actions.clocks_ahead)
            && !has_surplus(before, pool, &states);
        if !is_replacement {
            return;
        }
        let Some(empty) = places.get_mut(pool) else { return };
        empty.count += 1;
        // A former leader may have had as many requests in flight.
        let budget = states.iter().map(|state| state.budget).max().unwrap_or_default();
        let allowed = budget.saturating_mul(actions.leaders + 1);
        if empty.count > allowed {
            let (name, revision, count) = (former.name(), change.revision, empty.count);
            let what = format!(
                "machine {name} was replaced at revision {revision}: the places of {count} replaced machines are empty, \
                 and the disruption budget is at most {allowed}"
            );
            found.push(Violation { invariant: "I21", what });
        }
    });
    found
}

/// The empty places of replaced machines of a pool.
#[derive(Debug, Default)]
struct EmptyPlaces {
    count: usize,
    desired: usize,
}

impl EmptyPlaces {
    /// Other machines may have taken the places.
    fn fill(&mut self, available: usize) {
        self.count = self.count.min(self.desired.saturating_sub(available));
    }

    /// A place that is not desired any more is not empty.
    fn scale(&mut self, pool: &JsonObject) {
        let desired = pool.desired_replicas();
        self.count = self.count.saturating_sub(self.desired.saturating_sub(desired));
        self.desired = desired;
    }
}

/// The former state of a machine that the controller deletes with this change while it is certainly
/// available.
fn replaced_machine<'b>(
    before: &'b RecordedState,
    change: &RecordedChange,
    actions: &UserActions,
) -> Option<&'b JsonObject> {
    let former = find_removed_machine(before, change, actions)?;
    let is_active = !former.is_standby() && !former.owner_uid().is_empty();
    (is_active && is_certainly_available(former)).then_some(former)
}

/// Whether the controller counts the machine as available, whatever it knows about its instance. Before the
/// platform has evaluated a change, and before a restart, it does not. Instances of KubeVirt are not
/// recorded.
fn is_certainly_available(machine: &JsonObject) -> bool {
    let generation = |path| machine.number(path);
    let is_evaluated = match generation("/status/observedGeneration") {
        Some(observed) => Some(observed) == generation("/metadata/generation"),
        None => true,
    };
    let is_pending = machine
        .condition("AwaitingRestartToApplyConfiguration")
        .is_some_and(|condition| condition["status"] == "True");
    !machine.is_kubevirt() && machine.is_running() && is_evaluated && !is_pending
}

/// Number of machines of the pool that may be available.
fn count_available(before: &RecordedState, pool: &str) -> usize {
    let machines = before.active_machines(pool).filter(|machine| !machine.is_terminating());
    let is_stopped = |machine: &JsonObject| machine.phase() == "Stopped" && !machine.is_starting_activated();
    machines.filter(|machine| machine.is_running() || is_stopped(machine)).count()
}
