//! The keys of cached objects, for lookups and for wakeups.

use std::sync::Arc;

use vmpool_engine::ledger::{self, VersionedFacts};
use vmpool_engine::model::{DiskRestore, Instance, Owner};
use vmpool_engine::{Disk, Machine, Uid};
use vmpool_platforms::DiskAttachment;

use crate::pools::pool_key::PoolKey;

/// A key of an object besides its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CacheKey {
    /// Its namespace, and the UID of the pool in its owner reference or in its label.
    Pool(PoolKey),
    /// Namespace and name of the pool that it belonged to, if it has no owner.
    PoolName(Arc<str>, Arc<str>),
    /// Namespace and name of the machine that it is an instance of.
    Machine(Arc<str>, Arc<str>),
    /// Namespace and name of the disk that it is or that it refers to.
    Disk(Arc<str>, Arc<str>),
}

/// Facts that the cache can hold.
pub(crate) trait Cached: PartialEq + Send + Sync + 'static {
    fn name(&self) -> &Arc<str>;
    fn uid(&self) -> &Uid;
    /// Its keys.
    fn keys(&self, namespace: &Arc<str>) -> Vec<CacheKey>;
    /// `seen` with what only the earlier facts show.
    fn keep_history(seen: VersionedFacts<Self>, _earlier: &Self) -> VersionedFacts<Self>
    where
        Self: Sized,
    {
        seen
    }
    /// Whether the platform deletes the object, and creates another one with its name.
    fn is_replaced(&self) -> bool {
        false
    }
    /// Whether objects of this type are looked up by this kind of key.
    fn is_looked_up_by(_: &CacheKey) -> bool {
        true
    }
}

impl Cached for Machine {
    fn name(&self) -> &Arc<str> {
        &self.id.name
    }
    fn keep_history(seen: VersionedFacts<Self>, earlier: &Self) -> VersionedFacts<Self> {
        ledger::keep_history(seen, earlier)
    }
    fn uid(&self) -> &Uid {
        &self.id.uid
    }
    fn keys(&self, namespace: &Arc<str>) -> Vec<CacheKey> {
        let mut keys = pool_keys(namespace, self.owner.as_deref(), self.pool_uid_label.as_ref());
        // A user released it, and it still has the finalizer of the controller.
        if let Some(pool) = self.pool_label.as_ref().filter(|_| self.owner.is_none() && self.has_finalizer) {
            keys.push(CacheKey::PoolName(namespace.clone(), pool.clone()));
        }
        keys.extend(self.held_disks().map(|disk| CacheKey::Disk(namespace.clone(), disk.clone())));
        keys
    }
}

/// The owner may be a machine. It is no key, because no lookup uses it.
impl Cached for Disk {
    fn name(&self) -> &Arc<str> {
        &self.id.name
    }
    fn uid(&self) -> &Uid {
        &self.id.uid
    }
    fn keys(&self, namespace: &Arc<str>) -> Vec<CacheKey> {
        let mut keys = pool_keys(namespace, self.owner.as_ref(), self.pool_uid_label.as_ref());
        keys.push(CacheKey::Disk(namespace.clone(), self.id.name.clone()));
        keys
    }
    fn is_replaced(&self) -> bool {
        self.restore == DiskRestore::Replaced
    }
    fn is_looked_up_by(key: &CacheKey) -> bool {
        // A disk is found by its name without an index.
        matches!(key, CacheKey::Pool(_))
    }
}

impl Cached for Instance {
    fn name(&self) -> &Arc<str> {
        &self.id.name
    }
    fn uid(&self) -> &Uid {
        &self.id.uid
    }
    fn keys(&self, namespace: &Arc<str>) -> Vec<CacheKey> {
        vec![CacheKey::Machine(namespace.clone(), self.id.name.clone())]
    }
    fn is_looked_up_by(_: &CacheKey) -> bool {
        // An instance is found by its name without an index.
        false
    }
}

impl Cached for DiskAttachment {
    fn name(&self) -> &Arc<str> {
        &self.id.name
    }
    fn uid(&self) -> &Uid {
        &self.id.uid
    }
    fn keys(&self, namespace: &Arc<str>) -> Vec<CacheKey> {
        self.disk.iter().map(|disk| CacheKey::Disk(namespace.clone(), disk.clone())).collect()
    }
}

/// The pool that owns an object, and the one in its label, each once.
fn pool_keys(namespace: &Arc<str>, owner: Option<&Owner>, label: Option<&Uid>) -> Vec<CacheKey> {
    let owner = PoolKey::of_owner(namespace, owner);
    let label = label.map(|uid| PoolKey::new(namespace, uid)).filter(|label| owner.as_ref() != Some(label));
    owner.into_iter().chain(label).map(CacheKey::Pool).collect()
}
