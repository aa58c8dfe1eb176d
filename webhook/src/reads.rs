//! Reads of the objects that rules need. They are not cached, and their concurrency and duration are limited.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{self, StreamExt as _};
use kube::Client;
use serde_json::Value;
use tokio::sync::Semaphore;
use vmpool_api::names::is_dns_subdomain;
use vmpool_decision::{
    AdmissionRead, AdmissionReads, DryRun, DryRunResult, LookupNamespace, LookupOutcome, LookupSubject,
    Needs, ObjectLookup, Step,
};
use vmpool_runtime::Env;
use vmpool_runtime::env::TimeoutElapsed;

use crate::callers::Caller;
use crate::metrics::{ReadResult, Resource, WebhookMetrics};
use create::send_dry_run;
use get::{FieldSelection, get_object};

mod create;
mod exchange;
mod get;

/// The deadline of one read. kube-apiserver waits ten seconds for the response to a review.
pub(crate) const DEADLINE: Duration = Duration::from_secs(4);
/// The deadline of all reads for a review.
const REVIEW_DEADLINE: Duration = Duration::from_secs(8);
/// The maximum number of objects of one subject that are read for a review. A machine has up to 16 devices.
const MAX_OBJECTS: usize = 40;
/// The maximum number of times that a review needs further reads. A name that is inferred needs up to four
/// objects, one after the other, and then the object itself.
const MAX_ROUNDS: usize = 16;
/// The maximum number of concurrent reads for a review.
const CONCURRENT_READS_PER_REVIEW: usize = 4;
/// The maximum number of concurrent reads for all reviews.
const CONCURRENT_READS: usize = 8;

/// The rules need too many reads.
#[derive(Debug, thiserror::Error)]
#[error("the object needs more than {MAX_ROUNDS} objects")]
pub(crate) struct TooManyReads;

