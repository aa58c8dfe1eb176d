//! The state that all passes of images share during one leadership.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{Timestamp, Unit};
use parking_lot::Mutex;
use vmpool_api::diskimage::values::WrapperPhase;
use vmpool_api::diskimage::{API_VERSION, VmDiskImage};
use vmpool_diskimage::corrections::Corrections;
use vmpool_diskimage::model::{BackingObjects, DeletionBlocked, DiskImage, ObjectKey};
use vmpool_diskimage::queue::ImportQueue as Imports;
use vmpool_diskimage::read;
use vmpool_diskimage::references::CountedReferences;
use vmpool_diskimage::wrapper;
use vmpool_engine::ObjectId;
use vmpool_kit::events::EventSubject;
use vmpool_kit::first_lists::FirstLists;
use vmpool_kit::handles::LeaderHandles;
use vmpool_kit::queue::PassQueue;

use super::gate::ImageGate;
use super::settings::ImageSettings;
use super::store::{Changed, ImageStore, ObservationTime, Served, TouchedObjects};
use crate::leadership::LeadershipResources;
use crate::metrics::{ControllerMetrics, ShownImage, ShownImages, ShownWrappers, WriteKind};

/// What a leader of images uses.
pub(super) struct ImageContext {
    /// What every controller of the leader acts with.
    pub(super) leader: LeaderHandles<WriteKind>,
    pub(super) settings: ImageSettings,
    /// Deadline of a request.
    pub(super) deadline: Duration,
    /// Number of workers of the queues of images and of wrappers.
    pub(super) workers: usize,
    pub(super) queues: ImageQueues,
    pub(super) store: Mutex<ImageStore>,
    /// The queue of imports. It changes before a status is written.
    pub(super) imports: Mutex<Imports>,
    /// UIDs of the images whose deletion may proceed: a list that began after the deletion timestamp
    /// contained no reference.
    pub(super) released: Mutex<BTreeSet<String>>,
    /// The corrections of objects that another client changes.
    pub(super) corrections: Mutex<Arc<Corrections>>,
    pub(super) metrics: Arc<ControllerMetrics>,
    lists: FirstLists,
    /// The pools that wait for images.
    gate: ImageGate,
}

/// The queues, one for each kind of pass.
pub(super) struct ImageQueues {
    pub(super) images: PassQueue<ObjectKey>,
    pub(super) wrappers: PassQueue<ObjectKey>,
    pub(super) grants: PassQueue<ObjectKey>,
    /// Permissions to clone whose images may be gone.
    pub(super) permissions: PassQueue<ObjectKey>,
}

/// What the caches show of one image.
pub(super) struct ImageFacts {
    pub(super) object: Arc<VmDiskImage>,
    pub(super) image: DiskImage,
    pub(super) backing: BackingObjects,
    pub(super) counted: CountedReferences,
    pub(super) corrections: Arc<Corrections>,
    /// The uptime at which they were read.
    pub(super) uptime: Duration,
}

impl ImageContext {
    /// A context with empty caches.
    pub(super) fn new(shared: &LeadershipResources, settings: ImageSettings, serves: Served) -> Self {
        let leader = shared.handles();
        let (limits, metrics) = (shared.settings(), shared.metrics().clone());
        let queue = || PassQueue::new(leader.env.clone(), limits.debounce, Arc::new(metrics.queue.clone()));
        let watches_contents = leader.namespace.is_none() && serves.snapshots;
        let store = ImageStore::new(serves, watches_contents, settings.wrappers && serves.wrappers);
        let queues =
            ImageQueues { images: queue(), wrappers: queue(), grants: queue(), permissions: queue() };
        Self {
            leader,
            queues,
            settings,
            deadline: limits.request_deadline,
            workers: limits.workers,
            store: Mutex::new(store),
            imports: Mutex::default(),
            released: Mutex::default(),
            corrections: Mutex::default(),
            metrics,
            lists: FirstLists::default(),
            gate: shared.image_gate().clone(),
        }
    }

    /// The images as the metrics show them.
    pub(super) fn shown(&self) -> ShownImages {
        let store = self.store.lock();
        let images = store.images.iter().map(|(key, object)| {
            let image = read::image::read_image(object, &self.settings.allowed_urls);
            let status = image.status;
            ShownImage {
                namespace: key.namespace.clone(),
                name: key.name.clone(),
                phase: status.phase,
                references: [status.counts.machines, status.counts.pools, status.counts.clones],
                unreferenced_since: status.unreferenced_since.map(Timestamp::as_second),
                blocked: image.deleting.then_some(status.deletion == Some(DeletionBlocked::InUse)),
            }
        });
        let images = images.collect();
        let imports = self.imports.lock();
        ShownImages { images, waiting: imports.len(), transferring: imports.transferring() }
    }

