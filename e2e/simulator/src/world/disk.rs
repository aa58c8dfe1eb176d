//! The stages of a disk, and the transitions between them.

use super::{Novelty, World, ends, outbox::Outbox, provisioning::Blocker};
use crate::{
    duration::Delay,
    objects::{DiskPhase, DiskView, Id, Key, Kind},
};
use jiff::Timestamp;
use std::sync::Arc;

/// Maximum number of UIDs in a disk's log; the oldest are dropped.
const LOG_LENGTH: usize = 32;

/// A disk in the model.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) view: DiskView,
    pub(super) outbox: Outbox,
    pub(super) stage: Stage,
    /// Size of the volume, a quantity.
    pub(super) capacity: Option<String>,
    /// The machine to which it is attached according to the platform.
    pub(super) holder: Option<Holder>,
    /// UIDs of the machines whose guests use it. More than one is a violation.
    pub(super) mounts: Vec<Arc<str>>,
    /// UIDs of the machines that have used it, oldest first.
    pub(super) log: Vec<Box<str>>,
}

/// The machine to which a disk is attached. Other machines cannot start with the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) uid: Arc<str>,
    pub(super) name: Arc<str>,
}

/// The stage of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Waits for this reason.
    Pending(String),
    Provisioning(Timestamp),
    Upload,
    /// Waits for its first consumer, a machine that starts with it.
    Waiting,
    /// A machine has started with it.
    Binding(Timestamp),
    Ready,
    Resizing(Timestamp),
    /// Failed permanently, for this reason.
    Failed(String),
    Lost,
}

impl Disk {
    fn new(view: DiskView, now: Timestamp) -> Self {
        let stage = match view.status.phase {
            Some(DiskPhase::Provisioning) => Stage::Provisioning(now),
            Some(DiskPhase::WaitForUserUpload) => Stage::Upload,
            Some(DiskPhase::WaitForFirstConsumer) => Stage::Waiting,
            Some(DiskPhase::Resizing) => Stage::Resizing(now),
            Some(DiskPhase::Failed) => Stage::Failed("failed earlier".to_owned()),
            Some(DiskPhase::PvcLost) => Stage::Lost,
            Some(DiskPhase::Ready | DiskPhase::Exporting | DiskPhase::Migrating) => Stage::Ready,
            // The previous phase is unknown; an existing volume still exists.
            Some(DiskPhase::Terminating) if view.status.capacity.is_some() => Stage::Ready,
            None | Some(DiskPhase::Pending | DiskPhase::Terminating) => Stage::Pending(String::new()),
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

    /// Whether a guest can use it.
    pub(super) fn is_usable(&self) -> bool {
        matches!(self.stage, Stage::Ready | Stage::Resizing(_))
    }

    /// Whether it becomes usable only when a machine starts with it.
    pub(super) fn waits_for_consumer(&self) -> bool {
        matches!(self.stage, Stage::Waiting | Stage::Binding(_))
    }

    /// Whether it waits for an event other than the end of a delay.
    pub(super) fn is_pending(&self) -> bool {
        matches!(self.stage, Stage::Pending(_))
    }

    /// Records that the guest of a machine has used the disk.
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

    /// Guests that used the disk before it was observed, for example when the simulator starts.
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
            // A stage begins at its due time, even if it is processed later.
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

    /// The transitions: the next stage, when it begins (`None`: immediately), and the new capacity.
    fn next_stage(&self, key: &Key, disk: &Disk) -> Option<(Option<Timestamp>, Stage, Option<String>)> {
        if disk.view.meta.deleting {
            return None;
        }
        let knobs = self.knobs_for(&key.namespace, disk.view.knobs.as_deref());
        let delay: Delay = knobs.get(|k| k.provisioning_delay).unwrap_or(self.settings.provisioning_delay);
        match &disk.stage {
            Stage::Pending(waits_for) => match self.blocker(key, disk) {
                Blocker::None => Some((None, Stage::Provisioning(Timestamp::MIN), None)),
                Blocker::Upload => Some((None, Stage::Upload, None)),
                Blocker::Wait(why) if why == *waits_for => None,
                Blocker::Wait(why) => Some((None, Stage::Pending(why), None)),
                Blocker::Fatal(why) => Some((None, Stage::Failed(why), None)),
            },
            Stage::Provisioning(since) => {
                let at = ends(*since, delay)?;
                let stage = if self.must_fail(key, disk) {
                    return Some((Some(at), Stage::Failed("requested by a knob".to_owned()), None));
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
            Stage::Ready if Self::grows(disk) && self.may_expand(disk) => {
                Some((None, Stage::Resizing(Timestamp::MIN), None))
            }
            Stage::Waiting | Stage::Ready | Stage::Upload | Stage::Failed(_) | Stage::Lost => None,
        }
    }
}
