//! The life of a disk: a table of stages, and what brings it from one to the next.

use super::{Novelty, World, collect, ends, outbox::Outbox};
use crate::{
    duration::Delay,
    objects::{BindingMode, DiskPhase, DiskView, Id, Key, Kind, SourceKind},
    quantity,
};
use jiff::Timestamp;
use std::sync::Arc;

/// UIDs kept in a disk's log; older ones go.
const LOG_LENGTH: usize = 32;

/// A disk in the model.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) view: DiskView,
    pub(super) outbox: Outbox,
    pub(super) stage: Stage,
    /// Size of the volume, a quantity.
    pub(super) capacity: Option<String>,
    /// The machine that keeps others from it.
    pub(super) holder: Option<Holder>,
    /// UIDs of the machines whose guests have it open. More than one is a violation.
    pub(super) mounts: Vec<Arc<str>>,
    /// UIDs of the machines that opened it, oldest first.
    pub(super) log: Vec<Box<str>>,
}

/// A machine that keeps others from a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) uid: Arc<str>,
    pub(super) name: Arc<str>,
}

/// Where a disk is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Waits for what this says.
    Pending(String),
    Provisioning(Timestamp),
    Upload,
    /// Waits for a machine to start with it.
    Waiting,
    /// A machine started with it.
    Binding(Timestamp),
    Ready,
    Resizing(Timestamp),
    /// For this reason; for good.
    Failed(String),
    Lost,
}

impl Disk {
    fn new(view: DiskView, now: Timestamp) -> Self {
        let stage = match view.status.phase {
            None | Some(DiskPhase::Pending) => Stage::Pending(String::new()),
            Some(DiskPhase::Provisioning) => Stage::Provisioning(now),
            Some(DiskPhase::WaitForUserUpload) => Stage::Upload,
            Some(DiskPhase::WaitForFirstConsumer) => Stage::Waiting,
            Some(DiskPhase::Resizing) => Stage::Resizing(now),
            Some(DiskPhase::Failed) => Stage::Failed("failed earlier".to_owned()),
            Some(DiskPhase::PvcLost) => Stage::Lost,
            Some(DiskPhase::Ready | DiskPhase::Exporting | DiskPhase::Migrating) => Stage::Ready,
            // The phase is lost; a volume that was there still is.
            Some(DiskPhase::Terminating) if view.status.capacity.is_some() => Stage::Ready,
            Some(DiskPhase::Terminating) => Stage::Pending(String::new()),
        };
        let log = view.mount_log.iter().flat_map(|log| log.split(',')).filter(|uid| !uid.is_empty());
        Self {
            log: log.map(Box::from).collect(),
            outbox: Outbox::new(now),
            capacity: view.status.capacity.clone(),
            stage,
            view,
            holder: None,
            mounts: Vec::new(),
        }
    }

    /// Whether a guest can open it.
    pub(super) fn is_usable(&self) -> bool {
        matches!(self.stage, Stage::Ready | Stage::Resizing(_))
    }

    /// Whether a machine has to start before it becomes usable.
    pub(super) fn waits_for_consumer(&self) -> bool {
        matches!(self.stage, Stage::Waiting | Stage::Binding(_))
    }

    /// Whether it waits for something other than time.
    pub(super) fn is_pending(&self) -> bool {
        matches!(self.stage, Stage::Pending(_))
    }

    /// A guest wrote its mark.
    pub(super) fn log_mount(&mut self, uid: &str) {
        self.log.push(uid.into());
        let surplus = self.log.len().saturating_sub(LOG_LENGTH);
        self.log.drain(..surplus);
    }
}

impl World {
    pub(super) fn see_disk(&mut self, key: &Key, view: DiskView, novelty: Novelty, now: Timestamp) {
        let twin = self.disks.get(key).is_some_and(|known| known.view.meta.uid != view.meta.uid);
        if twin && novelty == Novelty::Any {
            self.lose_disk(key);
        }
        match self.disks.get_mut(key) {
            Some(known) if known.view.meta.uid == view.meta.uid => {
                if view.meta.version <= known.view.meta.version {
                    return;
                }
                let began_to_go = view.meta.deleting && !known.view.meta.deleting;
                known.view = view;
                known.outbox.touched = now;
                if began_to_go {
                    self.mark_users(key);
                }
            }
            Some(_) => return,
            None if novelty == Novelty::KnownOnly => return,
            None => {
                self.disks.insert(key.clone(), Disk::new(view, now));
                self.mark_users(key);
                self.restore_mounts(key);
            }
        }
        self.mark(Kind::Disk, key);
    }

