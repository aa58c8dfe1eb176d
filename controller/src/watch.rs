//! Lists and watches that keep the caches up to date.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::{Request, Status};
use vmpool_engine::ledger::Seen;
use vmpool_platforms::{ApiObject, intern};
use vmpool_runtime::Env;
use vmpool_runtime::telemetry::with_causes;

use crate::cache::{Cache, Cached, Concerned, Located};
use crate::list::{self, PAGE};
use crate::metrics::{Metrics, WatchResource};
use crate::object::version;

/// Duration of one watch request, in seconds.
const WATCH_SECONDS: u32 = 45;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Maximum time without an event. It is longer than a watch request lasts; a longer silence means that the connection
/// was lost.
const LONGEST_SILENCE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);

/// A watch that ends sooner without an event counts as a failure. Otherwise the controller would restart watches
/// without a delay while the API server or a proxy ends them.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);

/// Why a list or a watch failed.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("listing")]
    List(#[source] kube::Error),
    #[error("the list has no resourceVersion")]
    NoVersion,
    #[error("beginning to watch")]
    Begin(#[source] kube::Error),
    #[error("reading an event")]
    Read(#[source] kube::Error),
    #[error("the API server: {}", .0.message)]
    Told(Box<Status>),
    #[error("the watch ended at once, without an event")]
    TooShort,
}

impl Broken {
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

/// Watches all objects of `api` forever. `read` converts an object into facts. `wake` gets the keys of changed facts.
///
/// The initial list is consistent (never resourceVersion 0), so that it contains the last writes of the former leader.
pub(crate) async fn watch<K: ApiObject, T: Cached>(
    api: Api<K>,
    env: Env,
    (metrics, resource): (Arc<Metrics>, WatchResource),
    cache: Arc<Cache<T>>,
    read: fn(K) -> T,
    wake: impl Fn(Concerned) + Send,
) {
    let what = K::plural(&()).into_owned();
    let mut pause = FIRST_PAUSE;
    // The version at which the next watch starts; `None` if a list is necessary.
    let mut version = None;
    loop {
        let broken = match &mut version {
            None => {
                metrics.list_begins(resource);
                cache.begin_list(env.uptime());
                match list(&api, |object| cache.listed(locate(object, read))).await {
                    Ok(listed) => {
                        wake(cache.end_list());
                        pause = FIRST_PAUSE;
                        version = Some(listed);
                        continue;
                    }
                    Err(broken) => broken,
                }
            }
            Some(version) => {
                let show = |event| {
                    pause = FIRST_PAUSE;
                    match event {
                        Change::Applied(object) => wake(cache.applied(locate(object, read))),
                        Change::Deleted(object) => wake(cache.deleted(&locate(object, read), env.uptime())),
                    }
                };
                match follow(&api, &env, version, show).await {
                    Ok(()) => continue,
                    Err(broken) => broken,
                }
            }
        };
        metrics.watch_broke_off(resource);
        tracing::warn!(resource = what, error = with_causes(&broken), ?pause, "the watch broke off");
        if broken.is_too_old() {
            version = None;
        }
        env.sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Lists all objects, page by page. Returns the version of the list.
async fn list<K: ApiObject>(api: &Api<K>, mut visit: impl FnMut(K)) -> Result<String, Broken> {
    let mut wanted = ListParams::default().limit(PAGE);
    let client = api.clone().into_client();
    loop {
        let request = Request::new(api.resource_url()).list(&wanted);
        let page = list::page(&client, request, &mut visit).await.map_err(Broken::List)?;
        if page.next.is_empty() {
            return Some(page.resource_version)
                .filter(|version| !version.is_empty())
                .ok_or(Broken::NoVersion);
        }
        wanted = wanted.continue_token(&page.next);
    }
}

/// A change in an event of a watch.
enum Change<K> {
    Applied(K),
    Deleted(K),
}

/// Watches from `version` on until the watch ends, and advances `version`.
async fn follow<K: ApiObject>(
    api: &Api<K>,
    env: &Env,
    version: &mut String,
    mut show: impl FnMut(Change<K>),
) -> Result<(), Broken> {
    let wanted = WatchParams::default().timeout(WATCH_SECONDS);
    let begin = env.uptime();
    let mut is_silent = true;
    let mut events = std::pin::pin!(api.watch(&wanted, version).await.map_err(Broken::Begin)?);
    while let Ok(Some(event)) = env.timeout(LONGEST_SILENCE, events.next()).await {
        let event = event.map_err(Broken::Read)?;
        is_silent = false;
        let change = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => Change::Applied(object),
            WatchEvent::Deleted(object) => Change::Deleted(object),
            WatchEvent::Bookmark(bookmark) => {
                *version = bookmark.metadata.resource_version;
                continue;
            }
            WatchEvent::Error(status) => return Err(Broken::Told(status.boxed())),
        };
        let (Change::Applied(object) | Change::Deleted(object)) = &change;
        if let Some(reached) = &object.meta().resource_version {
            version.clone_from(reached);
        }
        show(change);
    }
    if is_silent && env.uptime().saturating_sub(begin) < SHORTEST_WATCH {
        return Err(Broken::TooShort);
    }
    Ok(())
}

/// The facts and the namespace of an object.
pub(crate) fn locate<K: ApiObject, T>(object: K, read: fn(K) -> T) -> Located<T> {
    let namespace = intern(object.meta().namespace.as_deref().unwrap_or_default());
    let version = version(&object);
    Located { namespace, seen: Seen { facts: Arc::new(read(object)), version } }
}

#[cfg(test)]
mod tests;
