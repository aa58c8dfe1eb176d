//! The garbage collector: one decision at a time, so that whoever drives it decides when.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::delete::{FOREGROUND, ORPHAN, delete};
use crate::resource::Resource;
use crate::store::{Key, Store};
use crate::write::{Wanted, commit};

/// Does one thing that a garbage collector would do now, the `choice`-th of those that there are; says to which object.
pub(crate) fn collect(
    store: &mut Store,
    resources: &BTreeMap<String, Resource>,
    now: Timestamp,
    choice: u64,
) -> Option<Key> {
    let candidates = candidates(store);
    if candidates.is_empty() {
        return None;
    }
    let index = usize::try_from(choice % candidates.len() as u64).unwrap_or_default();
    let (key, work) = candidates.into_iter().nth(index)?;
    let object = store.get(&key)?.clone();
    match work {
        Work::Delete => {
            let resource = resources.get(&*key.resource)?;
            delete(store, resource, &key, &json!("Background"), now)?;
        }
        Work::Unfinalize(finalizer) => {
            let mut new = (*object).clone();
            if let Some(finalizers) = new["metadata"]["finalizers"].as_array_mut() {
                finalizers.retain(|other| other != finalizer);
            }
            commit(store, Wanted { key: key.clone(), old: Some(object), new });
        }
        Work::Disown(owner) => {
            let mut new = (*object).clone();
            if let Some(owners) = new["metadata"]["ownerReferences"].as_array_mut() {
                owners.retain(|reference| reference["uid"] != owner.as_str());
            }
            commit(store, Wanted { key: key.clone(), old: Some(object), new });
        }
    }
    Some(key)
}

enum Work {
    Delete,
    Unfinalize(&'static str),
    Disown(String),
}

fn candidates(store: &Store) -> Vec<(Key, Work)> {
    let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let alive: BTreeSet<String> = store.objects().map(|(_, object)| uid(object)).collect();
    let waiting = |finalizer: &str| -> BTreeSet<String> {
        let waits = |object: &Arc<Value>| {
            !object["metadata"]["deletionTimestamp"].is_null()
                && object["metadata"]["finalizers"]
                    .as_array()
                    .is_some_and(|all| all.iter().any(|other| other == finalizer))
        };
        store.objects().filter(|(_, object)| waits(object)).map(|(_, object)| uid(object)).collect()
    };
    let (foreground, orphaning) = (waiting(FOREGROUND), waiting(ORPHAN));
    let mut work = Vec::new();
    let mut blocked = BTreeSet::new();
    let mut owning = BTreeSet::new();
    for (key, object) in store.objects() {
        let owners = object["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
        if owners.is_empty() {
            continue;
        }
        let named = |owner: &Value| owner["uid"].as_str().unwrap_or_default().to_owned();
        for owner in owners.iter().filter(|owner| orphaning.contains(&named(owner))) {
            owning.insert(named(owner));
            work.push((key.clone(), Work::Disown(named(owner))));
        }
        if owners.iter().any(|owner| orphaning.contains(&named(owner))) {
            continue;
        }
        for owner in owners.iter().filter(|owner| owner["blockOwnerDeletion"] == true) {
            blocked.insert(named(owner));
        }
        let goes =
            owners.iter().all(|owner| !alive.contains(&named(owner)) || foreground.contains(&named(owner)));
        if goes && object["metadata"]["deletionTimestamp"].is_null() {
            work.push((key.clone(), Work::Delete));
        }
    }
    for (key, object) in store.objects() {
        let uid = uid(object);
        if foreground.contains(&uid) && !blocked.contains(&uid) {
            work.push((key.clone(), Work::Unfinalize(FOREGROUND)));
        }
        if orphaning.contains(&uid) && !owning.contains(&uid) {
            work.push((key.clone(), Work::Unfinalize(ORPHAN)));
        }
    }
    work
}
