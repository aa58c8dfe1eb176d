//! I19: a machine with hooks is not removed, and not restarted by a rollout, before all hooks are released or
//! the deadline of its drain has passed.

use jiff::Timestamp;
use serde_json::Value;

use super::protection::restarts_machine;
use super::timeline::{Timeline, accepted_at};
use super::{UserActions, Violation};
use crate::object::{JsonObject, TestedKind};
use crate::recorder::RecordedHistory;

/// Prefix of the annotations that are hooks.
const HOOK_PREFIX: &str = "drain.vmpool.dev/";
/// The annotation with the id and the deadline of the drain.
const MARK: &str = "vmpool.dev/draining";

/// Running machines that were removed or restarted while a hook held them, although neither a forced removal
/// nor a user removed them.
pub fn check_draining(history: &RecordedHistory, actions: &UserActions) -> Vec<Violation> {
    let mut timeline = Timeline::default();
    let mut found = Vec::new();
    history.replay(|before, change| {
        timeline.observe(change);
        if change.kind != TestedKind::Machine {
            return;
        }
        let Some(former) = before.get(TestedKind::Machine, change.object.uid()) else { return };
        // A standby machine takes no work, so it does not drain.
        let is_active = !former.is_terminating() && !former.is_standby();
        let is_machine = is_active && !former.owner_uid().is_empty();
        if !(is_machine && is_held_by_hook(former, change.at, actions)) {
            return;
        }
        let leaves = change.removed || change.object.is_terminating();
        let stamp = change.object.text("/metadata/deletionTimestamp");
        let at = accepted_at(change.at, stamp);
        let what = if leaves && !may_leave_undrained(former, at, &timeline, actions) {
            "removed"
        } else if !leaves && restarts_machine(former, &change.object) {
            "restarted"
        } else {
            return;
        };
        let (name, revision) = (former.name(), change.revision);
        let what = format!("machine {name} was {what} at revision {revision}, and a hook held it");
        found.push(Violation { invariant: "I19", what });
    });
    found
}

/// Whether a user deleted the machine or its pool, or a forced removal names it.
fn may_leave_undrained(
    machine: &JsonObject,
    at: Timestamp,
    timeline: &Timeline,
    actions: &UserActions,
) -> bool {
    let uid = machine.uid();
    let states = timeline.readable_states(machine.owner_uid(), at);
    let pool_is_deleted = states.is_empty() || states.iter().any(|state| state.terminating);
    let drains = states.iter().any(|state| state.record.accepted.contains(uid))
        && states.iter().all(|state| !state.record.forced.contains(uid));
    let is_requested = actions.removal_requests.contains_key(uid);
    actions.deleted.contains(uid) || pool_is_deleted || is_requested && !drains
}

/// Whether the guest of the machine runs, a hook is not released, and the deadline has not passed for any
/// clock.
pub fn is_held_by_hook(machine: &JsonObject, at: Timestamp, actions: &UserActions) -> bool {
    let mark = drain_mark(machine);
    let id = mark["id"].as_str();
    let has_passed = drain_deadline(machine).is_some_and(|end| at + actions.clocks_ahead >= end);
    machine.is_running() && !has_passed && hook_values(machine).any(|value| Some(value) != id)
}

/// Whether a hook was released with the id of the present drain. The controller then replaces the machine if
/// no other step takes it.
pub fn is_released_by_owner(machine: &JsonObject) -> bool {
    let mark = drain_mark(machine);
    mark["id"].as_str().is_some_and(|id| hook_values(machine).any(|value| value == id))
}

/// When the drain of a machine ends at the latest; `None` if it is not draining.
pub fn drain_deadline(machine: &JsonObject) -> Option<Timestamp> {
    drain_mark(machine)["deadline"].as_str()?.parse().ok()
}

/// The mark of the drain; null without one.
fn drain_mark(machine: &JsonObject) -> Value {
    let mark = machine.annotation(MARK).and_then(|text| serde_json::from_str(text).ok());
    mark.unwrap_or_default()
}

/// The values of the hooks.
fn hook_values(machine: &JsonObject) -> impl Iterator<Item = &str> {
    let annotations = machine.at("/metadata/annotations").as_object();
    let hooks = annotations.into_iter().flatten().filter(|(key, _)| key.starts_with(HOOK_PREFIX));
    hooks.map(|(_, value)| value.as_str().unwrap_or_default())
}