    /// Guests that had the disk open before it was seen, as when the simulator starts.
    fn restore_mounts(&mut self, key: &Key) {
        let holders = self.users.get(key).into_iter().flatten().filter_map(|user| {
            let machine = self.machines.get(user)?;
            machine.mounted.contains(key).then(|| machine.view.meta.uid.clone())
        });
        let holders: Vec<_> = holders.collect();
        if let Some(disk) = self.disks.get_mut(key) {
            disk.mounts = holders;
        }
    }

    pub(super) fn lose_disk(&mut self, key: &Key) {
        if self.disks.remove(key).is_some() {
            self.mark_users(key);
        }
    }

    pub(super) fn plan_disk(&mut self, key: &Key, now: Timestamp) {
        let Some(mut disk) = self.disks.remove(key) else { return };
        let mut due = None;
        let mut usable_before = (disk.is_usable(), disk.waits_for_consumer());
        while let Some((at, stage, capacity)) = self.next_stage(key, &disk) {
            let at = at.unwrap_or(now);
            if at > now {
                due = Some(at);
                self.agenda.wake(Id::new(Kind::Disk, key.clone()), at);
                break;
            }
            if matches!(stage, Stage::Failed(_)) {
                self.spend_failure(key);
            }
            if let Some(capacity) = capacity {
                disk.capacity = Some(capacity);
            }
            // Stages count from the moment they begin, however late we look.
            disk.stage = match stage {
                Stage::Provisioning(_) => Stage::Provisioning(now),
                Stage::Binding(_) => Stage::Binding(now),
                Stage::Resizing(_) => Stage::Resizing(now),
                other => other,
            };
        }
        if std::mem::replace(&mut usable_before, (disk.is_usable(), disk.waits_for_consumer()))
            != usable_before
        {
            self.mark_users(key);
        }
        self.publish_disk(key, &mut disk, due, now);
        self.disks.insert(key.clone(), disk);
    }

    /// The table: the stage after this one, when it begins (at once if nothing is said) and the new capacity.
    fn next_stage(&self, key: &Key, disk: &Disk) -> Option<(Option<Timestamp>, Stage, Option<String>)> {
        if disk.view.meta.deleting {
            return None;
        }
        let knobs = self.knobs_for(&key.namespace, disk.view.knobs.as_deref());
        let delay: Delay = knobs.get(|k| k.provisioning_delay).unwrap_or(self.settings.provisioning_delay);
        match &disk.stage {
            Stage::Pending(waits_for) => match self.obstacle(key, disk) {
                Obstacle::None => Some((None, Stage::Provisioning(Timestamp::MIN), None)),
                Obstacle::Upload => Some((None, Stage::Upload, None)),
                Obstacle::Wait(why) if why == *waits_for => None,
                Obstacle::Wait(why) => Some((None, Stage::Pending(why), None)),
                Obstacle::Fatal(why) => Some((None, Stage::Failed(why), None)),
            },
            Stage::Provisioning(since) => {
                let at = ends(*since, delay)?;
                let stage = if self.must_fail(key, disk) {
                    return Some((Some(at), Stage::Failed("told to by a knob".to_owned()), None));
                } else if self.waits_for_first_consumer(disk) {
                    Stage::Waiting
                } else {
                    Stage::Ready
                };
                let capacity = (stage == Stage::Ready).then(|| self.wanted_capacity(key, disk)).flatten();
                Some((Some(at), stage, capacity))
            }
            Stage::Waiting if !disk.mounts.is_empty() => Some((None, Stage::Binding(Timestamp::MIN), None)),
            Stage::Binding(since) | Stage::Resizing(since) => {
                Some((Some(ends(*since, delay)?), Stage::Ready, self.wanted_capacity(key, disk)))
            }
            Stage::Ready if self.grows(disk) && self.may_expand(disk) => {
                Some((None, Stage::Resizing(Timestamp::MIN), None))
            }
            Stage::Waiting | Stage::Ready | Stage::Upload | Stage::Failed(_) | Stage::Lost => None,
        }
    }

