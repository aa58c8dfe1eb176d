//! Where autoscalers find pools: the leadership of each platform serves its pools here, and reports changes.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Weak};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use vmpool_api::ObjectKey;
use vmpool_platforms::removal::RemovalApi;

use super::pool_facts::AutoscaledPoolFacts;
use crate::pools::pool_key::PoolKey;

/// A live read of a pool failed.
#[derive(Debug, thiserror::Error)]
#[error("reading a pool and its machines")]
pub(super) struct PoolReadError(#[source] pub(super) Box<dyn Error + Send + Sync>);

/// The pools of a platform.
pub(super) trait AutoscaledPools: Send + Sync {
    /// Whether the first lists are complete.
    fn is_synced(&self) -> bool;

    /// A pool as the caches show it, and its key.
    fn observe(&self, pool: &ObjectKey) -> Option<(PoolKey, AutoscaledPoolFacts)>;

    /// A pool and its machines as the API server has them now, the pool first.
    fn read_live<'a>(
        &'a self,
        pool: &'a ObjectKey,
    ) -> BoxFuture<'a, Result<Option<AutoscaledPoolFacts>, PoolReadError>>;

    /// The API path of the pools of a namespace.
    fn collection(&self, namespace: &str) -> String;
}

/// What is known of the pools of an API group.
pub(super) enum PoolsOfGroup {
    /// The controller does not reconcile them.
    NotServed,
    /// They are not read yet, or the cluster does not serve them now.
    NotRead,
    /// They are these.
    Served(Arc<dyn AutoscaledPools>, &'static RemovalApi),
}

/// The platform of an API group.
struct HubEntry {
    removal: &'static RemovalApi,
    pools: Option<Weak<dyn AutoscaledPools>>,
}

/// Wakes an autoscaler.
type WakeAutoscaler = dyn Fn(&ObjectKey) + Send + Sync;

/// The pools that autoscalers can scale. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct PoolHub(Arc<HubState>);

#[derive(Default)]
struct HubState {
    platforms: Mutex<BTreeMap<String, HubEntry>>,
    /// The pool that each autoscaler has read; `None` if it found none.
    users: Mutex<BTreeMap<ObjectKey, Option<PoolKey>>>,
    wake: Mutex<Option<Box<WakeAutoscaler>>>,
}

impl PoolHub {
    /// The controller reconciles the pools of this group.
    pub(crate) fn declare(&self, group: &str, removal: &'static RemovalApi) {
        self.0.platforms.lock().insert(group.to_owned(), HubEntry { removal, pools: None });
    }

    /// These are the pools of a group from now on.
    pub(super) fn serve(&self, group: &str, pools: Weak<dyn AutoscaledPools>) {
        if let Some(entry) = self.0.platforms.lock().get_mut(group) {
            entry.pools = Some(pools);
        }
        self.all_changed();
    }

    /// Calls `wake` for each autoscaler whose pool changes.
    pub(super) fn on_change(&self, wake: impl Fn(&ObjectKey) + Send + Sync + 'static) {
        *self.0.wake.lock() = Some(Box::new(wake));
    }

    /// The pools of a group.
    pub(super) fn find(&self, group: &str) -> PoolsOfGroup {
        let platforms = self.0.platforms.lock();
        let Some(entry) = platforms.get(group) else { return PoolsOfGroup::NotServed };
        match entry.pools.as_ref().and_then(Weak::upgrade).filter(|pools| pools.is_synced()) {
            Some(pools) => PoolsOfGroup::Served(pools, entry.removal),
            None => PoolsOfGroup::NotRead,
        }
    }

    /// An autoscaler reads this pool, or found none.
    pub(super) fn note_user(&self, autoscaler: &ObjectKey, pool: Option<PoolKey>) {
        self.0.users.lock().insert(autoscaler.clone(), pool);
    }

    /// An autoscaler is gone.
    pub(super) fn forget_user(&self, autoscaler: &ObjectKey) {
        self.0.users.lock().remove(autoscaler);
    }

    /// A pool or one of its machines changed. Autoscalers without a pool in its namespace may find it now.
    pub(crate) fn pool_changed(&self, changed: &PoolKey) {
        self.wake_where(|autoscaler, pool| match pool {
            Some(pool) => pool == changed,
            None => *autoscaler.namespace == *changed.namespace,
        });
    }

    fn all_changed(&self) {
        self.wake_where(|_, _| true);
    }

    fn wake_where(&self, concerns: impl Fn(&ObjectKey, Option<&PoolKey>) -> bool) {
        let users = self.0.users.lock();
        let concerned = users.iter().filter(|(autoscaler, pool)| concerns(autoscaler, pool.as_ref()));
        let keys: Vec<ObjectKey> = concerned.map(|(autoscaler, _)| autoscaler.clone()).collect();
        drop(users);
        if let Some(wake) = &*self.0.wake.lock() {
            keys.iter().for_each(wake);
        }
    }
}
