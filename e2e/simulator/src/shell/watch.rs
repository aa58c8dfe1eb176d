//! The watches: one task per kind, which reports existing, changed and deleted objects.

use super::{clock::Clock, defaults};
use crate::{
    objects::{
        AttachmentView, DiskView, Id, ImageView, Key, Kind, MachineView, OperationView, POD_LABEL, PodView,
        Stored, StoredAttachment, StoredDisk, StoredImage, StoredMachine, StoredOperation, StoredPod,
    },
    world::{Event, Object},
};
use futures::StreamExt;
use jiff::Timestamp;
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::{
        utils::{Backoff, StreamBackoff},
        watcher::{self, watcher},
    },
};
use serde::de::DeserializeOwned;
use std::{collections::HashSet, fmt::Debug, pin::pin, time::Duration};
use tokio::{sync::mpsc, task::JoinSet};

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

/// Starts the watches, and returns their number.
pub(super) fn start(
    client: &Client,
    namespace: Option<&str>,
    clock: Clock,
    sender: &Sender<Event>,
    tasks: &mut JoinSet<&'static str>,
) -> usize {
    let before = tasks.len();
    let starter = Starter { client, namespace, clock, sender };
    starter.objects(tasks, Kind::Machine, |_, stored: StoredMachine| {
        Some(Object::Machine(Box::new(MachineView::read(stored))))
    });
    starter.objects(tasks, Kind::Disk, |_, stored: StoredDisk| {
        Some(Object::Disk(Box::new(DiskView::read(stored))))
    });
    for kind in [Kind::Image, Kind::ClusterImage] {
        starter.objects(tasks, kind, |kind, stored: StoredImage| {
            Some(Object::Image(kind, ImageView::read(&stored)))
        });
    }
    starter.objects(tasks, Kind::Operation, |_, stored: StoredOperation| {
        Some(Object::Operation(OperationView::read(stored)))
    });
    starter.objects(tasks, Kind::Attachment, |_, stored: StoredAttachment| {
        Some(Object::Attachment(AttachmentView::read(stored)))
    });
    starter.objects(tasks, Kind::Pod, |_, stored: StoredPod| {
        PodView::read(stored).map(|view| Object::Pod(Box::new(view)))
    });
    defaults::start(client, namespace, clock, sender, tasks, (Event::Knobs, Event::Class));
    tasks.len() - before
}

pub(super) fn config() -> watcher::Config {
    // The default list semantic is the most recent state, not any state of the watch cache.
    watcher::Config::default().timeout(WATCH_SECONDS)
}

struct Starter<'a> {
    client: &'a Client,
    namespace: Option<&'a str>,
    clock: Clock,
    sender: &'a Sender<Event>,
}

impl Starter<'_> {
    fn objects<S, T>(
        &self,
        tasks: &mut JoinSet<&'static str>,
        kind: Kind,
        read: fn(Kind, Stored<S, T>) -> Option<Object>,
    ) where
        S: Default + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
        T: Default + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let resource = kind.resource();
        let api: Api<Stored<S, T>> = match self.namespace.filter(|_| kind != Kind::ClusterImage) {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let config = if kind == Kind::Pod { config().labels(POD_LABEL) } else { config() };
        tasks.spawn(follow(api, config, self.clock, self.sender.clone(), ObjectSource { kind, read }));
    }
}

/// Converts the objects of one kind to events.
pub(super) trait Source<K>: Send {
    /// Events of the model.
    type Event: Send;

    fn name(&self) -> &'static str;
    fn seen(&mut self, object: K) -> Option<Self::Event>;
    fn gone(&mut self, object: &K) -> Self::Event;
    /// A list that began at that time is complete.
    fn relisted(&mut self, keys: HashSet<Key>, began: Timestamp) -> Vec<Self::Event>;
}

pub(super) async fn follow<K, S>(
    api: Api<K>,
    config: watcher::Config,
    clock: Clock,
    sender: Sender<S::Event>,
    mut source: S,
) -> &'static str
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    S: Source<K>,
{
    let mut first_list = true;
    let mut began = clock.now();
    let mut keys = HashSet::new();
    let mut stream = pin!(StreamBackoff::new(watcher(api, config), Reconnect(FIRST_RECONNECT)));
    while let Some(event) = stream.next().await {
        let complete = first_list && matches!(event, Ok(watcher::Event::InitDone));
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

pub(super) fn key_of<K: Resource>(object: &K) -> Key {
    Key::new(object.meta().namespace.as_deref().unwrap_or_default(), &object.name_any())
}

struct ObjectSource<S, T> {
    kind: Kind,
    read: fn(Kind, Stored<S, T>) -> Option<Object>,
}

impl<S, T> Source<Stored<S, T>> for ObjectSource<S, T> {
    type Event = Event;

    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Machine => "the watch of machines",
            Kind::Disk => "the watch of disks",
            Kind::Image => "the watch of images",
            Kind::ClusterImage => "the watch of cluster images",
            Kind::Operation => "the watch of operations",
            Kind::Attachment => "the watch of attachments",
            Kind::Pod => "the watch of pods",
        }
    }

    fn seen(&mut self, object: Stored<S, T>) -> Option<Event> {
        let key = key_of(&object);
        Some(Event::Seen(key, (self.read)(self.kind, object)?))
    }

    fn gone(&mut self, object: &Stored<S, T>) -> Event {
        Event::Gone(Id::new(self.kind, key_of(object)))
    }

    fn relisted(&mut self, keys: HashSet<Key>, began: Timestamp) -> Vec<Event> {
        vec![Event::Relisted { kind: self.kind, keys, began }]
    }
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
