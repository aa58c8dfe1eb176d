//! Upgrading a copy of an older version: a new copy, to which the status of the machine is switched.

use super::name::join_name_parts;
use super::object::{object_labels, reduce_metadata};
use super::{
    CopiedObjectState, CopyOwner, DecodedCopy, InstanceTypeCopy, StoredVersion, compose_copy_name, labels,
    parse_copy_name,
};
use crate::model::VERSION;

/// What to do with a copy in view of its version.
#[derive(Debug, Clone, PartialEq)]
pub enum CopyUpgrade {
    /// It has the current version, or a later one.
    Current,
    /// It is shared, so its owner upgrades it: other machines use it.
    Shared,
    /// Create this one, switch the status, then delete the old one.
    Replace(Box<InstanceTypeCopy>),
}

/// Plans the upgrade of a copy for its machine.
pub fn plan_copy_upgrade(copy: &InstanceTypeCopy, decoded: &DecodedCopy, machine: &CopyOwner) -> CopyUpgrade {
    let labeled = copy.labels.get(labels::VERSION).is_some_and(|version| version == VERSION);
    let is_later = decoded.stored == StoredVersion::V1;
    if is_later || labeled && decoded.stored == StoredVersion::V1beta1 {
        return CopyUpgrade::Current;
    }
    if copy.is_shared() {
        return CopyUpgrade::Shared;
    }
    let object = &decoded.object;
    let identity = &object.identity;
    let known = identity.uid.clone().zip(identity.generation);
    let state = known
        .map(|(uid, generation)| CopiedObjectState { uid, generation })
        .or_else(|| parse_copy_name(&copy.name));
    let name = match &state {
        Some(state) => compose_copy_name(&machine.name, &identity.name, VERSION, state),
        None => join_name_parts(&copy.name, VERSION),
    };
    CopyUpgrade::Replace(Box::new(InstanceTypeCopy {
        name,
        namespace: copy.namespace.clone(),
        owners: vec![machine.clone()],
        labels: object_labels(object, state.as_ref()),
        data: reduce_metadata(object.document()),
    }))
}

/// A copy with the same name and the same owners in the current version, for the owner of a shared one.
/// Labels of other components stay.
#[must_use]
pub fn in_place(copy: &InstanceTypeCopy, decoded: &DecodedCopy) -> InstanceTypeCopy {
    let object = &decoded.object;
    let known = object.identity.uid.clone().zip(object.identity.generation);
    let state = known
        .map(|(uid, generation)| CopiedObjectState { uid, generation })
        .or_else(|| parse_copy_name(&copy.name));
    let mut labels = copy.labels.clone();
    labels.extend(object_labels(object, state.as_ref()));
    InstanceTypeCopy { labels, data: reduce_metadata(object.document()), ..copy.clone() }
}
