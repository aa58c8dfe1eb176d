//! Upgrading a stash of an older version: a new stash, to which the status of the machine is switched.

use super::name::join;
use super::object::{object_labels, reduced};
use super::{Decoded, Owner, Recorded, Stash, StoredVersion, compose, labels, recorded};
use crate::model::VERSION;

/// What to do with a stash in view of its version.
#[derive(Debug, Clone, PartialEq)]
pub enum Upgrade {
    /// It has the current version.
    Current,
    /// It is shared, so its owner upgrades it: other machines use it.
    Shared,
    /// Create this one, switch the status, then delete the old one.
    Replace(Box<Stash>),
}

/// Plans the upgrade of a stash for its machine.
pub fn upgrade(stash: &Stash, decoded: &Decoded, machine: &Owner) -> Upgrade {
    let labeled = stash.labels.get(labels::VERSION).is_some_and(|version| version == VERSION);
    if labeled && decoded.stored == StoredVersion::V1beta1 {
        return Upgrade::Current;
    }
    if stash.is_shared() {
        return Upgrade::Shared;
    }
    let object = &decoded.object;
    let identity = &object.identity;
    let known = identity.uid.clone().zip(identity.generation);
    let state = known.map(|(uid, generation)| Recorded { uid, generation }).or_else(|| recorded(&stash.name));
    let name = match &state {
        Some(state) => compose(&machine.name, &identity.name, VERSION, state),
        None => join(&stash.name, VERSION),
    };
    Upgrade::Replace(Box::new(Stash {
        name,
        namespace: stash.namespace.clone(),
        owners: vec![machine.clone()],
        labels: object_labels(object, state.as_ref()),
        data: reduced(object.document()),
    }))
}

/// A stash with the same name and the same owners in the current version, for the owner of a shared one. Labels of other
/// components stay.
#[must_use]
pub fn in_place(stash: &Stash, decoded: &Decoded) -> Stash {
    let object = &decoded.object;
    let known = object.identity.uid.clone().zip(object.identity.generation);
    let state = known.map(|(uid, generation)| Recorded { uid, generation }).or_else(|| recorded(&stash.name));
    let mut labels = stash.labels.clone();
    labels.extend(object_labels(object, state.as_ref()));
    Stash { labels, data: reduced(object.document()), ..stash.clone() }
}
