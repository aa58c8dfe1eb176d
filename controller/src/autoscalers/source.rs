//! The pools of a platform, as autoscalers read them.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Resource;
use vmpool_api::ObjectKey;
use vmpool_kit::object::collection_path;
use vmpool_platforms::Platform;

use super::hub::{AutoscaledPools, PoolHub, PoolReadError};
use super::pool_facts::AutoscaledPoolFacts;
use crate::pools::cache::CacheKey;
use crate::pools::context::PoolContext;
use crate::pools::live::ReadError;
use crate::pools::pool_key::PoolKey;
use crate::pools::watches;

/// Serves the pools of a platform to autoscalers while its context exists.
pub(crate) fn serve_pools<P: Platform>(hub: &PoolHub, context: &Arc<PoolContext<P>>) {
    let pools: Arc<dyn AutoscaledPools> = context.clone();
    hub.serve(&P::Pool::group(&()), Arc::downgrade(&pools));
}

impl<P: Platform> AutoscaledPools for PoolContext<P> {
    fn is_synced(&self) -> bool {
        watches::is_synced(self)
    }

    fn observe(&self, pool: &ObjectKey) -> Option<(PoolKey, AutoscaledPoolFacts)> {
        let seen = self.caches.pools.get(&pool.namespace, &pool.name)?;
        let key = PoolKey::of(&seen.facts.facts);
        let machines = self.caches.machines.by_key(&CacheKey::Pool(key.clone()));
        let machines = machines.iter().map(|machine| &**machine);
        let object = &*seen.facts.object;
        let mut facts = AutoscaledPoolFacts::read(object, &seen.facts.facts, machines, self.leader.env.now());
        // An update that changes no fact replaces only the version.
        facts.version = Some(seen.version.to_string());
        Some((key, facts))
    }

    fn read_live<'a>(
        &'a self,
        pool: &'a ObjectKey,
    ) -> BoxFuture<'a, Result<Option<AutoscaledPoolFacts>, PoolReadError>> {
        read_pool_live(self, pool).map(|read| read.map_err(|error| PoolReadError(error.into()))).boxed()
    }

    fn collection(&self, namespace: &str) -> String {
        collection_path::<P::Pool>(namespace)
    }
}

/// Reads a pool, and then its machines.
async fn read_pool_live<P: Platform>(
    context: &PoolContext<P>,
    pool: &ObjectKey,
) -> Result<Option<AutoscaledPoolFacts>, ReadError> {
    let Some(object) = context.get_live::<P::Pool>(&pool.namespace, &pool.name).await? else {
        return Ok(None);
    };
    let facts = P::read_pool(&object);
    let mut machines = Vec::new();
    context
        .list_live::<P::Machine>(&pool.namespace, |machine| {
            let mut machine = P::read_machine(&machine);
            if machine.belongs_to(&facts.id) {
                // The cache remembers more than the object shows.
                let seen = context.caches.machines.get(&pool.namespace, &machine.id.name);
                let same = seen.filter(|seen| seen.facts.id == machine.id);
                machine.been_ready |= same.is_some_and(|seen| seen.facts.been_ready);
                machines.push(machine);
            }
        })
        .await?;
    Ok(Some(AutoscaledPoolFacts::read(&object, &facts, &machines, context.leader.env.now())))
}
