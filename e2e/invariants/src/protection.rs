//! I12: a protected machine is not removed by count or by autohealing, and not restarted by a rollout, before
//! its protection ends.

use jiff::{SignedDuration, Timestamp};

use super::held_machines::{MachineHold, find_disturbed_machines, is_pool_deleted};
use super::timeline::DesiredState;
use super::{UserActions, Violation};
use crate::object::JsonObject;
use crate::recorder::RecordedHistory;

/// The annotation that contains the end of the protection.
const UNTIL: &str = "vmpool.dev/protected-until";
/// The machine stays protected for this time after that, because clocks differ.
const SKEW: SignedDuration = SignedDuration::from_secs(30);

/// Machines that were removed while they were protected, although neither a request nor a user removed them,
/// and machines that were restarted while they were protected.
pub fn check_protection(history: &RecordedHistory, actions: &UserActions) -> Vec<Violation> {
    find_disturbed_machines(history, &ProtectionHold(actions))
}

struct ProtectionHold<'a>(&'a UserActions);

impl MachineHold for ProtectionHold<'_> {
    const INVARIANT: &'static str = "I12";

    fn holds(&self, machine: &JsonObject, at: Timestamp) -> bool {
        is_protected(machine, at, self.0)
    }
    /// A request or a user removed the machine, or its pool is deleted.
    fn may_be_removed(&self, machine: &JsonObject, states: &[&DesiredState]) -> bool {
        let is_target = states.iter().any(|state| state.record.accepted.contains(machine.uid()));
        is_target || is_pool_deleted(states) || self.0.is_removed_by_user(machine.uid())
    }
    fn describe_hold(&self, machine: &JsonObject) -> String {
        format!("is protected until {}", machine.annotation(UNTIL).unwrap_or_default())
    }
}

/// When the protection of a machine ends; `None` if there is none, or if the annotation cannot be read.
pub fn protection_end(machine: &JsonObject) -> Option<Timestamp> {
    machine.annotation(UNTIL)?.parse().ok()
}

/// Whether a machine is protected at this time, according to every clock.
pub fn is_protected(machine: &JsonObject, at: Timestamp, actions: &UserActions) -> bool {
    protection_end(machine).is_some_and(|until| at.duration_since(until) < SKEW - actions.clocks_ahead)
}
