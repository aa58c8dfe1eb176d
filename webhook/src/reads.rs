//! What is read for a request: live from the API server, some at a time, and within a deadline.

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

use crate::callers::Caller;
use crate::handlers::field;
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

const REVISION_API: &str = "apps/v1";
const SNAPSHOT_API: &str = "snapshot.storage.k8s.io/v1";

/// What the scale guard wants to know of a pool.
#[derive(Debug)]
pub(crate) enum Policy {
    /// There is no such pool.
    NoPool,
    /// The word in `spec.scaleDownPolicy`.
    Of(Option<String>),
}

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

    /// The policy that the pool with this UID has now. Without a UID it is that of the pool with the name.
    ///
    /// # Errors
    /// Why that cannot be known.
    pub(crate) async fn policy(
        &self,
        namespace: &str,
        name: &str,
        uid: Option<&str>,
    ) -> Result<Policy, String> {
        let path = path(API_VERSION, Some(namespace), "virtualmachinepools", Some(name));
        match self.in_time(Resource::Pool, path, self.end()).await {
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

    /// When the reads of a request that begin now have to be done.
    fn end(&self) -> Duration {
        self.env.uptime() + DEADLINE_OF_ALL
    }

    /// Everything that the rules need, as far as the caller may know it.
    pub(crate) async fn facts(&self, namespace: &str, needs: &Needs, caller: Caller) -> Facts {
        let end = self.end();
        let class = async {
            match &needs.class {
                Some(name) => Some(self.class(name, end).await),
                None => None,
            }
        };
        // A verdict about them tells whether they exist, and how large they are. A revision is no secret: it counts only
        // if it belongs to the pool with the UID of the review.
        let most = if caller == Caller::ApiServer { MOST } else { 0 };
        let images = some_at_a_time(needs.images.iter().take(most).map(|id| {
            let read = async move { (id.clone(), self.image(namespace, id, end).await) };
            read.boxed()
        }));
        let snapshots = some_at_a_time(needs.snapshots.iter().take(most).map(|name| {
            let read = async move { (name.clone(), self.snapshot(namespace, name, end).await) };
            read.boxed()
        }));
        let revisions =
            some_at_a_time(needs.revisions.iter().map(|name| self.revision(namespace, name, end).boxed()));
        let ((class, revisions), (images, snapshots)) =
            join(join(class, revisions), join(images, snapshots)).await;
        Facts {
            class,
            images: images.into_iter().collect(),
            snapshots: snapshots.into_iter().collect(),
            revisions,
        }
    }

    async fn class(&self, name: &ClassName, end: Duration) -> Found<Class> {
        const PLURAL: &str = "virtualmachineclasses";
        match name {
            ClassName::Named(name) => {
                let path = path(API_VERSION, None, PLURAL, Some(name));
                map(self.in_time(Resource::Class, path, end).await, |class| Class::read(&class))
            }
            ClassName::Default => {
                let all = self.in_time(Resource::Class, path(API_VERSION, None, PLURAL, None), end).await;
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

    async fn revision(&self, namespace: &str, name: &str, end: Duration) -> Found<Revision> {
        let path = path(REVISION_API, Some(namespace), "controllerrevisions", Some(name));
        map(self.in_time(Resource::Revision, path, end).await, |revision| Revision::read(&revision))
    }

    async fn image(&self, namespace: &str, id: &ImageId, end: Duration) -> Found<Image> {
        let path = match id.kind {
            ImageKind::Namespace => path(API_VERSION, Some(namespace), "virtualimages", Some(&id.name)),
            ImageKind::Cluster => path(API_VERSION, None, "clustervirtualimages", Some(&id.name)),
        };
        map(self.in_time(Resource::Image, path, end).await, |image| Image {
            ready: field(&image, "/status/phase") == "Ready",
            cdrom: field(&image, "/status/cdrom") == &Value::Bool(true),
            unpacked: field(&image, "/status/size/unpackedBytes")
                .as_str()
                .and_then(|bytes| bytes.parse().ok())
                .or_else(|| bytes(field(&image, "/status/size/unpacked"))),
        })
    }

    /// The size is that of the volume snapshot behind it.
    async fn snapshot(&self, namespace: &str, name: &str, end: Duration) -> Found<Snapshot> {
        let path_of_disk = path(API_VERSION, Some(namespace), "virtualdisksnapshots", Some(name));
        let snapshot = match self.in_time(Resource::Snapshot, path_of_disk, end).await {
            Found::There(snapshot) => snapshot,
            Found::Absent => return Found::Absent,
            Found::Failed(reason) => return Found::Failed(reason),
        };
        let volume = field(&snapshot, "/status/volumeSnapshotName").as_str().unwrap_or_default();
        let path_of_volume = path(SNAPSHOT_API, Some(namespace), "volumesnapshots", Some(volume));
        map(self.in_time(Resource::Snapshot, path_of_volume, end).await, |volume| Snapshot {
            restore_size: bytes(field(&volume, "/status/restoreSize")),
        })
    }

    /// One read, counted. `None` as the path means that no object can have such a name.
    async fn in_time(&self, resource: Resource, path: Option<String>, end: Duration) -> Found<Value> {
        let Some(path) = path else { return Found::Absent };
        let left = end.saturating_sub(self.env.uptime()).min(DEADLINE);
        let read = async {
            let _turn = self.turns.acquire().await;
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
                tracing::warn!(path, reason, "a read for a review failed");
                ReadResult::Failed
            }
        };
        self.metrics.read(resource, result);
        found
    }
}

/// What reads find, in their order.
async fn some_at_a_time<T>(reads: impl Iterator<Item = BoxFuture<'_, T>>) -> Vec<T> {
    let reads: Vec<_> = reads.collect();
    stream::iter(reads).buffered(AT_A_TIME).collect().await
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
