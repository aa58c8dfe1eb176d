//! I21: a controller whose clock is ahead does not take young machines for old ones.
//!
//! It knows the clock of the API server before it leads, because each response shows it.

use jiff::SignedDuration;

use super::replacement::{Replacements, find_removed_machine, has_surplus};
use super::timeline::{DesiredState, Timeline};
use super::{UserActions, Violation};
use crate::object::JsonObject;
use crate::recorder::{RecordedHistory, RecordedState};

/// By how much the controller may take the clock of the API server for later than it is: responses show
/// whole seconds, and take time.
const PRECISION: SignedDuration = SignedDuration::from_secs(3);

/// Machines that were replaced before their time.
pub fn check_early_replacements(history: &RecordedHistory, actions: &UserActions) -> Vec<Violation> {
    let mut timeline = Timeline::default();
    let mut replacements = Replacements::default();
    let mut found = Vec::new();
    history.replay(|before, change| {
        timeline.observe(change);
        replacements.observe(change);
        let removed = find_removed_machine(before, change, actions);
        let Some(former) = removed.filter(|former| !former.is_standby()) else { return };
        let states = timeline.states_at_deletion(former, change);
        let ahead = actions.clocks_ahead - PRECISION;
        let is_early = || replacements.is_early(former, &states, change.at + PRECISION, ahead);
        if may_leave(before, former, &states) || !is_early() {
            return;
        }
        let (name, revision) = (former.name(), change.revision);
        let what = format!(
            "machine {name} was replaced at revision {revision} before its time, which only a clock that is \
             ahead of that of the API server allows"
        );
        found.push(Violation { invariant: "I21", what });
    });
    found
}

/// Whether the machine may leave for another reason: with its pool, in a scale-down, or by healing.
fn may_leave(before: &RecordedState, machine: &JsonObject, states: &[&DesiredState]) -> bool {
    states.iter().any(|state| state.terminating || state.health.is_some())
        || has_surplus(before, machine.owner_uid(), states)
}
