//! I17: a standby machine is never claimed, and no active machine becomes one.

use super::Violation;
use crate::object::{JsonObject, TestedKind};
use crate::recorder::RecordedHistory;

/// Standby machines that were claimed, and active machines that became standby machines.
pub fn check_standby(history: &RecordedHistory) -> Vec<Violation> {
    let mut found = Vec::new();
    history.replay(|before, change| {
        let machine = &change.object;
        if change.kind != TestedKind::Machine || change.removed || !machine.is_standby() {
            return;
        }
        let former = before.get(TestedKind::Machine, machine.uid());
        let what = if former.is_some_and(|former| !former.is_standby()) {
            "became a standby machine"
        } else if is_claimed(machine) && !former.is_some_and(is_claimed) {
            "was claimed as a standby machine"
        } else {
            return;
        };
        let what = format!("machine {} {what} at revision {}", machine.name(), change.revision);
        found.push(Violation { invariant: "I17", what });
    });
    found
}

fn is_claimed(machine: &JsonObject) -> bool {
    !machine.at("/metadata/annotations/vmpool.dev~1claim").is_null()
}
