//! The keys of cached objects, for lookups and for wakeups.

use std::sync::Arc;

use vmpool_engine::model::Instance;
use vmpool_engine::{Disk, Machine, Uid};
use vmpool_platforms::Attachment;

/// A key of an object besides its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// The UID of the pool in its owner reference or in its label.
    Pool(Uid),
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
    fn keys(&self, namespace: &Arc<str>) -> Vec<Key>;
    /// Whether objects of this type are looked up by this kind of key.
    fn is_looked_up_by(_: &Key) -> bool {
        true
    }
}

impl Cached for Machine {
    fn name(&self) -> &Arc<str> {
        &self.id.name
    }
    fn uid(&self) -> &Uid {
        &self.id.uid
    }
    fn keys(&self, namespace: &Arc<str>) -> Vec<Key> {
        let mut keys = pools([self.owner.as_ref(), self.pool_uid_label.as_ref()]);
        // A user released it, and it still has the finalizer of the controller.
        if let Some(pool) = self.pool_label.as_ref().filter(|_| self.owner.is_none() && self.has_finalizer) {
            keys.push(Key::PoolName(namespace.clone(), pool.clone()));
        }
        keys.extend(self.held_disks().map(|disk| Key::Disk(namespace.clone(), disk.clone())));
        keys
    }
}

/// The owner may be a machine. No lookup uses its UID.
impl Cached for Disk {
    fn name(&self) -> &Arc<str> {
        &self.id.name
    }
    fn uid(&self) -> &Uid {
        &self.id.uid
    }
    fn keys(&self, namespace: &Arc<str>) -> Vec<Key> {
        let mut keys = pools([self.owner.as_ref().map(|owner| &owner.uid), self.pool_uid_label.as_ref()]);
        keys.push(Key::Disk(namespace.clone(), self.id.name.clone()));
        keys
    }
    fn is_looked_up_by(key: &Key) -> bool {
        // A disk is found by its name without an index.
        matches!(key, Key::Pool(_))
    }
}

impl Cached for Instance {
    fn name(&self) -> &Arc<str> {
        &self.id.name
    }
    fn uid(&self) -> &Uid {
        &self.id.uid
    }
    fn keys(&self, namespace: &Arc<str>) -> Vec<Key> {
        vec![Key::Machine(namespace.clone(), self.id.name.clone())]
    }
    fn is_looked_up_by(_: &Key) -> bool {
        // An instance is found by its name without an index.
        false
    }
}

impl Cached for Attachment {
    fn name(&self) -> &Arc<str> {
        &self.id.name
    }
    fn uid(&self) -> &Uid {
        &self.id.uid
    }
    fn keys(&self, namespace: &Arc<str>) -> Vec<Key> {
        self.disk.iter().map(|disk| Key::Disk(namespace.clone(), disk.clone())).collect()
    }
}

/// Each of them once.
fn pools(uids: [Option<&Uid>; 2]) -> Vec<Key> {
    let [owner, label] = uids;
    let label = label.filter(|label| owner != Some(*label));
    owner.into_iter().chain(label).cloned().map(Key::Pool).collect()
}
