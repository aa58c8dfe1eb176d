//! I4: the controller leaves foreign objects alone.

use serde_json::{Value, json};
use vmpool_test_cluster::control_plane::AuditEntry;

use super::{UserActions, Violation};
use crate::object::{Kind, Object};
use crate::recorder::History;

/// Prefix of annotations that the simulator uses for its own records.
const SIMULATOR_PREFIX: &str = "simulator.vmpool.dev/";

/// Finds foreign objects that were changed or deleted, disks and machines that the controller must not delete, and
/// deletions without a UID.
pub fn violations(
    history: &History,
    actions: &UserActions,
    audit: &[AuditEntry],
    controller_user: &str,
) -> Vec<Violation> {
    let mut found = touched(history, actions);
    found.extend(needed_disks(history, audit, controller_user));
    found.extend(others_machines(history, actions, audit, controller_user));
    found.extend(of_anybody(audit, controller_user));
    found
}

/// The parts of an object that matter to its owner. Status and finalizers belong to the platform.
fn essence(object: &Object) -> Value {
    let mut annotations = object.at("/metadata/annotations").clone();
    if let Some(map) = annotations.as_object_mut() {
        map.retain(|key, _| !key.starts_with(SIMULATOR_PREFIX));
    }
    let nothing = |value: &Value| value.as_object().is_some_and(serde_json::Map::is_empty);
    json!({
        "labels": object.at("/metadata/labels"),
        "annotations": if nothing(&annotations) { Value::Null } else { annotations },
        "owners": object.at("/metadata/ownerReferences"),
        "spec": object.at("/spec"),
    })
}

fn touched(history: &History, actions: &UserActions) -> Vec<Violation> {
    let mut found = Vec::new();
    for change in history.changes() {
        let Some(left) = actions.foreign.get(change.object.uid()) else { continue };
        // Changes before the scenario's own last change are not checked.
        if change.revision <= left.revision() || actions.deleted.contains(left.uid()) {
            continue;
        }
        let (kind, name, revision) = (change.kind.name(), left.name(), change.revision);
        let what = if change.removed || change.object.is_terminating() {
            format!("the foreign {kind} {name} was deleted at revision {revision}")
        } else if essence(&change.object) != essence(left) {
            format!(
                "the foreign {kind} {name} was changed at revision {revision}, from {} to {}",
                essence(left),
                essence(&change.object)
            )
        } else {
            continue;
        };
        // One violation per object is enough: later changes would only repeat it.
        if !found.iter().any(|known: &Violation| known.what.contains(&format!("{kind} {name} was"))) {
            found.push(Violation { invariant: "I4", what });
        }
    }
    found
}

/// Whether the controller deleted this object. It may have deleted another object with the same name before.
fn deleted_by(controller_user: &str, audit: &[AuditEntry], kind: Kind, object: &Object) -> bool {
    let by_us = |entry: &&AuditEntry| entry.user == controller_user && entry.resource == kind.plural();
    audit.iter().filter(by_us).any(|entry| entry.is_success() && deletes(entry, object))
}

/// Whether a request deletes this object, and not another object with the same name.
fn deletes(request: &AuditEntry, object: &Object) -> bool {
    request.verb == "delete"
        && request.name == object.name()
        && request.precondition_uid().is_none_or(|uid| uid == object.uid())
}

/// Deletions without a UID, which delete any object that has the name when they arrive.
fn of_anybody(audit: &[AuditEntry], controller_user: &str) -> impl Iterator<Item = Violation> {
    let by_us = audit.iter().filter(move |entry| entry.user == controller_user && entry.verb == "delete");
    let ours =
        by_us.filter(|entry| [Kind::Machine, Kind::Disk].iter().any(|kind| kind.plural() == entry.resource));
    ours.filter(|entry| entry.precondition_uid().is_none()).map(|entry| Violation {
        invariant: "I4",
        what: format!("the controller sent a deletion without a UID: {entry}"),
    })
}

/// Machines that the controller deleted after they were released. Targets of a targeted removal may be deleted.
fn others_machines(
    history: &History,
    actions: &UserActions,
    audit: &[AuditEntry],
    controller_user: &str,
) -> Vec<Violation> {
    let mut found = Vec::new();
    history.replay(|before, change| {
        let Some(former) = before.get(Kind::Machine, change.object.uid()) else { return };
        let leaves = change.removed || change.object.is_terminating();
        if !leaves || former.is_terminating() || !former.owner_uid().is_empty() {
            return;
        }
        if !actions.is_removed_by_user(former.uid())
            && deleted_by(controller_user, audit, Kind::Machine, former)
        {
            let (name, revision) = (former.name(), change.revision);
            let what = format!(
                "the controller deleted machine {name} at revision {revision}, although no pool owned it"
            );
            found.push(Violation { invariant: "I4", what });
        }
    });
    found
}

fn needed_disks(history: &History, audit: &[AuditEntry], controller_user: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    history.replay(|before, change| {
        let disk = &change.object;
        if change.kind != Kind::Disk || !(change.removed || disk.is_terminating()) {
            return;
        }
        let was_going = before.get(Kind::Disk, disk.uid()).is_some_and(Object::is_terminating);
        if was_going {
            return;
        }
        // A disk that only the disk map of a machine names was detached by hand: its data is the machine's.
        let needs = |machine: &&Object| {
            let mapped = machine.mapped_disks();
            !machine.is_terminating()
                && (machine.disk_references().any(|name| name == disk.name()) || mapped.contains(disk.name()))
        };
        let needing = before.all(Kind::Machine).find(needs);
        if let Some(machine) = needing.filter(|_| deleted_by(controller_user, audit, Kind::Disk, disk)) {
            let what = format!(
                "the controller deleted disk {} at revision {}, although machine {} uses it",
                disk.name(),
                change.revision,
                machine.name()
            );
            found.push(Violation { invariant: "I4", what });
        }
    });
    found
}
