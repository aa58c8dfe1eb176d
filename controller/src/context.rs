//! The state that all passes of one leadership share.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::AsyncBufReadExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{GetParams, ListParams};
use kube::core::Request;
use kube::{Client, Resource};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use vmpool_engine::model::Published;
use vmpool_engine::plan::{COLLECTION_GRACE, NamesInUse};
use vmpool_engine::removal::RESERVATION_AGE;
use vmpool_engine::{Disk, Machine, Memory, ObjectId, Pool, Status, Uid};
use vmpool_runtime::Env;

use crate::cache::{Cache, Cached, Key};
use crate::events::{Events, Subject};
use crate::list;
use crate::metrics::{Metrics, PoolCounts};
use crate::platform::{ApiObject, Attachment, Platform, slim_metadata};
use crate::queue::Queue;
use crate::response_body::ResponseBody;
use crate::revisions::Revisions;
use crate::status_conflict::StatusConflict;
use crate::write::Writer;

/// A stored pool and its facts.
pub(crate) struct PoolEntry<P: Platform> {
    pub(crate) facts: Pool,
    pub(crate) object: Arc<P::Pool>,
}

impl<P: Platform> PoolEntry<P> {
    pub(crate) fn read(object: P::Pool) -> Self {
        Self { facts: P::read_pool(&object), object: Arc::new(object) }
    }

    /// The subject of events about this pool.
    pub(crate) fn subject(&self) -> Subject {
        Subject {
            api_version: P::Pool::api_version(&()).into_owned(),
            kind: P::Pool::kind(&()).into_owned(),
            namespace: self.facts.namespace.clone(),
            id: self.facts.id.clone(),
        }
    }
}

/// Pools with equal facts are equal: no decision depends on other fields, and every change of the spec changes the
/// generation.
impl<P: Platform> PartialEq for PoolEntry<P> {
    fn eq(&self, other: &Self) -> bool {
        self.facts == other.facts
    }
}

impl<P: Platform> Cached for PoolEntry<P> {
    fn name(&self) -> &Arc<str> {
        &self.facts.id.name
    }
    fn uid(&self) -> &Uid {
        &self.facts.id.uid
    }
    fn keys(&self, _: &Arc<str>) -> Vec<Key> {
        vec![Key::Pool(self.facts.id.uid.clone())]
    }
}

/// Number of objects in one page of a list.
pub(crate) const PAGE: u32 = 500;

/// The name of a list in errors of reads.
const ALL: &str = "(all)";

/// The state of one pool between passes.
#[derive(Default)]
pub(crate) struct PoolMemory {
    pub(crate) memory: Memory,
    /// Number of consecutive passes in which the state differed from the plan.
    pub(crate) outdated_passes: u32,
    /// Computing time of the last pass, without waits.
    pub(crate) effort: Duration,
    /// Uptime of the last attempt to write the status.
    pub(crate) status_attempt: Option<Duration>,
    /// The last status that was written.
    pub(crate) last_status: Option<LastStatus>,
    /// Whether another client writes the status, too.
    pub(crate) status_conflict: StatusConflict,
    /// The stored revisions of the pool; `None` before the first pass.
    pub(crate) revisions: Option<Revisions>,
    /// The message of the last event about invalid settings.
    pub(crate) warned: Option<String>,
    /// Detached disks that an event has reported, with their machines.
    pub(crate) detached: BTreeSet<(Uid, Arc<str>)>,
}

impl PoolMemory {
    /// The times until something in the memory is due: the end of a backoff or of a status conflict, or a live read of a
    /// pending write.
    pub(crate) fn deadlines(&self, uptime: Duration) -> impl Iterator<Item = Duration> + use<> {
        let memory = &self.memory;
        let conflict = self.status_conflict.remaining(uptime).filter(|_| self.status_conflict.is_active());
        [
            memory.remaining_backoff(uptime),
            conflict,
            memory.machines.due_in(uptime),
            memory.disks.due_in(uptime),
        ]
        .into_iter()
        .flatten()
    }
}

/// The last written status.
pub(crate) struct LastStatus {
    pub(crate) wrote: Status,
    /// The status as the API server stored it.
    pub(crate) became: Published,
    /// The version of the pool after the write.
    pub(crate) version: u64,
}

/// The state that all passes of one leadership share.
pub(crate) struct Context<P: Platform> {
    pub(crate) env: Env,
    pub(crate) client: Client,
    pub(crate) writer: Writer,
    pub(crate) events: Events,
    pub(crate) queue: Queue<Uid>,
    pub(crate) pools: Arc<Cache<PoolEntry<P>>>,
    pub(crate) machines: Arc<Cache<Machine>>,
    pub(crate) disks: Arc<Cache<Disk>>,
    pub(crate) attachments: Arc<Cache<Attachment>>,
    pub(crate) states: Mutex<HashMap<Uid, PoolMemory>>,
    pub(crate) settings: Settings,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) pool_counts: PoolCounts,
}

/// Settings of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Maximum number of passes in parallel, each for another pool.
    pub workers: usize,
    /// Maximum number of writes in flight for all pools.
    pub writes_in_flight: usize,
    /// Deadline of a request. After it, the request is unconfirmed.
    pub request_deadline: Duration,
    /// Minimum time between two passes of a pool that events cause.
    pub debounce: Duration,
    /// Age at which the controller drops a reservation that is not accepted.
    pub reservation_timeout: Duration,
    /// Time between the mark and the deletion of a disk. In this time, a use that has just begun becomes visible.
    pub collection_grace: Duration,
    /// Minimum time between two writes of a pool's status.
    pub status_interval: Duration,
    /// Maximum time between two passes of a pool.
    pub resync: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            workers: 4,
            writes_in_flight: 64,
            request_deadline: Duration::from_secs(8),
            debounce: Duration::from_millis(100),
            reservation_timeout: RESERVATION_AGE,
            collection_grace: COLLECTION_GRACE,
            status_interval: Duration::from_secs(1),
            resync: Duration::from_mins(10),
        }
    }
}

