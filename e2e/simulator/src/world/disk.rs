//! The stages of a disk, and the transitions between them.

use super::{
    events::Novelty,
    model::{Disk, Stage, World},
    provisioning::Blocker,
};
use crate::{
    duration::Delay,
    objects::{DiskView, Id, Key, Kind},
    shared::ends,
};
use jiff::Timestamp;

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
