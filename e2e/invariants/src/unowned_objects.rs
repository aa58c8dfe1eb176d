//! I15: the objects that a pool creates and does not keep are bounded.

use std::collections::BTreeSet;

use vmpool_test_cluster::control_plane::AuditEntry;

use super::{UserActions, Violation};
use crate::object::{JsonObject, TestedKind};
use crate::recorder::RecordedHistory;

/// Number of objects in a row that the controller may lose at birth before it stops.
const IN_A_ROW: usize = 3;

/// Machines and disks that the controller created, that exist, and that belong to no pool.
///
/// Each leader and each change of an admission policy can begin a new row, and each change of the spec
/// permits one more try. Other clients may take all machines of a pool away once. If a pool was deleted, its
/// machines may have been orphaned, which is not checked.
pub fn check_unowned_objects(
    history: &RecordedHistory,
    actions: &UserActions,
    audit: &[AuditEntry],
    controller_user: &str,
) -> Vec<Violation> {
    let (mut desired, mut generations, mut is_deleted) = (0, 0, false);
    for change in history.changes().iter().filter(|change| change.kind == TestedKind::Pool) {
        is_deleted |= change.removed || change.object.is_terminating();
        let number = |pointer| change.object.number(pointer).and_then(|number| usize::try_from(number).ok());
        desired = number("/spec/replicas").unwrap_or(1).max(desired);
        generations = number("/metadata/generation").unwrap_or_default().max(generations);
    }
    if is_deleted {
        return Vec::new();
    }
    let rows = 1 + actions.leaders + actions.policies;
    let bound = rows * (IN_A_ROW + desired) + generations + actions.taken;
    let mut found = Vec::new();
    for kind in [TestedKind::Machine, TestedKind::Disk] {
        let created = created(kind, audit, controller_user);
        let is_unkept = |object: &&JsonObject| {
            created.contains(object.name()) && !object.is_terminating() && !is_owned(history, object)
        };
        let unkept = history.state().all(kind).filter(is_unkept).count();
        if unkept > bound {
            let what =
                format!("{unkept} {} were created and belong to no pool; at most {bound} may", kind.plural());
            found.push(Violation { invariant: "I15", what });
        }
    }
    found
}

/// The names of the objects of a kind that the controller created.
fn created<'a>(kind: TestedKind, audit: &'a [AuditEntry], controller_user: &str) -> BTreeSet<&'a str> {
    let creates = audit.iter().filter(|entry| {
        entry.verb == "create"
            && entry.resource == kind.plural()
            && (200..300).contains(&entry.code)
            && !entry.dry_run
            && entry.user == controller_user
    });
    creates.map(|entry| &*entry.name).collect()
}

/// Whether an object belongs to its pool, or has another owner, such as a released machine or a wrapper.
fn is_owned(history: &RecordedHistory, object: &JsonObject) -> bool {
    let owner = object.owner_uid();
    let pool = history.state().get(TestedKind::Pool, owner);
    pool.map_or(!owner.is_empty(), |pool| pool.selects(object))
}
