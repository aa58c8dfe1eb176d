//! I12: a protected machine is not removed by count or by autohealing, and not restarted by a rollout, before
//! its protection ends.

use jiff::{SignedDuration, Timestamp};

use super::timeline::{Timeline, accepted_at};
use super::{UserActions, Violation};
use crate::object::{JsonObject, TestedKind};
use crate::recorder::{RecordedChange, RecordedHistory, RecordedState};

/// The annotation that contains the end of the protection.
const UNTIL: &str = "vmpool.dev/protected-until";
/// The machine stays protected for this time after that, because clocks differ.
const SKEW: SignedDuration = SignedDuration::from_secs(30);

/// Machines that were removed while they were protected, although neither a request nor a user removed them,
/// and machines that were restarted while they were protected.
pub fn check_protection(history: &RecordedHistory, actions: &UserActions) -> Vec<Violation> {
    let mut timeline = Timeline::default();
    let mut found = Vec::new();
    history.replay(|before, change| {
        timeline.observe(change);
        if change.kind != TestedKind::Machine {
            return;
        }
        let Some(former) = protected_before(before, change, actions) else { return };
        let leaves = change.removed || change.object.is_terminating();
        let what = if leaves && is_removed_by_count(former, change, &timeline, actions) {
            "removed"
        } else if !leaves && restarts_machine(former, &change.object) {
            "restarted"
        } else {
            return;
        };
        let (name, revision) = (former.name(), change.revision);
        let until = former.annotation(UNTIL).unwrap_or_default();
        let what =
            format!("machine {name} was {what} at revision {revision}, and is protected until {until}");
        found.push(Violation { invariant: "I12", what });
    });
    found
}

/// The former state of a machine of a pool, if it was protected.
fn protected_before<'a>(
    before: &'a RecordedState,
    change: &RecordedChange,
    actions: &UserActions,
) -> Option<&'a JsonObject> {
    let former = before.get(TestedKind::Machine, change.object.uid())?;
    // The recorder observes a change after it was committed.
    let is_machine = !former.is_terminating() && !former.owner_uid().is_empty();
    (is_machine && is_protected(former, change.at, actions)).then_some(former)
}

fn is_removed_by_count(
    former: &JsonObject,
    change: &RecordedChange,
    timeline: &Timeline,
    actions: &UserActions,
) -> bool {
    let stamp = change.object.text("/metadata/deletionTimestamp");
    let states = timeline.readable_states(former.owner_uid(), accepted_at(change.at, stamp));
    let is_target = states.iter().any(|state| state.record.accepted.contains(former.uid()));
    let pool_is_deleted = states.is_empty() || states.iter().any(|state| state.terminating);
    !(is_target || pool_is_deleted || actions.is_removed_by_user(former.uid()))
}

/// Whether the change restarts a running machine: its spec in effect changes although it restarts by itself,
/// or a stop is requested.
pub(super) fn restarts_machine(former: &JsonObject, now: &JsonObject) -> bool {
    if former.is_kubevirt() {
        let stops = |machine: &JsonObject| {
            let requests = machine.at("/status/stateChangeRequests").as_array();
            requests.into_iter().flatten().any(|request| request["action"] == "Stop")
        };
        return stops(now) && !stops(former);
    }
    let automatic = former.text("/spec/disruptions/restartApprovalMode") == "Automatic";
    automatic && former.is_running() && former.at("/spec/cpu") != now.at("/spec/cpu")
}

/// When the protection of a machine ends; `None` if there is none, or if the annotation cannot be read.
pub fn protection_end(machine: &JsonObject) -> Option<Timestamp> {
    machine.annotation(UNTIL)?.parse().ok()
}

/// Whether a machine is protected at this time, according to every clock.
pub fn is_protected(machine: &JsonObject, at: Timestamp, actions: &UserActions) -> bool {
    protection_end(machine).is_some_and(|until| at.duration_since(until) < SKEW - actions.clocks_ahead)
}
