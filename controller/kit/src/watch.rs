//! Lists and watches that keep a sink up to date.

use std::time::Duration;

use futures::{AsyncBufRead, AsyncBufReadExt};
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::{Request, Status};
use serde::de::DeserializeOwned;
use vmpool_runtime::Env;
use vmpool_runtime::telemetry::with_causes;

use crate::list::{self, PAGE};
use crate::pause::pause_after;
use crate::sink::{Sink, WatchChange, Watched};
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
pub enum WatchError {
    /// Listing failed.
    #[error("listing")]
    List(#[source] kube::Error),
    /// The list has no version, so no watch can follow it.
    #[error("the list has no resourceVersion")]
    NoVersion,
    /// One API server of several does not serve the kind, which the cluster defines.
    #[error("the cluster defines {0}, and the API server does not serve it")]
    NotServed(String),
    /// The watch did not begin.
    #[error("beginning to watch")]
    Begin(#[source] kube::Error),
    /// An event could not be read.
    #[error("reading an event")]
    Read(#[source] kube::Error),
    /// The API server ended the watch with this status.
    #[error("the API server: {}", .0.message)]
    Told(Box<Status>),
    /// The watch ended at once, without an event.
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
pub struct WatchScope {
    /// A label that the objects must have.
    pub label: Option<&'static str>,
    /// Whether only the metadata is requested.
    pub metadata_only: bool,
}

/// Watches the objects of `api` forever.
///
/// The initial list is consistent (never resourceVersion 0), so that it contains the last writes of the
/// former leader.
pub async fn list_and_watch<K: Watched>(api: Api<K>, env: Env, scope: WatchScope, mut sink: impl Sink<K>) {
    let what = K::plural(&()).into_owned();
    let mut failures = 0;
    // The version at which the next watch starts; `None` if a list is necessary.
    let mut version = None;
    loop {
        let broken = match &mut version {
            None => {
                sink.list_begins();
                match list_all_pages(&api, scope, |object| sink.listed(object)).await {
                    Ok(listed) => {
                        sink.list_ends();
                        failures = 0;
                        version = Some(listed);
                        continue;
                    }
                    Err(broken) => broken,
                }
            }
            Some(version) => {
                let show = |change| {
                    failures = 0;
                    sink.changed(change);
                };
                match watch_from_version(&api, &env, scope, version, show).await {
                    Ok(()) => continue,
                    Err(broken) => broken,
                }
            }
        };
        sink.broke_off();
        let pause = pause_after(failures, FIRST_PAUSE, LONGEST_PAUSE);
        failures = failures.saturating_add(1);
        tracing::warn!(resource = what, error = with_causes(&broken), ?pause, "the watch broke off");
        if broken.is_too_old() {
            version = None;
        }
        env.sleep(pause).await;
    }
}

/// Lists all objects, page by page. Returns the version of the list.
///
/// # Errors
/// A request failed, or the list has no version.
pub async fn list_all_pages<K: Watched>(
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
///
/// # Errors
/// See [`list_all_pages`].
pub async fn list_served<K: Watched>(
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

#[cfg(test)]
mod tests;
