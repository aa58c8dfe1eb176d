//! The identity of a pool in queues, caches and memories.

use std::fmt;
use std::sync::Arc;

use vmpool_engine::model::Owner;
use vmpool_engine::{PoolSpec, Uid};

/// The namespace and the UID of a pool. A user can write the UID of a pool into owner references and labels
/// of objects in other namespaces, so the UID alone identifies no pool.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PoolKey {
    pub(crate) namespace: Arc<str>,
    pub(crate) uid: Uid,
}

impl PoolKey {
    /// The pool with this UID in this namespace.
    pub(crate) fn new(namespace: &Arc<str>, uid: &Uid) -> Self {
        Self { namespace: namespace.clone(), uid: uid.clone() }
    }

    /// This pool.
    pub(crate) fn of(pool: &PoolSpec) -> Self {
        Self::new(&pool.namespace, &pool.id.uid)
    }

    /// The pool that owns an object of this namespace; `None` if another kind of object owns it.
    pub(crate) fn of_owner(namespace: &Arc<str>, owner: Option<&Owner>) -> Option<Self> {
        owner?.as_pool().map(|pool| Self::new(namespace, &pool.uid))
    }
}

impl fmt::Display for PoolKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.uid)
    }
}

impl fmt::Debug for PoolKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
