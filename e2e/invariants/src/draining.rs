//! I19: a machine with hooks is not removed, and not restarted by a rollout, before all hooks are released or
//! the deadline of its drain has passed.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::held_machines::{MachineHold, find_disturbed_machines, is_pool_deleted};
use super::timeline::DesiredState;
use super::{UserActions, Violation};
use crate::object::JsonObject;
use crate::recorder::RecordedHistory;

/// Prefix of the annotations that are hooks.
const HOOK_PREFIX: &str = "drain.vmpool.dev/";
/// The annotation with the id and the deadline of the drain.
const MARK: &str = "vmpool.dev/draining";

/// Running machines that were removed or restarted while a hook held them, although neither a forced removal
/// nor a user removed them.
pub fn check_draining(history: &RecordedHistory, actions: &UserActions) -> Vec<Violation> {
    find_disturbed_machines(history, &HookHold(actions))
}

struct HookHold<'a>(&'a UserActions);

impl MachineHold for HookHold<'_> {
    const INVARIANT: &'static str = "I19";

    fn holds(&self, machine: &JsonObject, at: Timestamp) -> bool {
        // A standby machine takes no work, so it does not drain.
        !machine.is_standby() && is_held_by_hook(machine, at, self.0)
    }
    /// A user deleted the machine or its pool, or a forced removal names it.
    fn may_be_removed(&self, machine: &JsonObject, states: &[&DesiredState]) -> bool {
        let uid = machine.uid();
        let drains = !self.0.undrained_removals.contains(uid)
            && states.iter().any(|state| state.record.accepted.contains(uid))
            && states.iter().all(|state| !state.record.forced.contains(uid));
        let is_requested = self.0.removal_requests.contains_key(uid);
        self.0.deleted.contains(uid) || is_pool_deleted(states) || is_requested && !drains
    }
    fn describe_hold(&self, _: &JsonObject) -> String {
        "a hook held it".to_owned()
    }
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

/// For how long the machine drains at most; `None` if it is not draining. A controller measures this time
/// with its own clock.
pub fn drain_timeout(machine: &JsonObject) -> Option<SignedDuration> {
    let since: Timestamp = drain_mark(machine)["since"].as_str()?.parse().ok()?;
    Some(drain_deadline(machine)?.duration_since(since))
}

/// The mark of the drain; null without one.
fn drain_mark(machine: &JsonObject) -> Value {
    let mark = machine.annotation(MARK).and_then(|text| serde_json::from_str(text).ok());
    mark.unwrap_or_default()
}

/// Whether the machine has a hook, released or not.
pub(super) fn has_hooks(machine: &JsonObject) -> bool {
    hook_values(machine).next().is_some()
}

/// The values of the hooks.
fn hook_values(machine: &JsonObject) -> impl Iterator<Item = &str> {
    let annotations = machine.at("/metadata/annotations").as_object();
    let hooks = annotations.into_iter().flatten().filter(|(key, _)| key.starts_with(HOOK_PREFIX));
    hooks.map(|(_, value)| value.as_str().unwrap_or_default())
}
