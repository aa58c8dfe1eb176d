//! The watches: one task per kind.

use super::{
    clock::SimulatorClock,
    defaults,
    follow::{EventSource, Sender, follow_objects, key_of, watcher_config},
};
use crate::{
    objects::{
        AttachmentView, DiskView, DvpMachineView, DvpObjectId, DvpObjectKind, ImageView, NamespacedKey,
        OperationView, POD_LABEL, PodView, StoredAttachment, StoredDvpDisk, StoredDvpMachine, StoredImage,
        StoredObject, StoredOperation, StoredPod,
    },
    world::{DvpModelEvent, ObservedDvpObject},
};
use jiff::Timestamp;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use std::{collections::HashSet, fmt::Debug};
use tokio::task::JoinSet;

/// Starts the watches, and returns their number.
pub(super) fn start_dvp_watches(
    client: &Client,
    namespace: Option<&str>,
    clock: SimulatorClock,
    sender: &Sender<DvpModelEvent>,
    tasks: &mut JoinSet<&'static str>,
) -> usize {
    let before = tasks.len();
    let starter = Starter { client, namespace, clock, sender };
    starter.objects(tasks, DvpObjectKind::Machine, |_, stored: StoredDvpMachine| {
        Some(ObservedDvpObject::Machine(Box::new(DvpMachineView::read(stored))))
    });
    starter.objects(tasks, DvpObjectKind::Disk, |_, stored: StoredDvpDisk| {
        Some(ObservedDvpObject::Disk(Box::new(DiskView::read(stored))))
    });
    for kind in [DvpObjectKind::Image, DvpObjectKind::ClusterImage] {
        starter.objects(tasks, kind, |kind, stored: StoredImage| {
            Some(ObservedDvpObject::Image(kind, ImageView::read(&stored)))
        });
    }
    starter.objects(tasks, DvpObjectKind::Operation, |_, stored: StoredOperation| {
        Some(ObservedDvpObject::Operation(OperationView::read(stored)))
    });
    starter.objects(tasks, DvpObjectKind::Attachment, |_, stored: StoredAttachment| {
        Some(ObservedDvpObject::Attachment(AttachmentView::read(stored)))
    });
    starter.objects(tasks, DvpObjectKind::Pod, |_, stored: StoredPod| {
        PodView::read(stored).map(|view| ObservedDvpObject::Pod(Box::new(view)))
    });
    defaults::start_shared_watches(
        client,
        namespace,
        clock,
        sender,
        tasks,
        (DvpModelEvent::Knobs, DvpModelEvent::Class),
    );
    tasks.len() - before
}

struct Starter<'a> {
    client: &'a Client,
    namespace: Option<&'a str>,
    clock: SimulatorClock,
    sender: &'a Sender<DvpModelEvent>,
}

impl Starter<'_> {
    fn objects<S, T>(
        &self,
        tasks: &mut JoinSet<&'static str>,
        kind: DvpObjectKind,
        read: fn(DvpObjectKind, StoredObject<S, T>) -> Option<ObservedDvpObject>,
    ) where
        S: Default + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
        T: Default + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let resource = kind.resource();
        let api: Api<StoredObject<S, T>> =
            match self.namespace.filter(|_| kind != DvpObjectKind::ClusterImage) {
                Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
                None => Api::all_with(self.client.clone(), &resource),
            };
        let config =
            if kind == DvpObjectKind::Pod { watcher_config().labels(POD_LABEL) } else { watcher_config() };
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
    kind: DvpObjectKind,
    read: fn(DvpObjectKind, StoredObject<S, T>) -> Option<ObservedDvpObject>,
}

impl<S, T> EventSource<StoredObject<S, T>> for ObjectSource<S, T> {
    type Event = DvpModelEvent;

    fn name(&self) -> &'static str {
        match self.kind {
            DvpObjectKind::Machine => "the watch of machines",
            DvpObjectKind::Disk => "the watch of disks",
            DvpObjectKind::Image => "the watch of images",
            DvpObjectKind::ClusterImage => "the watch of cluster images",
            DvpObjectKind::Operation => "the watch of operations",
            DvpObjectKind::Attachment => "the watch of attachments",
            DvpObjectKind::Pod => "the watch of pods",
        }
    }

    fn seen(&mut self, object: StoredObject<S, T>) -> Option<DvpModelEvent> {
        let key = key_of(&object);
        Some(DvpModelEvent::Seen(key, (self.read)(self.kind, object)?))
    }

    fn gone(&mut self, object: &StoredObject<S, T>) -> DvpModelEvent {
        DvpModelEvent::Gone(DvpObjectId::new(self.kind, key_of(object)))
    }

    fn relisted(&mut self, keys: HashSet<NamespacedKey>, began: Timestamp) -> Vec<DvpModelEvent> {
        vec![DvpModelEvent::Relisted { kind: self.kind, keys, began }]
    }
}
