//! The owners of stored objects: the only place that translates owner references for the engine.
//!
//! An owner counts only with namespace, group, kind, name and UID. The namespace is that of the object with
//! the reference, and callers compare it with objects of the same namespace only.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use vmpool_api::OwnerIdentity;
use vmpool_engine::ObjectId;
use vmpool_engine::model::{Owner, OwnerKind};

use crate::ApiObject;
use crate::intern::{InternTable, intern_text};

/// The controller owner of an object. `P` are the pools and `M` the machines of the platform.
pub fn owner_of<P: ApiObject, M: ApiObject>(metadata: &ObjectMeta) -> Option<Owner> {
    let owner = OwnerIdentity::of_controller(metadata)?;
    Some(match kind_of::<P, M>(owner) {
        // Many objects name the same pool.
        OwnerKind::Pool => {
            let id = ObjectId { name: intern_text(owner.name), uid: intern_text(owner.uid).into() };
            Owner { kind: OwnerKind::Pool, id }
        }
        kind => Owner { kind, id: ObjectId::new(owner.name, owner.uid) },
    })
}

/// The same, shared with recent calls with the same result.
pub fn shared_owner_of<P: ApiObject, M: ApiObject>(metadata: &ObjectMeta) -> Option<Arc<Owner>> {
    static RECENT: InternTable<Owner> = InternTable::new();
    let owner = owner_of::<P, M>(metadata)?;
    Some(RECENT.get(&owner, || Arc::new(owner.clone())))
}

fn kind_of<P: ApiObject, M: ApiObject>(owner: OwnerIdentity<'_>) -> OwnerKind {
    if is_a::<P>(owner) {
        OwnerKind::Pool
    } else if is_a::<M>(owner) {
        OwnerKind::Machine
    } else {
        OwnerKind::Other
    }
}

/// Whether an owner has the group and the kind of `K`.
pub fn is_a<K: ApiObject>(owner: OwnerIdentity<'_>) -> bool {
    owner.is_a(&K::group(&()), &K::kind(&()))
}

/// Whether an owner of an object is the object `id` of type `K` in the same namespace.
pub fn is_owner<K: ApiObject>(owner: OwnerIdentity<'_>, id: &ObjectId) -> bool {
    is_a::<K>(owner) && owner.name == &*id.name && owner.uid == id.uid.as_str()
}

/// Whether the object `id` of type `K` is the controller owner of an object in the same namespace.
pub fn is_controlled_by<K: ApiObject>(metadata: &ObjectMeta, id: &ObjectId) -> bool {
    OwnerIdentity::of_controller(metadata).is_some_and(|owner| is_owner::<K>(owner, id))
}

#[cfg(test)]
mod tests;
