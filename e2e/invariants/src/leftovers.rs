//! I9: nothing remains after a pool is deleted.

use std::collections::BTreeSet;

use super::Violation;
use crate::object::{JsonObject, TestedKind};
use crate::recorder::RecordedHistory;

/// Objects that belong to a deleted pool, or to a machine of one. Orphaned objects are exempt. A disk that is
/// being deleted may remain as long as a released machine runs on it.
///
/// Call this after the garbage collector has had enough time.
pub fn check_leftovers(history: &RecordedHistory) -> Vec<Violation> {
    let removed = |kind: TestedKind| -> BTreeSet<&str> {
        history
            .changes()
            .iter()
            .filter(|change| change.removed && change.kind == kind)
            .map(|change| change.object.uid())
            .collect()
    };
    let (pools, machines) = (removed(TestedKind::Pool), removed(TestedKind::Machine));
    let state = history.state();
    let held = |kind: TestedKind, object: &JsonObject| {
        let uses = |machine: &JsonObject| machine.disk_references().any(|name| name == object.name());
        kind == TestedKind::Disk && object.is_terminating() && state.all(TestedKind::Machine).any(uses)
    };
    [TestedKind::Machine, TestedKind::Disk]
        .into_iter()
        .flat_map(|kind| state.all(kind).map(move |object| (kind, object)))
        .filter(|(_, object)| pools.contains(object.owner_uid()) || machines.contains(object.owner_uid()))
        .filter(|(kind, object)| !held(*kind, object))
        .map(|(kind, object)| Violation {
            invariant: "I9",
            what: format!(
                "{} {} still exists without its owner {}",
                kind.name(),
                object.name(),
                object.owner_uid()
            ),
        })
        .collect()
}
