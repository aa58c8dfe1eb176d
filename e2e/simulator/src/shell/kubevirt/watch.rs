//! The watches: one task per kind.

use super::read;
use crate::{
    kubevirt::{
        KubeVirtModelEvent,
        objects::{COPY, KubeVirtObjectId, KubeVirtObjectKind, LAUNCHER, ObservedKubeVirtObject},
    },
    objects::{NamespacedKey, StoredObject},
    shell::{
        clock::SimulatorClock,
        defaults,
        follow::{EventSource, Sender, follow_objects, key_of, watcher_config},
    },
};
use jiff::Timestamp;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use std::{collections::HashSet, fmt::Debug};
use tokio::task::JoinSet;

/// Starts every watch; returns how many there are.
pub(super) fn start_kubevirt_watches(
    client: &Client,
    namespace: Option<&str>,
    clock: SimulatorClock,
    sender: &Sender<KubeVirtModelEvent>,
    tasks: &mut JoinSet<&'static str>,
) -> usize {
    let before = tasks.len();
    let starter = Starter { client, namespace, clock, sender };
    starter.objects(tasks, KubeVirtObjectKind::Machine, |stored| Some(read::read_machine(stored)));
    starter.objects(tasks, KubeVirtObjectKind::Instance, |stored| Some(read::read_instance(stored)));
    starter.objects(tasks, KubeVirtObjectKind::DataVolume, |stored| Some(read::read_data_volume(stored)));
    starter.objects(tasks, KubeVirtObjectKind::Claim, |stored| Some(read::read_claim(stored)));
    starter.objects(tasks, KubeVirtObjectKind::Pod, read::read_pod);
    starter.objects(tasks, KubeVirtObjectKind::DataSource, |stored| Some(read::read_data_source(stored)));
    starter.objects(tasks, KubeVirtObjectKind::Snapshot, |stored| Some(read::read_snapshot(stored)));
    starter.objects(tasks, KubeVirtObjectKind::Content, |stored| Some(read::read_snapshot_content(stored)));
    starter.objects(tasks, KubeVirtObjectKind::Revision, |stored| Some(read::read_revision(stored)));
    defaults::start_shared_watches(
        client,
        namespace,
        clock,
        sender,
        tasks,
        (KubeVirtModelEvent::Knobs, KubeVirtModelEvent::Class),
    );
    tasks.len() - before
}

struct Starter<'a> {
    client: &'a Client,
    namespace: Option<&'a str>,
    clock: SimulatorClock,
    sender: &'a Sender<KubeVirtModelEvent>,
}

impl Starter<'_> {
    fn objects<S, T>(
        &self,
        tasks: &mut JoinSet<&'static str>,
        kind: KubeVirtObjectKind,
        read: fn(StoredObject<S, T>) -> Option<ObservedKubeVirtObject>,
    ) where
        S: Default + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
        T: Default + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let resource = kind.resource();
        let api: Api<StoredObject<S, T>> = match self.namespace {
            Some(namespace) if kind != KubeVirtObjectKind::Content => {
                Api::namespaced_with(self.client.clone(), namespace, &resource)
            }
            _ => Api::all_with(self.client.clone(), &resource),
        };
        let (label, value) = LAUNCHER;
        let config = match kind {
            KubeVirtObjectKind::Pod => watcher_config().labels(&format!("{label}={value}")),
            KubeVirtObjectKind::Revision => watcher_config().labels(COPY),
            _ => watcher_config(),
        };
        tasks.spawn(follow_objects(
            api,
            config,
            self.clock,
            self.sender.clone(),
            ObjectSource { kind, read },
        ));
    }
}

struct ObjectSource<S, T> {
    kind: KubeVirtObjectKind,
    read: fn(StoredObject<S, T>) -> Option<ObservedKubeVirtObject>,
}

impl<S, T> EventSource<StoredObject<S, T>> for ObjectSource<S, T> {
    type Event = KubeVirtModelEvent;

    fn name(&self) -> &'static str {
        match self.kind {
            KubeVirtObjectKind::Machine => "the watch of VirtualMachines",
            KubeVirtObjectKind::Instance => "the watch of VirtualMachineInstances",
            KubeVirtObjectKind::DataVolume => "the watch of DataVolumes",
            KubeVirtObjectKind::Claim => "the watch of PersistentVolumeClaims",
            KubeVirtObjectKind::Pod => "the watch of launcher Pods",
            KubeVirtObjectKind::DataSource => "the watch of DataSources",
            KubeVirtObjectKind::Snapshot => "the watch of VolumeSnapshots",
            KubeVirtObjectKind::Content => "the watch of VolumeSnapshotContents",
            KubeVirtObjectKind::Revision => "the watch of ControllerRevisions",
        }
    }

    fn is_optional(&self) -> bool {
        matches!(
            self.kind,
            KubeVirtObjectKind::DataSource | KubeVirtObjectKind::Snapshot | KubeVirtObjectKind::Content
        )
    }

    fn seen(&mut self, object: StoredObject<S, T>) -> Option<KubeVirtModelEvent> {
        let key = key_of(&object);
        Some(KubeVirtModelEvent::Seen(key, (self.read)(object)?))
    }

    fn gone(&mut self, object: &StoredObject<S, T>) -> KubeVirtModelEvent {
        KubeVirtModelEvent::Gone(KubeVirtObjectId { kind: self.kind, key: key_of(object) })
    }

    fn relisted(&mut self, keys: HashSet<NamespacedKey>, began: Timestamp) -> Vec<KubeVirtModelEvent> {
        vec![KubeVirtModelEvent::Relisted { kind: self.kind, keys, began }]
    }
}
