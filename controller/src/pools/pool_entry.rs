//! A pool as the cache contains it, and with its current revision.

use std::sync::Arc;

use kube::Resource;
use vmpool_api::annotations::WAITING_CLAIMS;
use vmpool_engine::model::{CurrentRevision, RequestedRevision};
use vmpool_engine::{Pool, Uid};
use vmpool_kit::events::EventSubject;
use vmpool_platforms::Platform;

use crate::pools::cache::{CacheKey, Cached};
use crate::pools::pool_key::PoolKey;

/// A stored pool and its facts.
pub(crate) struct PoolEntry<P: Platform, R = CurrentRevision> {
    pub(crate) facts: Pool<R>,
    pub(crate) object: Arc<P::Pool>,
}

/// A pool as the cache contains it. Its current revision is not known.
pub(crate) type CachedPool<P> = PoolEntry<P, RequestedRevision>;

impl<P: Platform> CachedPool<P> {
    pub(crate) fn read(object: P::Pool) -> Self {
        Self { facts: P::read_pool(&object), object: Arc::new(object) }
    }

    /// The pool with its current revision.
    pub(crate) fn at(&self, revision: CurrentRevision) -> PoolEntry<P> {
        let facts = Pool { spec: self.facts.spec.clone(), revision };
        PoolEntry { facts, object: self.object.clone() }
    }
}

impl<P: Platform, R> PoolEntry<P, R> {
    /// The subject of events about this pool.
    pub(crate) fn subject(&self) -> EventSubject {
        EventSubject {
            api_version: P::Pool::api_version(&()).into_owned(),
            kind: P::Pool::kind(&()).into_owned(),
            namespace: self.facts.namespace.clone(),
            id: self.facts.id.clone(),
        }
    }
}

impl<P: Platform> CachedPool<P> {
    /// The claims that wait for a machine, which autoscalers read.
    fn waiting_claims(&self) -> Option<&String> {
        self.object.meta().annotations.as_ref()?.get(WAITING_CLAIMS)
    }
}

/// Pools with equal facts are equal: no decision depends on other fields, and every change of the spec
/// changes the generation.
impl<P: Platform> PartialEq for CachedPool<P> {
    fn eq(&self, other: &Self) -> bool {
        self.facts == other.facts && self.waiting_claims() == other.waiting_claims()
    }
}

impl<P: Platform> Cached for CachedPool<P> {
    fn name(&self) -> &Arc<str> {
        &self.facts.id.name
    }
    fn uid(&self) -> &Uid {
        &self.facts.id.uid
    }
    fn keys(&self, namespace: &Arc<str>) -> Vec<CacheKey> {
        vec![CacheKey::Pool(PoolKey::new(namespace, &self.facts.id.uid))]
    }
}