    /// The wrappers of each namespace as the metrics show them.
    pub(super) fn shown_wrappers(&self) -> BTreeMap<String, ShownWrappers> {
        let store = self.store.lock();
        let mut shown: BTreeMap<String, ShownWrappers> = BTreeMap::new();
        for (key, object) in store.wrapped.iter().flat_map(|wrapped| wrapped.wrappers.iter()) {
            let status = object.status.as_ref().map(wrapper::status::read_wrapper_status).unwrap_or_default();
            let phase = status.phase.unwrap_or(WrapperPhase::Provisioning);
            let namespace = shown.entry(key.namespace.clone()).or_default();
            namespace.add(phase);
            let since = object.status.as_ref().and_then(wrapper::status::image_ready_since);
            if let Some(since) = since.filter(|_| phase == WrapperPhase::Provisioning) {
                namespace.waits(since.as_second());
            }
            let differs = object.status.as_ref().is_some_and(wrapper::status::is_mismatch);
            namespace.mismatches += usize::from(differs);
        }
        shown
    }

    /// The time of a pass, in whole seconds, as the API server writes times.
    pub(super) fn now(&self) -> Timestamp {
        let now = self.leader.env.now();
        now.round(jiff::TimestampRound::new().smallest(Unit::Second).mode(jiff::RoundMode::Trunc))
            .unwrap_or(now)
    }

    /// Another list must be complete before the first pass.
    pub(super) fn list_expected(&self) {
        self.lists.expect();
    }

    /// A first list is complete. After the last one, all images get a pass.
    pub(super) fn list_ended(&self) {
        if self.lists.ended() {
            let (all, touched) = {
                let mut store = self.store.lock();
                let mut imports = self.imports.lock();
                for (_, object) in store.images.iter() {
                    imports.observe(&read::image::read_image(object, &self.settings.allowed_urls));
                }
                (store.all(), store.take_touched())
            };
            self.wake(&all);
            self.wake_touched(&touched);
            self.gate.all_changed();
        }
    }

    /// Whether all first lists are complete.
    pub(super) fn has_all_lists(&self) -> bool {
        self.lists.are_complete()
    }

    /// Changes the store, and wakes the objects that this concerns.
    pub(super) fn update(&self, change: impl FnOnce(&mut ImageStore, ObservationTime) -> Changed) {
        let now = ObservationTime { wall: self.now(), uptime: self.leader.env.uptime() };
        let (changed, touched) = {
            let mut store = self.store.lock();
            let mut changed = change(&mut store, now);
            store.add_aliases(&mut changed);
            // Before the first lists are complete, no pass runs, and the changes add up.
            (changed, self.has_all_lists().then(|| store.take_touched()))
        };
        if let Some(touched) = touched {
            self.wake(&changed);
            self.wake_touched(&touched);
            self.gate.changed(&changed);
        }
    }

    fn wake(&self, images: &Changed) {
        for key in images {
            // References name images that need not exist.
            if self.store.lock().images.get(key).is_some() || self.imports.lock().knows(key) {
                self.queues.images.wake(key);
            }
        }
    }

    fn wake_touched(&self, touched: &TouchedObjects) {
        for key in &touched.wrappers {
            self.queues.wrappers.wake(key);
        }
        for key in &touched.grants {
            self.queues.grants.wake(key);
        }
        for key in &touched.permissions {
            self.queues.permissions.wake(key);
        }
    }

    /// The controller corrects an object with this UID.
    pub(super) fn note_correction(&self, object_uid: &str, now: Duration) {
        Arc::make_mut(&mut self.corrections.lock()).note(object_uid, now);
    }

    /// An image as the cache shows it; `None` if it does not exist.
    pub(super) fn image(&self, key: &ObjectKey) -> Option<DiskImage> {
        let object = self.store.lock().images.get(key)?.clone();
        Some(read::image::read_image(&object, &self.settings.allowed_urls))
    }

    /// What the caches show of an image; `None` if it does not exist.
    pub(super) fn facts(&self, key: &ObjectKey) -> Option<ImageFacts> {
        let store = self.store.lock();
        let object = store.images.get(key)?.clone();
        let image = read::image::read_image(&object, &self.settings.allowed_urls);
        let prefixes = &self.settings.copied_label_prefixes;
        let uptime = self.leader.env.uptime();
        let backing = store.backing(&image, &object, prefixes, uptime);
        let counted = store.count(&image);
        let corrections = self.corrections.lock().clone();
        Some(ImageFacts { object, image, backing, counted, corrections, uptime })
    }
}

impl ImageFacts {
    /// The image as the subject of events.
    pub(super) fn subject(&self) -> EventSubject {
        EventSubject {
            api_version: API_VERSION.to_owned(),
            kind: "VMDiskImage".to_owned(),
            namespace: self.image.key.namespace.as_str().into(),
            id: ObjectId::new(&self.image.key.name, &self.image.uid),
        }
    }
}
