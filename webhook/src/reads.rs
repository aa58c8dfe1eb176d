//! What is read for a request: live from the API server, some at a time, and within a deadline.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{self, StreamExt as _};
use kube::Client;
use serde_json::Value;
use tokio::sync::Semaphore;
use vmpool_api::names::is_dns_subdomain;
use vmpool_engine::admission::{Found, Lookup, LookupResult, Pending, Subject};
use vmpool_runtime::Env;

use crate::callers::Caller;
use crate::metrics::{Metrics, ReadResult, Resource};
use get::get;

mod get;

/// For one read. The API server waits ten seconds for the answer.
pub(crate) const DEADLINE: Duration = Duration::from_secs(4);
/// For all reads of a request.
const DEADLINE_OF_ALL: Duration = Duration::from_secs(8);
/// Most images and snapshots that are read for a request. A machine has sixteen devices.
const MOST: usize = 40;
/// Reads of a request at a time.
const AT_A_TIME: usize = 4;
/// Reads of all requests at a time.
const OF_ALL_AT_A_TIME: usize = 8;

/// Reads objects, and counts that.
#[derive(Clone)]
pub(crate) struct Reader {
    client: Client,
    env: Env,
    metrics: Arc<Metrics>,
    turns: Arc<Semaphore>,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl Reader {
    pub(crate) fn new(client: Client, env: Env, metrics: Arc<Metrics>) -> Self {
        Self { client, env, metrics, turns: Arc::new(Semaphore::new(OF_ALL_AT_A_TIME)) }
    }

    /// A pool, as the API server has it now.
    pub(crate) async fn pool(&self, namespace: &str, lookup: Lookup) -> Found<Value> {
        let (_, found) = self.read(namespace, lookup, self.end()).await;
        found
    }

    /// When the reads of a request that begin now have to be done.
    fn end(&self) -> Duration {
        self.env.uptime() + DEADLINE_OF_ALL
    }

    /// Reads everything that the rules need, as far as the caller may know it.
    pub(crate) async fn gather(&self, namespace: &str, pending: &mut (dyn Pending + Send), caller: Caller) {
        let end = self.end();
        loop {
            let lookups = pending.lookups();
            if lookups.is_empty() {
                return;
            }
            // A verdict about some objects tells whether they exist, and how large they are. A revision is no secret: it
            // counts only if it belongs to the pool with the UID of the review.
            let most = if caller == Caller::ApiServer { MOST } else { 0 };
            let mut revealing: BTreeMap<Subject, usize> = BTreeMap::new();
            let (wanted, rest): (Vec<_>, Vec<_>) = lookups.into_iter().partition(|lookup| {
                let count = revealing.entry(lookup.subject).or_default();
                *count += 1;
                !lookup.is_revealing() || *count <= most
            });
            let reads = wanted.into_iter().map(|lookup| self.read(namespace, lookup, end).boxed());
            let mut results = some_at_a_time(reads).await;
            results.extend(rest.into_iter().map(|lookup| (lookup, Found::Absent)));
            pending.add(results);
        }
    }

    async fn read(&self, namespace: &str, lookup: Lookup, end: Duration) -> LookupResult {
        let Lookup { api_version, plural, namespaced, ref name, .. } = lookup;
        let path = path(api_version, namespaced.then_some(namespace), plural, name.as_deref());
        let found = self.in_time(&lookup, path, end).await;
        (lookup, found)
    }

    /// One read, counted. `None` as the path means that no object can have such a name.
    async fn in_time(&self, lookup: &Lookup, path: Option<String>, end: Duration) -> Found<Value> {
        let Some(path) = path else { return Found::Absent };
        let left = end.saturating_sub(self.env.uptime()).min(DEADLINE);
        let read = async {
            let _turn = self.turns.acquire().await;
            get(&self.client, lookup, &path).await
        };
        let found = match self.env.timeout(left, read).await {
            Ok(found) => found,
            Err(elapsed) => Found::Failed(elapsed.to_string()),
        };
        let result = match &found {
            Found::There(_) => ReadResult::Found,
            Found::Absent => ReadResult::Absent,
            Found::Failed(reason) => {
                tracing::warn!(path, reason, "a read for a review failed");
                ReadResult::Failed
            }
        };
        self.metrics.read(Resource::of(lookup.subject), result);
        found
    }
}

/// What reads find, in their order.
async fn some_at_a_time<T>(reads: impl Iterator<Item = BoxFuture<'_, T>>) -> Vec<T> {
    let reads: Vec<_> = reads.collect();
    stream::iter(reads).buffered(AT_A_TIME).collect().await
}

/// The path of an object, or of all without a name. `None` if a part is no name of an object: names come from users, and
/// one such as `../secrets/key` must not lead anywhere.
fn path(api: &str, namespace: Option<&str>, plural: &str, name: Option<&str>) -> Option<String> {
    if !namespace.into_iter().chain(name).all(is_dns_subdomain) {
        return None;
    }
    let namespace = namespace.map_or_else(String::new, |namespace| format!("namespaces/{namespace}/"));
    let name = name.map_or_else(String::new, |name| format!("/{name}"));
    Some(format!("/apis/{api}/{namespace}{plural}{name}"))
}

#[cfg(test)]
mod tests;