    /// What keeps a disk from being provisioned.
    fn obstacle(&self, key: &Key, disk: &Disk) -> Obstacle {
        let spec = &disk.view.spec;
        if let Some(class) = spec.class().filter(|class| !self.classes.contains_key(*class)) {
            return Obstacle::Wait(format!("StorageClass {class} does not exist"));
        }
        if let Some(size) = spec.size().filter(|size| quantity::bytes(size).is_none()) {
            return Obstacle::Fatal(format!("{size} is not a size"));
        }
        let Some(source) = &spec.data_source else {
            return match spec.size() {
                Some(_) => Obstacle::None,
                None => Obstacle::Fatal("a blank disk needs a size".to_owned()),
            };
        };
        match source.type_ {
            SourceKind::Http | SourceKind::ContainerImage => Obstacle::None,
            SourceKind::Upload => Obstacle::Upload,
            SourceKind::ObjectRef => match source.object() {
                Some((kind, name)) if self.source(key, disk).is_none() => {
                    Obstacle::Wait(format!("{kind} {name} does not exist or is not ready"))
                }
                Some(_) => Obstacle::None,
                None => Obstacle::Fatal("the data source names no object".to_owned()),
            },
        }
    }

    /// The image that a disk copies, if it is ready.
    fn source(&self, key: &Key, disk: &Disk) -> Option<&crate::objects::ImageView> {
        let (kind, name) = disk.view.spec.data_source.as_ref()?.object()?;
        let kind = match kind {
            "VirtualImage" => Kind::Image,
            "ClusterVirtualImage" => Kind::ClusterImage,
            // Snapshots are not played: a disk waits for one for ever.
            _ => return None,
        };
        self.image(kind, &key.namespace, name).filter(|image| image.is_ready())
    }

    fn wanted_capacity(&self, key: &Key, disk: &Disk) -> Option<String> {
        let wanted = disk.view.spec.size();
        let content = self.source(key, disk).and_then(|image| image.size.clone());
        let larger = |size: &String| quantity::bytes(size);
        [wanted, content, disk.capacity.clone()].into_iter().flatten().max_by_key(larger)
    }

    fn waits_for_first_consumer(&self, disk: &Disk) -> bool {
        self.class(disk).is_some_and(|class| class.binding == BindingMode::WaitForFirstConsumer)
    }

    fn class(&self, disk: &Disk) -> Option<&crate::objects::ClassView> {
        match disk.view.spec.class() {
            Some(name) => self.classes.get(name),
            None => self.classes.values().find(|class| class.is_default),
        }
    }

    /// Whether more is wanted than there is.
    pub(super) fn grows(&self, disk: &Disk) -> bool {
        let wanted = disk.view.spec.size().and_then(|size| quantity::bytes(&size));
        let has = disk.capacity.as_deref().and_then(quantity::bytes);
        disk.is_usable() && wanted > has
    }

    /// Whether the storage class lets volumes grow; without a class nothing forbids it.
    pub(super) fn may_expand(&self, disk: &Disk) -> bool {
        self.class(disk).is_none_or(|class| class.expands)
    }

    /// Whether the knob `fail-provisioning` hits this disk.
    fn must_fail(&self, key: &Key, disk: &Disk) -> bool {
        if let Some(own) = disk.view.knobs.as_ref().and_then(|knobs| knobs.fail_provisioning) {
            return own > 0;
        }
        self.failures_left(&key.namespace) > 0
    }

    fn failures_left(&self, namespace: &Arc<str>) -> u64 {
        let wanted = self.knobs.get(namespace).and_then(|knobs| knobs.fail_provisioning).unwrap_or(0);
        match self.failures_spent.get(namespace) {
            Some((value, spent)) if *value == wanted => wanted.saturating_sub(*spent),
            // Another value begins a new count.
            _ => wanted,
        }
    }

    fn spend_failure(&mut self, key: &Key) {
        let Some(wanted) = self.knobs.get(&key.namespace).and_then(|knobs| knobs.fail_provisioning) else {
            return;
        };
        let entry = self.failures_spent.entry(key.namespace.clone()).or_insert((wanted, 0));
        if entry.0 != wanted {
            *entry = (wanted, 0);
        }
        entry.1 += 1;
    }

    pub(super) fn disks_of_image(&self, namespace: &str) -> Vec<Key> {
        collect(&self.disks, |key, disk| {
            disk.is_pending() && (namespace.is_empty() || *key.namespace == *namespace)
        })
    }
}

/// What keeps a disk from being provisioned.
enum Obstacle {
    None,
    /// A person has to bring the content.
    Upload,
    /// It may go away.
    Wait(String),
    /// It will not.
    Fatal(String),
}
