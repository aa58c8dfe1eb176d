//! Lists and watches that keep the caches up to date.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::{AsyncBufRead, AsyncBufReadExt};
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::{Request, Status};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use vmpool_engine::ledger::VersionedFacts;
use vmpool_platforms::{ApiObject, intern_text};
use vmpool_runtime::Env;
use vmpool_runtime::telemetry::with_causes;

use crate::list::{self, PAGE};
use crate::metrics::{ControllerMetrics, WatchResource};
use crate::object::object_version;
use crate::pools::cache::{Cached, Concerned, Located, ObjectCache};
use crate::{decode, rejection};

/// Duration of one watch request, in seconds.
const WATCH_SECONDS: u32 = 45;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Maximum time without an event. It is longer than a watch request lasts; a longer silence means that the
/// connection was lost.
const LONGEST_SILENCE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);

/// A watch that ends sooner without an event counts as a failure. Otherwise the controller would restart
/// watches without a delay while the API server or a proxy ends them.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);

/// Memory that a watch keeps between two events, in bytes.
const MAX_IDLE_LINE: usize = 64 * 1024;

/// Why a list or a watch failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    #[error("listing")]
    List(#[source] kube::Error),
    #[error("the list has no resourceVersion")]
    NoVersion,
    #[error("the cluster defines {0}, and the API server does not serve it")]
    NotServed(String),
    #[error("beginning to watch")]
    Begin(#[source] kube::Error),
    #[error("reading an event")]
    Read(#[source] kube::Error),
    #[error("the API server: {}", .0.message)]
    Told(Box<Status>),
    #[error("the watch ended at once, without an event")]
    TooShort,
}

impl WatchError {
    /// Whether the version of the watch is too old for the API server, so that a new list is necessary.
    ///
    /// The API server reports this in an event. A proxy in front of it may report it in the response.
    fn is_too_old(&self) -> bool {
        const GONE: u16 = 410;
        match self {
            Self::Begin(kube::Error::Api(status)) | Self::Told(status) => status.code == GONE,
            _ => false,
        }
    }
}

/// What a watch requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WatchScope {
    /// A label that the objects must have.
    pub(crate) label: Option<&'static str>,
    /// Whether only the metadata is requested.
    pub(crate) metadata_only: bool,
}

/// An object of any scope that can be watched.
pub(crate) trait Watched:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static
{
}

impl<K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static> Watched for K {}

/// What a watch keeps up to date.
pub(crate) trait Sink<K> {
    /// A list begins. It replaces all objects when it is complete.
    fn list_begins(&mut self);
    /// The list contains this object.
    fn listed(&mut self, object: K);
    /// The list is complete.
    fn list_ends(&mut self);
    /// An object changed.
    fn changed(&mut self, change: WatchChange<K>);
    /// A list or a watch failed.
    fn broke_off(&mut self) {}
}

/// Watches the objects of `api` forever.
///
/// The initial list is consistent (never resourceVersion 0), so that it contains the last writes of the
/// former leader.
pub(crate) async fn list_and_watch<K: Watched>(
    api: Api<K>,
    env: Env,
    scope: WatchScope,
    mut sink: impl Sink<K>,
) {
    let what = K::plural(&()).into_owned();
    let mut pause = FIRST_PAUSE;
    // The version at which the next watch starts; `None` if a list is necessary.
    let mut version = None;
    loop {
        let broken = match &mut version {
            None => {
                sink.list_begins();
                match list_all_pages(&api, scope, |object| sink.listed(object)).await {
                    Ok(listed) => {
                        sink.list_ends();
                        pause = FIRST_PAUSE;
                        version = Some(listed);
                        continue;
                    }
                    Err(broken) => broken,
                }
            }
            Some(version) => {
                let show = |change| {
                    pause = FIRST_PAUSE;
                    sink.changed(change);
                };
                match watch_from_version(&api, &env, scope, version, show).await {
                    Ok(()) => continue,
                    Err(broken) => broken,
                }
            }
        };
        sink.broke_off();
        tracing::warn!(resource = what, error = with_causes(&broken), ?pause, "the watch broke off");
        if broken.is_too_old() {
            version = None;
        }
        env.sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// A cache that a watch fills.
pub(crate) struct CacheSink<K, T: Cached, W> {
    pub(crate) cache: Arc<ObjectCache<T>>,
    pub(crate) env: Env,
    pub(crate) metrics: Arc<ControllerMetrics>,
    pub(crate) resource: WatchResource,
    /// Converts an object into facts.
    pub(crate) read: fn(K) -> T,
    /// Gets the keys of changed facts.
    pub(crate) wake: W,
}

impl<K: ApiObject, T: Cached, W: Fn(Concerned)> Sink<K> for CacheSink<K, T, W> {
    fn list_begins(&mut self) {
        self.metrics.list_begins(self.resource);
        self.cache.begin_list(self.env.uptime());
    }
    fn listed(&mut self, object: K) {
        self.cache.listed(locate_object(object, self.read));
    }
    fn list_ends(&mut self) {
        (self.wake)(self.cache.end_list());
    }
    fn changed(&mut self, change: WatchChange<K>) {
        (self.wake)(match change {
            WatchChange::Applied(object) => self.cache.applied(locate_object(object, self.read)),
            WatchChange::Deleted(object) => {
                self.cache.deleted(&locate_object(object, self.read), self.env.uptime())
            }
        });
    }
    fn broke_off(&mut self) {
        self.metrics.watch_broke_off(self.resource);
    }
}

/// What `read` takes from the objects of a watch. `show` gets all of it after the first list and after each
/// change.
pub(crate) struct MapSink<T, R, F> {
    objects: Objects<T>,
    listing: Objects<T>,
    read: R,
    show: F,
}

/// Facts of objects by namespace and name.
pub(crate) type Objects<T> = BTreeMap<(String, String), T>;

impl<T, R, F: FnMut(&Objects<T>)> MapSink<T, R, F> {
    /// Objects for which `read` returns `None` are ignored.
    pub(crate) fn new(read: R, show: F) -> Self {
        Self { objects: BTreeMap::new(), listing: BTreeMap::new(), read, show }
    }
}

impl<K: Watched, T, R: FnMut(K) -> Option<T>, F: FnMut(&Objects<T>)> Sink<K> for MapSink<T, R, F> {
    fn list_begins(&mut self) {
        self.listing.clear();
    }
    fn listed(&mut self, object: K) {
        let key = namespace_and_name(&object);
        self.listing.extend((self.read)(object).map(|facts| (key, facts)));
    }
    fn list_ends(&mut self) {
        self.objects = std::mem::take(&mut self.listing);
        (self.show)(&self.objects);
    }
    fn changed(&mut self, change: WatchChange<K>) {
        let (WatchChange::Applied(object) | WatchChange::Deleted(object)) = &change;
        let key = namespace_and_name(object);
        let facts = match change {
            WatchChange::Applied(object) => (self.read)(object),
            WatchChange::Deleted(_) => None,
        };
        match facts {
            Some(facts) => drop(self.objects.insert(key, facts)),
            None => drop(self.objects.remove(&key)),
        }
        (self.show)(&self.objects);
    }
}

/// Namespace and name.
pub(crate) fn namespace_and_name<K: Resource>(object: &K) -> (String, String) {
    let metadata = object.meta();
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

/// Lists all objects, page by page. Returns the version of the list.
pub(crate) async fn list_all_pages<K: Watched>(
    api: &Api<K>,
    scope: WatchScope,
    mut visit: impl FnMut(K),
) -> Result<String, WatchError> {
    let mut wanted = ListParams::default().limit(PAGE);
    if let Some(label) = scope.label {
        wanted = wanted.labels(label);
    }
    let client = api.clone().into_client();
    loop {
        let request = Request::new(api.resource_url());
        let request =
            if scope.metadata_only { request.list_metadata(&wanted) } else { request.list(&wanted) };
        let page = list::read_list_page(&client, request, &mut visit).await.map_err(WatchError::List)?;
        if page.next.is_empty() {
            return Some(page.resource_version)
                .filter(|version| !version.is_empty())
                .ok_or(WatchError::NoVersion);
        }
        wanted = wanted.continue_token(&page.next);
    }
}

/// Lists all objects, and says whether the API server serves their kind. Without the kind, there are none.
pub(crate) async fn list_served<K: Watched>(
    api: &Api<K>,
    scope: WatchScope,
    visit: impl FnMut(K),
) -> Result<bool, WatchError> {
    match list_all_pages(api, scope, visit).await {
        Ok(_version) => Ok(true),
        Err(WatchError::List(kube::Error::Api(status))) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}

/// A change in an event of a watch.
pub(crate) enum WatchChange<K> {
    Applied(K),
    Deleted(K),
}

/// Watches from `version` on until the watch ends, and advances `version`.
async fn watch_from_version<K: Watched>(
    api: &Api<K>,
    env: &Env,
    scope: WatchScope,
    version: &mut String,
    mut show: impl FnMut(WatchChange<K>),
) -> Result<(), WatchError> {
    let mut wanted = WatchParams::default().timeout(WATCH_SECONDS);
    if let Some(label) = scope.label {
        wanted = wanted.labels(label);
    }
    let request = Request::new(api.resource_url());
    let request = if scope.metadata_only {
        request.watch_metadata(&wanted, version)
    } else {
        request.watch(&wanted, version)
    };
    let mut request = request.map_err(|error| WatchError::Begin(kube::Error::BuildRequest(error)))?;
    request.extensions_mut().insert("watch");
    let begin = env.uptime();
    let mut is_silent = true;
    let client = api.clone().into_client();
    let mut body = std::pin::pin!(rejection::send_read(&client, request).await.map_err(WatchError::Begin)?);
    let mut line = Vec::new();
    while let Ok(event) = env.timeout(LONGEST_SILENCE, next_event::<K>(&mut body, &mut line)).await {
        let Some(event) = event.map_err(WatchError::Read)? else { break };
        is_silent = false;
        let change = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => WatchChange::Applied(object),
            WatchEvent::Deleted(object) => WatchChange::Deleted(object),
            WatchEvent::Bookmark(bookmark) => {
                *version = bookmark.metadata.resource_version;
                continue;
            }
            WatchEvent::Error(status) => return Err(WatchError::Told(status.boxed())),
        };
        let (WatchChange::Applied(object) | WatchChange::Deleted(object)) = &change;
        if let Some(reached) = &object.meta().resource_version {
            version.clone_from(reached);
        }
        show(change);
    }
    if is_silent && env.uptime().saturating_sub(begin) < SHORTEST_WATCH {
        return Err(WatchError::TooShort);
    }
    Ok(())
}

/// The next event of a watch, which is one line. `None` if the watch ends, also in the middle of an event.
async fn next_event<K: DeserializeOwned>(
    body: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> kube::Result<Option<WatchEvent<K>>> {
    line.clear();
    // One large object of a user does not occupy its memory for ever.
    line.shrink_to(MAX_IDLE_LINE);
    body.read_until(b'\n', line).await.map_err(kube::Error::ReadEvents)?;
    if line.last() != Some(&b'\n') {
        return Ok(None);
    }
    decode::decode_json(line).map(Some).map_err(kube::Error::SerdeError)
}

/// The facts and the namespace of an object.
pub(crate) fn locate_object<K: ApiObject, T>(object: K, read: fn(K) -> T) -> Located<T> {
    let namespace = intern_text(object.meta().namespace.as_deref().unwrap_or_default());
    let version = object_version(&object);
    Located { namespace, seen: VersionedFacts { facts: Arc::new(read(object)), version } }
}

#[cfg(test)]
mod tests;
