//! I17: a standby machine is never claimed or selected as a replica, and no active machine becomes one.

use serde_json::Value;

use super::{UserActions, Violation};
use crate::object::{JsonObject, TestedKind};
use crate::recorder::{RecordedHistory, RecordedState};

/// Standby machines that were claimed, or whose Pods the published selector of their pool selects, and active
/// machines that became standby machines.
pub fn check_standby(history: &RecordedHistory, actions: &UserActions) -> Vec<Violation> {
    let mut found = Vec::new();
    history.replay(|before, change| {
        let machine = &change.object;
        if change.kind != TestedKind::Machine || change.removed || !machine.is_standby() {
            return;
        }
        let former = before.get(TestedKind::Machine, machine.uid());
        let by_user = actions.relabeled.contains(machine.uid());
        let what = if !by_user && former.is_some_and(|former| !former.is_standby()) {
            "became a standby machine"
        } else if is_claimed(machine) && !former.is_some_and(is_claimed) {
            "was claimed as a standby machine"
        } else if is_selected(before, machine) {
            "is a standby machine, and the selector of its pool selects its Pods"
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

/// Whether the labels that the platform copies to the Pods of the machine match the selector that its pool
/// publishes for Services and autoscalers.
fn is_selected(before: &RecordedState, machine: &JsonObject) -> bool {
    let Some(pool) = before.get(TestedKind::Pool, machine.owner_uid()) else { return false };
    let (selector, labels) = if machine.is_kubevirt() {
        (pool.text("/status/labelSelector"), machine.at("/spec/template/metadata/labels"))
    } else {
        (pool.text("/status/selector"), machine.at("/metadata/labels"))
    };
    let matches = |term: &str| {
        let pair = term.split_once('=');
        pair.is_some_and(|(key, value)| labels.get(key).and_then(Value::as_str) == Some(value))
    };
    !selector.is_empty() && selector.split(',').all(matches)
}
