//! I9: nothing remains after a pool is deleted.

use std::collections::BTreeSet;

use super::Violation;
use crate::object::{Kind, Object};
use crate::recorder::History;

/// Objects that belong to a deleted pool, or to a machine of one. Orphaned objects are exempt. A disk that is being
/// deleted may remain as long as a released machine runs on it.
///
/// Call this after the garbage collector has had enough time.
pub fn violations(history: &History) -> Vec<Violation> {
    let removed = |kind: Kind| -> BTreeSet<&str> {
        history
            .changes()
            .iter()
            .filter(|change| change.removed && change.kind == kind)
            .map(|change| change.object.uid())
            .collect()
    };
    let (pools, machines) = (removed(Kind::Pool), removed(Kind::Machine));
    let state = history.state();
    let held = |kind: Kind, object: &Object| {
        let uses = |machine: &Object| machine.disk_references().any(|name| name == object.name());
        kind == Kind::Disk && object.is_terminating() && state.all(Kind::Machine).any(uses)
    };
    [Kind::Machine, Kind::Disk]
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