/// The error of a live read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("reading {kind} {name}")]
    Failed { kind: String, name: String, source: Box<kube::Error> },
    #[error("reading {kind} {name}: {source}")]
    TooLate { kind: String, name: String, source: vmpool_runtime::env::Elapsed },
}

impl<P: Platform> Context<P> {
    /// The pool with this UID in the cache.
    pub(crate) fn pool(&self, uid: &Uid) -> Option<Arc<PoolEntry<P>>> {
        self.pools.by_key(&Key::Pool(uid.clone())).pop()
    }

    /// Reads an object live: without a resourceVersion, so that the API server reads from the etcd quorum.
    pub(crate) async fn get_live<K: ApiObject>(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<K>, ReadError> {
        let object = async {
            let body = self.fetch::<K>(namespace, name).await?;
            body.map(|body| serde_json::from_slice(body.bytes())).transpose().map_err(kube::Error::SerdeError)
        };
        self.in_time::<K, _>(name, object).await
    }

    /// Reads an object live as text, with all its fields.
    pub(crate) async fn get_text<K: ApiObject>(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ResponseBody>, ReadError> {
        self.in_time::<K, _>(name, self.fetch::<K>(namespace, name)).await
    }

    async fn fetch<K: ApiObject>(&self, namespace: &str, name: &str) -> kube::Result<Option<ResponseBody>> {
        let request = Request::new(collection::<K>(namespace)).get(name, &GetParams::default());
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        request.extensions_mut().insert("get");
        let answer = match self.client.request_stream(request).await {
            Ok(answer) => answer,
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let (mut answer, mut body) = (std::pin::pin!(answer), self.writer.bodies().begin());
        loop {
            let chunk = answer.fill_buf().await.map_err(kube::Error::ReadEvents)?;
            if chunk.is_empty() {
                return Ok(Some(body));
            }
            body.push(chunk).await;
            let read = chunk.len();
            answer.consume_unpin(read);
        }
    }

    /// Lists all objects of type `K` in `namespace` live and page by page, and passes each to `visit`. All pages show
    /// the state at one time after the call.
    pub(crate) async fn list_live<K: ApiObject>(
        &self,
        namespace: &str,
        visit: impl FnMut(K),
    ) -> Result<(), ReadError> {
        self.list_live_where(namespace, ListParams::default(), visit).await
    }

    /// The same for the objects that `wanted` selects.
    pub(crate) async fn list_live_where<K: ApiObject>(
        &self,
        namespace: &str,
        wanted: ListParams,
        visit: impl FnMut(K),
    ) -> Result<(), ReadError> {
        self.pages::<K, K>(wanted, visit, |page| Request::new(collection::<K>(namespace)).list(page)).await
    }

    /// As [`Context::list_live`], but only with the metadata.
    pub(crate) async fn list_live_metadata<K: ApiObject>(
        &self,
        namespace: &str,
        visit: impl FnMut(MetadataOnly),
    ) -> Result<(), ReadError> {
        let request = |page: &ListParams| Request::new(collection::<K>(namespace)).list_metadata(page);
        self.pages::<K, MetadataOnly>(ListParams::default(), visit, request).await
    }

    async fn pages<K: ApiObject, T: DeserializeOwned>(
        &self,
        wanted: ListParams,
        mut visit: impl FnMut(T),
        request: impl Fn(&ListParams) -> Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<(), ReadError> {
        let mut wanted = wanted.limit(PAGE);
        loop {
            let page = list::page(&self.client, request(&wanted), &mut visit);
            let page = self.in_time::<K, _>(ALL, page).await?;
            if page.next.is_empty() {
                return Ok(());
            }
            wanted = wanted.continue_token(&page.next);
        }
    }

    /// The result of a read, or an error after the deadline.
    async fn in_time<K: ApiObject, T>(
        &self,
        name: &str,
        read: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, ReadError> {
        let (kind, name) = (K::kind(&()).into_owned(), name.to_owned());
        match self.env.timeout(self.settings.request_deadline, read).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(source)) => Err(ReadError::Failed { kind, name, source: Box::new(source) }),
            Err(source) => Err(ReadError::TooLate { kind, name, source }),
        }
    }

    /// The newest known facts of a machine.
    pub(crate) fn known_machine(&self, pool: &Pool, memory: &Memory, id: &ObjectId) -> Option<Arc<Machine>> {
        let known = memory
            .machines
            .get(&id.name)
            .cloned()
            .or_else(|| self.machines.get(&pool.namespace, &id.name).map(|seen| seen.facts))?;
        (known.id == *id).then_some(known)
    }
}

/// An object with only the metadata that vmpool reads.
#[derive(Debug, Deserialize)]
pub(crate) struct MetadataOnly {
    #[serde(deserialize_with = "slim_metadata")]
    pub(crate) metadata: ObjectMeta,
}

/// The API path of the collection of `K` in `namespace`.
pub(crate) fn collection<K: ApiObject>(namespace: &str) -> String {
    K::url_path(&(), Some(namespace))
}

/// The names in use in one namespace.
pub(crate) struct Names<'a, P: Platform> {
    pub(crate) context: &'a Context<P>,
    pub(crate) namespace: &'a str,
}

impl<P: Platform> NamesInUse for Names<'_, P> {
    fn has_machine(&self, name: &str) -> bool {
        self.context.machines.get(self.namespace, name).is_some()
    }
    fn has_disk(&self, name: &str) -> bool {
        self.context.disks.get(self.namespace, name).is_some()
    }
}
