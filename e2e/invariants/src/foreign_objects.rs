//! I4: the controller leaves foreign objects alone.

use serde_json::{Value, json};
use vmpool_test_cluster::control_plane::AuditEntry;

use super::{UserActions, Violation};
use crate::object::{JsonObject, TestedKind};
use crate::recorder::RecordedHistory;

/// Prefixes of annotations of the simulator and of the machine controller that it plays.
const PLATFORM_PREFIXES: [&str; 2] = ["simulator.vmpool.dev/", "kubevirt.io/"];
/// The fields that KubeVirt's machine controller completes in a machine.
const COMPLETED: [(&str, &str); 3] =
    [("/template", "metadata"), ("/template/spec/domain", "firmware"), ("/template/spec/domain", "machine")];

/// Finds foreign objects that were changed or deleted, disks and machines that the controller must not
/// delete, and deletions without a UID.
pub fn check_foreign_objects(
    history: &RecordedHistory,
    actions: &UserActions,
    audit: &[AuditEntry],
    controller_user: &str,
) -> Vec<Violation> {
    let mut found = check_changed_foreign_objects(history, actions);
    found.extend(check_referenced_disks(history, audit, controller_user));
    found.extend(check_released_machines(history, actions, audit, controller_user));
    found.extend(check_deletions_without_uid(audit, controller_user));
    found
}

/// The parts of an object that matter to its owner. Status and finalizers belong to the platform.
fn owner_relevant_fields(object: &JsonObject) -> Value {
    let mut annotations = object.at("/metadata/annotations").clone();
    if let Some(map) = annotations.as_object_mut() {
        map.retain(|key, _| !PLATFORM_PREFIXES.iter().any(|prefix| key.starts_with(prefix)));
    }
    let mut spec = object.at("/spec").clone();
    for (parent, field) in COMPLETED {
        if let Some(parent) = spec.pointer_mut(parent).and_then(Value::as_object_mut) {
            parent.remove(field);
        }
    }
    let nothing = |value: &Value| value.as_object().is_some_and(serde_json::Map::is_empty);
    json!({
        "labels": object.at("/metadata/labels"),
        "annotations": if nothing(&annotations) { Value::Null } else { annotations },
        "owners": object.at("/metadata/ownerReferences"),
        "spec": spec,
    })
}

fn check_changed_foreign_objects(history: &RecordedHistory, actions: &UserActions) -> Vec<Violation> {
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
        } else if owner_relevant_fields(&change.object) != owner_relevant_fields(left) {
            format!(
                "the foreign {kind} {name} was changed at revision {revision}, from {} to {}",
                owner_relevant_fields(left),
                owner_relevant_fields(&change.object)
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
fn deleted_by(controller_user: &str, audit: &[AuditEntry], kind: TestedKind, object: &JsonObject) -> bool {
    let by_us = |entry: &&AuditEntry| entry.user == controller_user && entry.resource == kind.plural();
    audit.iter().filter(by_us).any(|entry| entry.is_success() && deletes(entry, object))
}

/// Whether a request deletes this object, and not another object with the same name.
fn deletes(request: &AuditEntry, object: &JsonObject) -> bool {
    request.verb == "delete"
        && request.name == object.name()
        && request.precondition_uid().is_none_or(|uid| uid == object.uid())
}

/// Deletions without a UID, which delete any object that has the name when they arrive.
fn check_deletions_without_uid(
    audit: &[AuditEntry],
    controller_user: &str,
) -> impl Iterator<Item = Violation> {
    let by_us = audit.iter().filter(move |entry| entry.user == controller_user && entry.verb == "delete");
    let ours = by_us.filter(|entry| {
        [TestedKind::Machine, TestedKind::Disk].iter().any(|kind| kind.plural() == entry.resource)
    });
    ours.filter(|entry| entry.precondition_uid().is_none()).map(|entry| Violation {
        invariant: "I4",
        what: format!("the controller sent a deletion without a UID: {entry}"),
    })
}

/// Machines that the controller deleted after they were released. Targets of a targeted removal may be
/// deleted.
fn check_released_machines(
    history: &RecordedHistory,
    actions: &UserActions,
    audit: &[AuditEntry],
    controller_user: &str,
) -> Vec<Violation> {
    let mut found = Vec::new();
    history.replay(|before, change| {
        let Some(former) = before.get(TestedKind::Machine, change.object.uid()) else { return };
        let leaves = change.removed || change.object.is_terminating();
        if !leaves || former.is_terminating() || !former.owner_uid().is_empty() {
            return;
        }
        if !actions.is_removed_by_user(former.uid())
            && deleted_by(controller_user, audit, TestedKind::Machine, former)
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

fn check_referenced_disks(
    history: &RecordedHistory,
    audit: &[AuditEntry],
    controller_user: &str,
) -> Vec<Violation> {
    let mut found = Vec::new();
    history.replay(|before, change| {
        let disk = &change.object;
        if change.kind != TestedKind::Disk || !(change.removed || disk.is_terminating()) {
            return;
        }
        let was_going = before.get(TestedKind::Disk, disk.uid()).is_some_and(JsonObject::is_terminating);
        if was_going {
            return;
        }
        // A disk that only the disk map of a machine names was detached by hand: its data is the machine's.
        let needs = |machine: &&JsonObject| {
            let mapped = machine.mapped_disks();
            !machine.is_terminating()
                && (machine.disk_references().any(|name| name == disk.name()) || mapped.contains(disk.name()))
        };
        let needing = before.all(TestedKind::Machine).find(needs);
        if let Some(machine) = needing.filter(|_| deleted_by(controller_user, audit, TestedKind::Disk, disk))
        {
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
