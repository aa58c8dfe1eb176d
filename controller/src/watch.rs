//! Keeps the caches up to date.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::Api;
use kube::runtime::watcher::{self, Event, watcher};
use vmpool_engine::ledger::Seen;
use vmpool_runtime::Env;
use vmpool_runtime::telemetry::with_causes;

use crate::cache::{Cache, Cached, Concerned, Located};
use crate::metrics::{Metrics, WatchResource};
use crate::platform::{Stored, intern};

/// How long one watch request lasts, in seconds. kube notices a silently dropped connection five seconds later.
const WATCH_SECONDS: u32 = 45;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Watches all `K` that `api` can see, for ever. `read` puts an object into facts; `wake` hears whom a change of facts
/// concerns.
///
/// The initial list is consistent (never resourceVersion 0), so that the last writes of a predecessor are in it.
pub(crate) async fn watch<K: Stored, T: Cached>(
    api: Api<K>,
    env: Env,
    (metrics, resource): (Arc<Metrics>, WatchResource),
    cache: Arc<Cache<T>>,
    read: fn(K) -> T,
    wake: impl Fn(Concerned) + Send,
) {
    let what = K::plural(&()).into_owned();
    let begin = || watcher(api.clone(), watcher::Config::default().timeout(WATCH_SECONDS)).boxed();
    let mut events = begin();
    let mut pause = FIRST_PAUSE;
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                metrics.watch_broke_off(resource);
                tracing::warn!(resource = what, error = with_causes(&error), ?pause, "the watch broke off");
                // The watcher itself would go on asking for what is not remembered any more.
                if is_too_old(&error) {
                    events = begin();
                }
                env.sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
        };
        pause = FIRST_PAUSE;
        match event {
            Event::Init => {
                metrics.list_begins(resource);
                cache.begin_list(env.uptime());
            }
            Event::InitApply(object) => cache.listed(locate(object, read)),
            Event::InitDone => wake(cache.end_list()),
            Event::Apply(object) => wake(cache.applied(locate(object, read))),
            Event::Delete(object) => wake(cache.deleted(&locate(object, read), env.uptime())),
        }
    }
}

/// Whether a watch was refused because it would begin before what the server remembers.
///
/// The API server itself says so in an event, which the watcher understands. A proxy in front of it may say so in its
/// answer.
fn is_too_old(error: &watcher::Error) -> bool {
    const GONE: u16 = 410;
    matches!(error, watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.code == GONE)
}

/// Facts and place of an object.
pub(crate) fn locate<K: Stored, T>(object: K, read: fn(K) -> T) -> Located<T> {
    let namespace = intern(object.meta().namespace.as_deref().unwrap_or_default());
    let version = version(&object);
    Located { namespace, seen: Seen { facts: Arc::new(read(object)), version } }
}

/// `metadata.resourceVersion` as the integer that Kubernetes allows to take it for.
pub(crate) fn version<K: Stored>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}
