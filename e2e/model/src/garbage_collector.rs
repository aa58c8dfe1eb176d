//! The garbage collector. It takes one step per call, so that the caller controls the timing.
//!
//! ```text
//!  owner terminating, "orphan"       removes the reference from its dependents, then its finalizer
//!  owner terminating, "foreground"   deletes its dependents, waits for the blocking ones, then removes its finalizer
//!  dependent with a living owner     loses references to owners that are gone or in foreground deletion
//!  dependent without living owner    is deleted: in the foreground if it has dependents and an owner waits for it
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::delete::{FOREGROUND, ORPHAN, delete_object};
use crate::resource::Resource;
use crate::store::{ApiObjectKey, ApiObjectStore};
use crate::write::{PreparedWrite, commit_write};

/// Performs one of the currently possible actions, selected by `choice`. Returns the object that it changed.
pub(crate) fn run_garbage_collection_step(
    store: &mut ApiObjectStore,
    resources: &BTreeMap<String, Resource>,
    now: Timestamp,
    choice: u64,
) -> Option<ApiObjectKey> {
    let candidates = candidates(store, resources);
    if candidates.is_empty() {
        return None;
    }
    let index = usize::try_from(choice % candidates.len() as u64).unwrap_or_default();
    let (key, action) = candidates.into_iter().nth(index)?;
    let object = store.get(&key)?.clone();
    match action {
        Action::Delete(policy) => {
            let resource = resources.get(&*key.resource)?;
            delete_object(store, resource, &key, Some(policy), now, false)?;
        }
        Action::RemoveFinalizer(finalizer) => {
            let mut new = (*object).clone();
            if let Some(finalizers) = new["metadata"]["finalizers"].as_array_mut() {
                finalizers.retain(|other| other != finalizer);
            }
            commit_write(
                store,
                PreparedWrite { key: key.clone(), old: Some(object), new, status_is_default: false },
            );
        }
        Action::RemoveOwners(owners) => {
            let mut new = (*object).clone();
            if let Some(references) = new["metadata"]["ownerReferences"].as_array_mut() {
                references.retain(|reference| !owners.contains(text(&reference["uid"])));
            }
            commit_write(
                store,
                PreparedWrite { key: key.clone(), old: Some(object), new, status_is_default: false },
            );
        }
    }
    Some(key)
}

enum Action {
    Delete(&'static str),
    RemoveFinalizer(&'static str),
    RemoveOwners(BTreeSet<String>),
}

/// The state of an owner, as it concerns a dependent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OwnerState {
    Live,
    /// In foreground deletion.
    ForegroundDeletion,
    /// In orphaning deletion.
    OrphaningDeletion,
    Gone,
    /// Its kind is unknown, so its existence cannot be checked. The dependent is left alone.
    Unknown,
}

fn candidates(store: &ApiObjectStore, resources: &BTreeMap<String, Resource>) -> Vec<(ApiObjectKey, Action)> {
    let mut actions = Vec::new();
    let mut blocked = BTreeSet::new();
    let mut owners_of_dependents = BTreeSet::new();
    let referenced_owners: BTreeSet<&str> = store.objects().flat_map(|(_, object)| uids(object)).collect();
    let by_uid: BTreeMap<&str, (&ApiObjectKey, &Arc<Value>)> =
        store.objects().map(|(key, object)| (text(&object["metadata"]["uid"]), (key, object))).collect();
    for (key, object) in store.objects() {
        let references = references(object);
        let states: Vec<(&str, OwnerState)> = references
            .iter()
            .map(|reference| (text(&reference["uid"]), owner_state(&by_uid, resources, key, reference)))
            .collect();
        let of = |wanted: &[OwnerState]| -> BTreeSet<String> {
            let those = states.iter().filter(|(_, owner_state)| wanted.contains(owner_state));
            those.map(|(uid, _)| (*uid).to_owned()).collect()
        };
        let orphaning_owners = of(&[OwnerState::OrphaningDeletion]);
        if !orphaning_owners.is_empty() {
            owners_of_dependents.extend(orphaning_owners.iter().cloned());
            actions.push((key.clone(), Action::RemoveOwners(orphaning_owners)));
            continue;
        }
        let blocking = references.iter().filter(|reference| reference["blockOwnerDeletion"] == true);
        blocked.extend(blocking.map(|reference| text(&reference["uid"]).to_owned()));
        let collected = resources.get(&*key.resource).is_none_or(|resource| resource.collected);
        let leaves_it = references.is_empty() || !collected || !of(&[OwnerState::Unknown]).is_empty();
        if leaves_it || !object["metadata"]["deletionTimestamp"].is_null() {
            continue;
        }
        if of(&[OwnerState::Live]).is_empty() {
            let owner_waits = !of(&[OwnerState::ForegroundDeletion]).is_empty();
            let owns = referenced_owners.contains(text(&object["metadata"]["uid"]));
            actions.push((key.clone(), Action::Delete(policy(object, owner_waits && owns))));
        } else {
            let removable = of(&[OwnerState::Gone, OwnerState::ForegroundDeletion]);
            if !removable.is_empty() {
                actions.push((key.clone(), Action::RemoveOwners(removable)));
            }
        }
    }
    for (key, object) in store.objects() {
        let uid = text(&object["metadata"]["uid"]);
        if is_terminating_with(object, FOREGROUND) && !blocked.contains(uid) {
            actions.push((key.clone(), Action::RemoveFinalizer(FOREGROUND)));
        }
        if is_terminating_with(object, ORPHAN) && !owners_of_dependents.contains(uid) {
            actions.push((key.clone(), Action::RemoveFinalizer(ORPHAN)));
        }
    }
    actions
}

/// The propagation policy for a dependent without owners. Its own finalizers decide, unless an owner waits
/// for it.
fn policy(object: &Value, owner_waits: bool) -> &'static str {
    if owner_waits || has(object, FOREGROUND) {
        "Foreground"
    } else if has(object, ORPHAN) {
        "Orphan"
    } else {
        "Background"
    }
}

fn owner_state(
    by_uid: &BTreeMap<&str, (&ApiObjectKey, &Arc<Value>)>,
    resources: &BTreeMap<String, Resource>,
    dependent: &ApiObjectKey,
    reference: &Value,
) -> OwnerState {
    let known = |resource: &Resource| {
        reference["kind"] == resource.kind.as_str()
            && reference["apiVersion"] == resource.api_version().as_str()
    };
    // The collector looks the owner up by name and kind, then compares the UID.
    let matches = |(key, owner): &(&ApiObjectKey, &Arc<Value>)| {
        reference["name"] == *key.name
            && (key.namespace.is_empty() || key.namespace == dependent.namespace)
            && reference["kind"] == owner["kind"]
            && reference["apiVersion"] == owner["apiVersion"]
    };
    match by_uid.get(text(&reference["uid"])).copied().filter(matches) {
        None if resources.values().any(known) => OwnerState::Gone,
        None => OwnerState::Unknown,
        Some((_, owner)) if is_terminating_with(owner, ORPHAN) => OwnerState::OrphaningDeletion,
        Some((_, owner)) if is_terminating_with(owner, FOREGROUND) => OwnerState::ForegroundDeletion,
        Some(_) => OwnerState::Live,
    }
}

fn is_terminating_with(object: &Arc<Value>, finalizer: &str) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null() && has(object, finalizer)
}

fn has(object: &Value, finalizer: &str) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|all| all.iter().any(|other| other == finalizer))
}

fn references(object: &Value) -> &[Value] {
    object["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn uids(object: &Value) -> impl Iterator<Item = &str> {
    references(object).iter().map(|reference| text(&reference["uid"]))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
