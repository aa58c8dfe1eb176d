//! Follows the objects of one kind: reports existing, changed and deleted objects, and reconnects.

use super::clock::SimulatorClock;
use crate::objects::NamespacedKey;
use futures::StreamExt;
use jiff::Timestamp;
use kube::{
    Api, Resource, ResourceExt,
    runtime::{
        utils::{Backoff, StreamBackoff},
        watcher::{self, watcher},
    },
};
use serde::de::DeserializeOwned;
use std::{collections::HashSet, fmt::Debug, pin::pin, time::Duration};
use tokio::sync::mpsc;

/// The API server ends a watch after this time, and it is continued from the same version. Unit: seconds.
const WATCH_SECONDS: u32 = 50;
const FIRST_RECONNECT: Duration = Duration::from_millis(200);
const LAST_RECONNECT: Duration = Duration::from_secs(3);

/// A message from a watch to the loop.
#[derive(Debug)]
pub(super) enum Message<E> {
    /// An event for the model.
    Event(Box<E>),
    /// This watch has completed its first list.
    Listed,
}

pub(super) type Sender<E> = mpsc::Sender<Message<E>>;

pub(super) fn watcher_config() -> watcher::Config {
    // The default list semantic is the most recent state, not any state of the watch cache.
    watcher::Config::default().timeout(WATCH_SECONDS)
}

/// Converts the objects of one kind to events.
pub(super) trait EventSource<K>: Send {
    /// Events of the model.
    type Event: Send;

    fn name(&self) -> &'static str;
    /// Whether the simulator works without the kind. If the API server does not serve it, the list counts as
    /// empty.
    fn is_optional(&self) -> bool {
        false
    }
    fn seen(&mut self, object: K) -> Option<Self::Event>;
    fn gone(&mut self, object: &K) -> Self::Event;
    /// A list that began at that time is complete.
    fn relisted(&mut self, keys: HashSet<NamespacedKey>, began: Timestamp) -> Vec<Self::Event>;
}

pub(super) async fn follow_objects<K, S>(
    api: Api<K>,
    config: watcher::Config,
    clock: SimulatorClock,
    sender: Sender<S::Event>,
    mut source: S,
) -> &'static str
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    S: EventSource<K>,
{
    let mut first_list = true;
    let mut began = clock.now();
    let mut keys = HashSet::new();
    let mut stream = pin!(StreamBackoff::new(watcher(api, config), Reconnect(FIRST_RECONNECT)));
    while let Some(event) = stream.next().await {
        let unserved = source.is_optional() && event.as_ref().is_err_and(is_unserved);
        let complete = first_list && (unserved || matches!(event, Ok(watcher::Event::InitDone)));
        let events = match event {
            Ok(watcher::Event::Init) => {
                began = clock.now();
                keys.clear();
                vec![]
            }
            Ok(watcher::Event::InitApply(object)) => {
                keys.insert(key_of(&object));
                source.seen(object).into_iter().collect()
            }
            Ok(watcher::Event::InitDone) => source.relisted(std::mem::take(&mut keys), began),
            Ok(watcher::Event::Apply(object)) => source.seen(object).into_iter().collect(),
            Ok(watcher::Event::Delete(object)) => vec![source.gone(&object)],
            Err(_) if unserved => vec![],
            Err(error) => {
                tracing::warn!(kind = source.name(), %error, "watch interrupted; retrying");
                continue;
            }
        };
        for event in events {
            if sender.send(Message::Event(Box::new(event))).await.is_err() {
                return source.name();
            }
        }
        if complete {
            first_list = false;
            if sender.send(Message::Listed).await.is_err() {
                return source.name();
            }
        }
    }
    source.name()
}

/// Whether the API server does not know the kind.
fn is_unserved(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error)) = error else {
        return false;
    };
    // For a whole group, the API server responds with a text, which has no reason.
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

pub(super) fn key_of<K: Resource>(object: &K) -> NamespacedKey {
    NamespacedKey::new(object.meta().namespace.as_deref().unwrap_or_default(), &object.name_any())
}

/// The backoff of connections to the API server, short enough to reconnect soon after it restarts.
struct Reconnect(Duration);

impl Iterator for Reconnect {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let wait = self.0;
        self.0 = (wait * 2).min(LAST_RECONNECT);
        Some(wait)
    }
}

impl Backoff for Reconnect {
    fn reset(&mut self) {
        self.0 = FIRST_RECONNECT;
    }
}
