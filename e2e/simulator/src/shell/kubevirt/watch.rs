//! The watches: one task per kind.

use super::read;
use crate::{
    kubevirt::{
        Event,
        objects::{COPY, Id, Kind, LAUNCHER, Object},
    },
    objects::{Key, Stored},
    shell::{
        clock::Clock,
        defaults,
        follow::{Sender, Source, config, follow, key_of},
    },
};
use jiff::Timestamp;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use std::{collections::HashSet, fmt::Debug};
use tokio::task::JoinSet;

/// Starts every watch; returns how many there are.
pub(super) fn start(
    client: &Client,
    namespace: Option<&str>,
    clock: Clock,
    sender: &Sender<Event>,
    tasks: &mut JoinSet<&'static str>,
) -> usize {
    let before = tasks.len();
    let starter = Starter { client, namespace, clock, sender };
    starter.objects(tasks, Kind::Machine, |stored| Some(read::machine(stored)));
    starter.objects(tasks, Kind::Instance, |stored| Some(read::instance(stored)));
    starter.objects(tasks, Kind::DataVolume, |stored| Some(read::data_volume(stored)));
    starter.objects(tasks, Kind::Claim, |stored| Some(read::claim(stored)));
    starter.objects(tasks, Kind::Pod, read::pod);
    starter.objects(tasks, Kind::DataSource, |stored| Some(read::data_source(stored)));
    starter.objects(tasks, Kind::Snapshot, |stored| Some(read::snapshot(stored)));
    starter.objects(tasks, Kind::Content, |stored| Some(read::content(stored)));
    starter.objects(tasks, Kind::Revision, |stored| Some(read::revision(stored)));
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
        read: fn(Stored<S, T>) -> Option<Object>,
    ) where
        S: Default + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
        T: Default + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let resource = kind.resource();
        let api: Api<Stored<S, T>> = match self.namespace {
            Some(namespace) if kind != Kind::Content => {
                Api::namespaced_with(self.client.clone(), namespace, &resource)
            }
            _ => Api::all_with(self.client.clone(), &resource),
        };
        let (label, value) = LAUNCHER;
        let config = match kind {
            Kind::Pod => config().labels(&format!("{label}={value}")),
            Kind::Revision => config().labels(COPY),
            _ => config(),
        };
        tasks.spawn(follow(api, config, self.clock, self.sender.clone(), ObjectSource { kind, read }));
    }
}

struct ObjectSource<S, T> {
    kind: Kind,
    read: fn(Stored<S, T>) -> Option<Object>,
}

impl<S, T> Source<Stored<S, T>> for ObjectSource<S, T> {
    type Event = Event;

    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Machine => "the watch of VirtualMachines",
            Kind::Instance => "the watch of VirtualMachineInstances",
            Kind::DataVolume => "the watch of DataVolumes",
            Kind::Claim => "the watch of PersistentVolumeClaims",
            Kind::Pod => "the watch of launcher Pods",
            Kind::DataSource => "the watch of DataSources",
            Kind::Snapshot => "the watch of VolumeSnapshots",
            Kind::Content => "the watch of VolumeSnapshotContents",
            Kind::Revision => "the watch of ControllerRevisions",
        }
    }

    fn is_optional(&self) -> bool {
        matches!(self.kind, Kind::DataSource | Kind::Snapshot | Kind::Content)
    }

    fn seen(&mut self, object: Stored<S, T>) -> Option<Event> {
        let key = key_of(&object);
        Some(Event::Seen(key, (self.read)(object)?))
    }

    fn gone(&mut self, object: &Stored<S, T>) -> Event {
        Event::Gone(Id { kind: self.kind, key: key_of(object) })
    }

    fn relisted(&mut self, keys: HashSet<Key>, began: Timestamp) -> Vec<Event> {
        vec![Event::Relisted { kind: self.kind, keys, began }]
    }
}
