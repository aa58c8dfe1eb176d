//! Reads of the objects that rules need. They are not cached, and their concurrency and duration are limited.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _, join};
use futures::stream::{self, StreamExt as _};
use kube::Client;
use serde_json::Value;
use tokio::sync::Semaphore;
use vmpool_api::Quantity;
use vmpool_api::names::is_dns_subdomain;
use vmpool_api::v1alpha2::API_VERSION;
use vmpool_platforms::dvp::admission::{
    Class, ClassName, Facts, Found, Image, ImageId, ImageKind, Needs, Revision, Snapshot, default_class,
};
use vmpool_runtime::Env;

use crate::bounded_json::field;
use crate::callers::Caller;
use crate::metrics::{Metrics, ReadResult, Resource};
use get::get;

mod get;

/// The deadline of one read. kube-apiserver waits ten seconds for the response to a review.
pub(crate) const DEADLINE: Duration = Duration::from_secs(4);
/// The deadline of all reads for a review.
const REVIEW_DEADLINE: Duration = Duration::from_secs(8);
/// The maximum number of images, and of snapshots, that are read for a review. A machine has up to 16 devices.
const MAX_OBJECTS: usize = 40;
/// The maximum number of concurrent reads for a review.
const CONCURRENT_READS_PER_REVIEW: usize = 4;
/// The maximum number of concurrent reads for all reviews.
const CONCURRENT_READS: usize = 8;

const REVISION_API: &str = "apps/v1";
const SNAPSHOT_API: &str = "snapshot.storage.k8s.io/v1";

/// The scale-down policy of a pool.
#[derive(Debug)]
pub(crate) enum Policy {
    /// The pool does not exist.
    NoPool,
    /// The value of `spec.scaleDownPolicy`.
    Of(Option<String>),
}

