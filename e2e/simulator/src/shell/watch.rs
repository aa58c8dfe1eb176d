//! The watches: one task per kind.

use super::{
    clock::Clock,
    defaults,
    follow::{Sender, Source, config, follow, key_of},
};
use crate::{
    objects::{
        AttachmentView, DiskView, Id, ImageView, Key, Kind, MachineView, OperationView, POD_LABEL, PodView,
        Stored, StoredAttachment, StoredDisk, StoredImage, StoredMachine, StoredOperation, StoredPod,
    },
    world::{Event, Object},
};
use jiff::Timestamp;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use std::{collections::HashSet, fmt::Debug};
use tokio::task::JoinSet;

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
