//! I12: a protected machine is not removed by count or by autohealing before its protection ends.

use jiff::{SignedDuration, Timestamp};

use super::timeline::{Timeline, accepted_at};
use super::{UserActions, Violation};
use crate::object::{Kind, Object};
use crate::recorder::History;

/// The annotation that contains the end of the protection.
const UNTIL: &str = "vmpool.dev/protected-until";
/// The machine stays protected for this time after that, because clocks differ.
const SKEW: SignedDuration = SignedDuration::from_secs(30);

/// Machines that were removed while they were protected, although neither a request nor a user removed them.
pub fn violations(history: &History, actions: &UserActions) -> Vec<Violation> {
    let mut timeline = Timeline::default();
    let mut found = Vec::new();
    history.replay(|before, change| {
        timeline.observe(change);
        if change.kind != Kind::Machine || !(change.removed || change.object.is_terminating()) {
            return;
        }
        let Some(former) = before.get(Kind::Machine, change.object.uid()) else { return };
        let pool = former.owner_uid();
        if former.is_terminating() || pool.is_empty() || actions.is_removed_by_user(former.uid()) {
            return;
        }
        // The recorder observes a deletion after it was committed.
        if !is_protected(former, change.at) {
            return;
        }
        let stamp = change.object.text("/metadata/deletionTimestamp");
        let states = timeline.readable(pool, accepted_at(change.at, stamp));
        let is_target = states.iter().any(|state| state.record.accepted.contains(former.uid()));
        if states.is_empty() || is_target || states.iter().any(|state| state.terminating) {
            return;
        }
        let (name, revision) = (former.name(), change.revision);
        let until = former.annotation(UNTIL).unwrap_or_default();
        let what =
            format!("machine {name} was removed at revision {revision}, and is protected until {until}");
        found.push(Violation { invariant: "I12", what });
    });
    found
}

fn is_protected(machine: &Object, at: Timestamp) -> bool {
    let until = machine.annotation(UNTIL).and_then(|until| until.parse::<Timestamp>().ok());
    until.is_some_and(|until| at.duration_since(until) < SKEW)
}