/// Reads objects and counts the reads.
#[derive(Clone)]
pub(crate) struct Reader {
    client: Client,
    env: Env,
    metrics: Arc<Metrics>,
    permits: Arc<Semaphore>,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl Reader {
    pub(crate) fn new(client: Client, env: Env, metrics: Arc<Metrics>) -> Self {
        Self { client, env, metrics, permits: Arc::new(Semaphore::new(CONCURRENT_READS)) }
    }

    /// The current policy of the pool with this name and UID. Without a UID, the name is sufficient.
    ///
    /// # Errors
    /// The reason why the pool cannot be read.
    pub(crate) async fn policy(
        &self,
        namespace: &str,
        name: &str,
        uid: Option<&str>,
    ) -> Result<Policy, String> {
        let path = path(API_VERSION, Some(namespace), "virtualmachinepools", Some(name));
        match self.read(Resource::Pool, path, self.deadline()).await {
            Found::There(pool) if uid.is_some() && field(&pool, "/metadata/uid").as_str() != uid => {
                Ok(Policy::NoPool)
            }
            Found::There(pool) => {
                Ok(Policy::Of(field(&pool, "/spec/scaleDownPolicy").as_str().map(str::to_owned)))
            }
            Found::Absent => Ok(Policy::NoPool),
            Found::Failed(reason) => Err(reason),
        }
    }

    /// The uptime at which reads for a review that starts now must have ended.
    fn deadline(&self) -> Duration {
        self.env.uptime() + REVIEW_DEADLINE
    }

    /// The objects that the rules need, as far as the webhook reads them for this caller.
    pub(crate) async fn facts(&self, namespace: &str, needs: &Needs, caller: Caller) -> Facts {
        let deadline = self.deadline();
        let class = async {
            match &needs.class {
                Some(name) => Some(self.class(name, deadline).await),
                None => None,
            }
        };
        // The verdict shows whether images and snapshots exist and how large they are, so they are read only for the API
        // server. A revision reveals nothing: it is used only if it belongs to the pool with the UID of the review.
        let max = if caller == Caller::ApiServer { MAX_OBJECTS } else { 0 };
        let images = concurrently(needs.images.iter().take(max).map(|id| {
            let read = async move { (id.clone(), self.image(namespace, id, deadline).await) };
            read.boxed()
        }));
        let snapshots = concurrently(needs.snapshots.iter().take(max).map(|name| {
            let read = async move { (name.clone(), self.snapshot(namespace, name, deadline).await) };
            read.boxed()
        }));
        let revisions =
            concurrently(needs.revisions.iter().map(|name| self.revision(namespace, name, deadline).boxed()));
        let ((class, revisions), (images, snapshots)) =
            join(join(class, revisions), join(images, snapshots)).await;
        Facts {
            class,
            images: images.into_iter().collect(),
            snapshots: snapshots.into_iter().collect(),
            revisions,
        }
    }

    async fn class(&self, name: &ClassName, deadline: Duration) -> Found<Class> {
        const PLURAL: &str = "virtualmachineclasses";
        match name {
            ClassName::Named(name) => {
                let path = path(API_VERSION, None, PLURAL, Some(name));
                map(self.read(Resource::Class, path, deadline).await, |class| Class::read(&class))
            }
            ClassName::Default => {
                let all = self.read(Resource::Class, path(API_VERSION, None, PLURAL, None), deadline).await;
                match map(all, |all| {
                    let classes = field(&all, "/items").as_array().map_or(&[][..], Vec::as_slice);
                    default_class(classes).map(Class::read)
                }) {
                    Found::There(Some(class)) => Found::There(class),
                    Found::There(None) | Found::Absent => Found::Absent,
                    Found::Failed(reason) => Found::Failed(reason),
                }
            }
        }
    }

    async fn revision(&self, namespace: &str, name: &str, deadline: Duration) -> Found<Revision> {
        let path = path(REVISION_API, Some(namespace), "controllerrevisions", Some(name));
        map(self.read(Resource::Revision, path, deadline).await, |revision| Revision::read(&revision))
    }

    async fn image(&self, namespace: &str, id: &ImageId, deadline: Duration) -> Found<Image> {
        let path = match id.kind {
            ImageKind::Namespace => path(API_VERSION, Some(namespace), "virtualimages", Some(&id.name)),
            ImageKind::Cluster => path(API_VERSION, None, "clustervirtualimages", Some(&id.name)),
        };
        map(self.read(Resource::Image, path, deadline).await, |image| Image {
            ready: field(&image, "/status/phase") == "Ready",
            cdrom: field(&image, "/status/cdrom") == &Value::Bool(true),
            unpacked: field(&image, "/status/size/unpackedBytes")
                .as_str()
                .and_then(|bytes| bytes.parse().ok())
                .or_else(|| bytes(field(&image, "/status/size/unpacked"))),
        })
    }

    /// The size of a snapshot of a disk is that of its volume snapshot.
    async fn snapshot(&self, namespace: &str, name: &str, deadline: Duration) -> Found<Snapshot> {
        let path_of_disk = path(API_VERSION, Some(namespace), "virtualdisksnapshots", Some(name));
        let snapshot = match self.read(Resource::Snapshot, path_of_disk, deadline).await {
            Found::There(snapshot) => snapshot,
            Found::Absent => return Found::Absent,
            Found::Failed(reason) => return Found::Failed(reason),
        };
        let volume = field(&snapshot, "/status/volumeSnapshotName").as_str().unwrap_or_default();
        let path_of_volume = path(SNAPSHOT_API, Some(namespace), "volumesnapshots", Some(volume));
        map(self.read(Resource::Snapshot, path_of_volume, deadline).await, |volume| Snapshot {
            restore_size: bytes(field(&volume, "/status/restoreSize")),
        })
    }

    /// Reads and counts one object. If `path` is `None`, no object with such a name can exist.
    async fn read(&self, resource: Resource, path: Option<String>, deadline: Duration) -> Found<Value> {
        let Some(path) = path else { return Found::Absent };
        let left = deadline.saturating_sub(self.env.uptime()).min(DEADLINE);
        let read = async {
            let _permit = self.permits.acquire().await;
            get(&self.client, resource, &path).await
        };
        let found = match self.env.timeout(left, read).await {
            Ok(found) => found,
            Err(elapsed) => Found::Failed(elapsed.to_string()),
        };
        let result = match &found {
            Found::There(_) => ReadResult::Found,
            Found::Absent => ReadResult::Absent,
            Found::Failed(reason) => {
                tracing::warn!(path, reason, "reading an object for a review failed");
                ReadResult::Failed
            }
        };
        self.metrics.read(resource, result);
        found
    }
}

/// The results of reads, in their order.
async fn concurrently<T>(reads: impl Iterator<Item = BoxFuture<'_, T>>) -> Vec<T> {
    let reads: Vec<_> = reads.collect();
    stream::iter(reads).buffered(CONCURRENT_READS_PER_REVIEW).collect().await
}

fn map<A, B>(found: Found<A>, change: impl FnOnce(A) -> B) -> Found<B> {
    match found {
        Found::There(value) => Found::There(change(value)),
        Found::Absent => Found::Absent,
        Found::Failed(reason) => Found::Failed(reason),
    }
}

fn bytes(quantity: &Value) -> Option<u64> {
    serde_json::from_value::<Quantity>(quantity.clone()).ok()?.bytes().ok()
}

/// The path of an object, or of the collection if `name` is `None`. The result is `None` if a name is invalid: names come
/// from users, and a name such as `../secrets/key` must not change the path.
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
