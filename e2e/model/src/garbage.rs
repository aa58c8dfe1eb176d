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

use crate::delete::{FOREGROUND, ORPHAN, delete};
use crate::resource::Resource;
use crate::store::{Key, Store};
use crate::write::{Wanted, commit};

/// Performs one of the currently possible actions, selected by `choice`. Returns the object that it changed.
pub(crate) fn collect(
    store: &mut Store,
    resources: &BTreeMap<String, Resource>,
    now: Timestamp,
    choice: u64,
) -> Option<Key> {
    let candidates = candidates(store, resources);
    if candidates.is_empty() {
        return None;
    }
    let index = usize::try_from(choice % candidates.len() as u64).unwrap_or_default();
    let (key, work) = candidates.into_iter().nth(index)?;
    let object = store.get(&key)?.clone();
    match work {
        Work::Delete(policy) => {
            let resource = resources.get(&*key.resource)?;
            delete(store, resource, &key, Some(policy), now, false)?;
        }
        Work::Unfinalize(finalizer) => {
            let mut new = (*object).clone();
            if let Some(finalizers) = new["metadata"]["finalizers"].as_array_mut() {
                finalizers.retain(|other| other != finalizer);
            }
            commit(store, Wanted { key: key.clone(), old: Some(object), new });
        }
        Work::Disown(owners) => {
            let mut new = (*object).clone();
            if let Some(references) = new["metadata"]["ownerReferences"].as_array_mut() {
                references.retain(|reference| !owners.contains(text(&reference["uid"])));
            }
            commit(store, Wanted { key: key.clone(), old: Some(object), new });
        }
    }
    Some(key)
}

enum Work {
    Delete(&'static str),
    Unfinalize(&'static str),
    Disown(BTreeSet<String>),
}

/// The state of an owner, as it concerns a dependent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Solid,
    /// In foreground deletion.
    Waiting,
    /// In orphaning deletion.
    Orphaning,
    Gone,
    /// Its kind is unknown, so its existence cannot be checked. The dependent is left alone.
    Unknown,
}

fn candidates(store: &Store, resources: &BTreeMap<String, Resource>) -> Vec<(Key, Work)> {
    let mut work = Vec::new();
    let mut blocked = BTreeSet::new();
    let mut owning = BTreeSet::new();
    let owners_of_somebody: BTreeSet<&str> = store.objects().flat_map(|(_, object)| uids(object)).collect();
    let alive: BTreeMap<&str, (&Key, &Arc<Value>)> =
        store.objects().map(|(key, object)| (text(&object["metadata"]["uid"]), (key, object))).collect();
    for (key, object) in store.objects() {
        let references = references(object);
        let standings: Vec<(&str, Standing)> = references
            .iter()
            .map(|reference| (text(&reference["uid"]), standing(&alive, resources, key, reference)))
            .collect();
        let of = |wanted: &[Standing]| -> BTreeSet<String> {
            let those = standings.iter().filter(|(_, standing)| wanted.contains(standing));
            those.map(|(uid, _)| (*uid).to_owned()).collect()
        };
        let orphaning = of(&[Standing::Orphaning]);
        if !orphaning.is_empty() {
            owning.extend(orphaning.iter().cloned());
            work.push((key.clone(), Work::Disown(orphaning)));
            continue;
        }
        let blocking = references.iter().filter(|reference| reference["blockOwnerDeletion"] == true);
        blocked.extend(blocking.map(|reference| text(&reference["uid"]).to_owned()));
        let collected = resources.get(&*key.resource).is_none_or(|resource| resource.collected);
        let leaves_it = references.is_empty() || !collected || !of(&[Standing::Unknown]).is_empty();
        if leaves_it || !object["metadata"]["deletionTimestamp"].is_null() {
            continue;
        }
        if of(&[Standing::Solid]).is_empty() {
            let awaited = !of(&[Standing::Waiting]).is_empty();
            let owns = owners_of_somebody.contains(text(&object["metadata"]["uid"]));
            work.push((key.clone(), Work::Delete(policy(object, awaited && owns))));
        } else {
            let lost = of(&[Standing::Gone, Standing::Waiting]);
            if !lost.is_empty() {
                work.push((key.clone(), Work::Disown(lost)));
            }
        }
    }
    for (key, object) in store.objects() {
        let uid = text(&object["metadata"]["uid"]);
        if is_dying_with(object, FOREGROUND) && !blocked.contains(uid) {
            work.push((key.clone(), Work::Unfinalize(FOREGROUND)));
        }
        if is_dying_with(object, ORPHAN) && !owning.contains(uid) {
            work.push((key.clone(), Work::Unfinalize(ORPHAN)));
        }
    }
    work
}

/// The propagation policy for a dependent without owners. Its own finalizers decide, unless an owner waits for it.
fn policy(object: &Value, awaited: bool) -> &'static str {
    if awaited || has(object, FOREGROUND) {
        "Foreground"
    } else if has(object, ORPHAN) {
        "Orphan"
    } else {
        "Background"
    }
}

fn standing(
    alive: &BTreeMap<&str, (&Key, &Arc<Value>)>,
    resources: &BTreeMap<String, Resource>,
    dependent: &Key,
    reference: &Value,
) -> Standing {
    let known = |resource: &Resource| {
        reference["kind"] == resource.kind.as_str()
            && reference["apiVersion"] == resource.api_version().as_str()
    };
    // The collector looks the owner up by name and kind, then compares the UID.
    let there = |(key, owner): &(&Key, &Arc<Value>)| {
        reference["name"] == *key.name
            && (key.namespace.is_empty() || key.namespace == dependent.namespace)
            && reference["kind"] == owner["kind"]
            && reference["apiVersion"] == owner["apiVersion"]
    };
    match alive.get(text(&reference["uid"])).copied().filter(there) {
        None if resources.values().any(known) => Standing::Gone,
        None => Standing::Unknown,
        Some((_, owner)) if is_dying_with(owner, ORPHAN) => Standing::Orphaning,
        Some((_, owner)) if is_dying_with(owner, FOREGROUND) => Standing::Waiting,
        Some(_) => Standing::Solid,
    }
}

fn is_dying_with(object: &Arc<Value>, finalizer: &str) -> bool {
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