/// Reads objects and counts the reads.
#[derive(Clone)]
pub(crate) struct Reader {
    client: Client,
    env: Env,
    metrics: Arc<WebhookMetrics>,
    permits: Arc<Semaphore>,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl Reader {
    pub(crate) fn new(client: Client, env: Env, metrics: Arc<WebhookMetrics>) -> Self {
        Self { client, env, metrics, permits: Arc::new(Semaphore::new(CONCURRENT_READS)) }
    }

    /// The uptime at which reads for a review that starts now must have ended.
    fn deadline(&self) -> Duration {
        self.env.uptime() + REVIEW_DEADLINE
    }

    /// Evaluates the rules, and reads what they need, as far as the webhook reads it for this caller.
    ///
    /// # Errors
    /// The rules need reads more than [`MAX_ROUNDS`] times.
    pub(crate) async fn decide<T>(
        &self,
        namespace: &str,
        caller: Caller,
        mut rules: impl FnMut(&AdmissionReads) -> Step<T, AdmissionRead>,
    ) -> Result<T, TooManyReads> {
        let deadline = self.deadline();
        // Otherwise a client could find out how the platform validates objects that another client chose.
        let mut reads = AdmissionReads::new(caller == Caller::ApiServer);
        let mut counts: BTreeMap<LookupSubject, usize> = BTreeMap::new();
        for _ in 0..MAX_ROUNDS {
            let Needs(needs) = match rules(&reads) {
                Ok(result) => return Ok(result),
                Err(needs) => needs,
            };
            let mut lookups = Vec::new();
            for read in needs {
                match read {
                    AdmissionRead::DryRun(dry_run) => {
                        reads.add_dry_run(self.create(namespace, &dry_run, deadline).await);
                    }
                    AdmissionRead::Object(lookup) => {
                        let count = counts.entry(lookup.subject).or_default();
                        *count += 1;
                        if lookup.reveals && *count > MAX_OBJECTS {
                            reads.add_object(lookup, None);
                        } else {
                            lookups.push(lookup);
                        }
                    }
                }
            }
            let found = lookups.into_iter().map(|lookup| {
                let read = async move {
                    let found = self.read(namespace, &lookup, deadline).await;
                    (lookup, found)
                };
                read.boxed()
            });
            for (lookup, found) in run_reads(found).await {
                reads.add_object(lookup, Some(found));
            }
        }
        Err(TooManyReads)
    }

    /// Creates an object as a dry run, and counts that as a read.
    async fn create(&self, namespace: &str, dry_run: &DryRun, deadline: Duration) -> DryRunResult {
        let Some(path) = resource_path(dry_run.api_version, Some(namespace), dry_run.plural, None) else {
            return DryRunResult::Accepted;
        };
        let result = self.limited(deadline, send_dry_run(&self.client, dry_run, &path)).await;
        let result = result.unwrap_or_else(|elapsed| DryRunResult::Failed(elapsed.to_string()));
        if let DryRunResult::Failed(reason) = &result {
            tracing::warn!(path, reason, "creating an object as a dry run for a review failed");
        }
        let failed = matches!(result, DryRunResult::Failed(_));
        self.metrics.read(Resource::Machine, if failed { ReadResult::Failed } else { ReadResult::Found });
        result
    }

    /// Waits for a request within the limits of all requests. `Err` if it takes too long.
    async fn limited<T>(
        &self,
        deadline: Duration,
        request: impl Future<Output = T>,
    ) -> Result<T, TimeoutElapsed> {
        let left = deadline.saturating_sub(self.env.uptime()).min(DEADLINE);
        let permitted = async {
            let _permit = self.permits.acquire().await;
            request.await
        };
        self.env.timeout(left, permitted).await
    }

    /// A page of a list at a path of the API.
    pub(crate) async fn page(&self, path: &str, fields: &[&str], resource: Resource) -> LookupOutcome<Value> {
        self.fetch(path, FieldSelection { fields, is_list: true }, resource, self.deadline()).await
    }

    /// Reads one object. If the lookup contains an invalid name, no such object can exist.
    async fn read(&self, namespace: &str, lookup: &ObjectLookup, deadline: Duration) -> LookupOutcome<Value> {
        let ObjectLookup { api_version, plural, name, .. } = lookup;
        let namespace = match &lookup.namespace {
            LookupNamespace::Cluster => None,
            LookupNamespace::Reviewed => Some(namespace),
            LookupNamespace::Named(other) => Some(other.as_str()),
        };
        let path = resource_path(api_version, namespace, plural, name.as_deref());
        let Some(path) = path else { return LookupOutcome::Absent };
        let selection = FieldSelection { fields: lookup.fields, is_list: name.is_none() };
        self.fetch(&path, selection, Resource::of(lookup.subject), deadline).await
    }

    /// Reads and counts one object.
    async fn fetch(
        &self,
        path: &str,
        selection: FieldSelection<'_>,
        resource: Resource,
        deadline: Duration,
    ) -> LookupOutcome<Value> {
        let found = self.limited(deadline, get_object(&self.client, selection, path)).await;
        let found = found.unwrap_or_else(|elapsed| LookupOutcome::Failed(elapsed.to_string()));
        let result = match &found {
            LookupOutcome::There(_) => ReadResult::Found,
            LookupOutcome::Absent => ReadResult::Absent,
            LookupOutcome::Failed(reason) => {
                tracing::warn!(path, reason, "reading an object for a review failed");
                ReadResult::Failed
            }
        };
        self.metrics.read(resource, result);
        found
    }
}

/// The results of reads, in their order.
async fn run_reads<T>(reads: impl Iterator<Item = BoxFuture<'_, T>>) -> Vec<T> {
    let reads: Vec<_> = reads.collect();
    stream::iter(reads).buffered(CONCURRENT_READS_PER_REVIEW).collect().await
}

/// The path of an object, or of the collection if `name` is `None`. The result is `None` if a name is
/// invalid: names come from users, and a name such as `../secrets/key` must not change the path.
fn resource_path(api: &str, namespace: Option<&str>, plural: &str, name: Option<&str>) -> Option<String> {
    if !namespace.into_iter().chain(name).all(is_dns_subdomain) {
        return None;
    }
    let namespace = namespace.map_or_else(String::new, |namespace| format!("namespaces/{namespace}/"));
    let name = name.map_or_else(String::new, |name| format!("/{name}"));
    // The core group has a path of its own.
    let root = if api == "v1" { "api" } else { "apis" };
    Some(format!("/{root}/{api}/{namespace}{plural}{name}"))
}

#[cfg(test)]
mod tests;
