//! The stages of a disk, and the transitions between them.

use super::{
    events::DvpObservationSource,
    model::{DiskStage, DvpModel, SimulatedDisk},
    provisioning::ProvisioningBlocker,
};
use crate::{
    duration::Delay,
    objects::{DiskView, DvpObjectId, DvpObjectKind, NamespacedKey},
    shared::delay_end,
};
use jiff::Timestamp;

impl DvpModel {
    pub(super) fn see_disk(
        &mut self,
        key: &NamespacedKey,
        view: DiskView,
        novelty: DvpObservationSource,
        now: Timestamp,
    ) {
        let same_object = self.disks.get(key).is_some_and(|known| known.view.meta.uid != view.meta.uid);
        if same_object && novelty == DvpObservationSource::Any {
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
            None if novelty == DvpObservationSource::KnownOnly => return,
            None => {
                self.disks.insert(key.clone(), SimulatedDisk::new(view, now));
                self.mark_users(key);
                self.restore_mounts(key);
            }
        }
        self.mark(DvpObjectKind::Disk, key);
    }

    /// Guests that used the disk before it was observed, for example when the simulator starts.
    fn restore_mounts(&mut self, key: &NamespacedKey) {
        let holders = self.users.get(key).into_iter().flatten().filter_map(|user| {
            let machine = self.machines.get(user)?;
            machine.mounted.contains(key).then(|| machine.view.meta.uid.clone())
        });
        let holders: Vec<_> = holders.collect();
        if let Some(disk) = self.disks.get_mut(key) {
            disk.mounts = holders;
        }
    }

    pub(super) fn lose_disk(&mut self, key: &NamespacedKey) {
        if self.disks.remove(key).is_some() {
            self.mark_users(key);
        }
    }

    pub(super) fn plan_disk(&mut self, key: &NamespacedKey, now: Timestamp) {
        let Some(mut disk) = self.disks.remove(key) else { return };
        let mut due = None;
        let mut usable_before = (disk.is_usable(), disk.waits_for_consumer());
        while let Some((at, stage, capacity)) = self.next_stage(key, &disk) {
            let at = at.unwrap_or(now);
            if at > now {
                due = Some(at);
                self.agenda.wake(DvpObjectId::new(DvpObjectKind::Disk, key.clone()), at);
                break;
            }
            if matches!(stage, DiskStage::Failed(_)) {
                self.spend_failure(key);
            }
            if let Some(capacity) = capacity {
                disk.capacity = Some(capacity);
            }
            // A stage begins at its due time, even if it is processed later.
            disk.stage = match stage {
                DiskStage::Provisioning(_) => DiskStage::Provisioning(now),
                DiskStage::Binding(_) => DiskStage::Binding(now),
                DiskStage::Resizing(_) => DiskStage::Resizing(now),
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
    fn next_stage(
        &self,
        key: &NamespacedKey,
        disk: &SimulatedDisk,
    ) -> Option<(Option<Timestamp>, DiskStage, Option<String>)> {
        if disk.view.meta.deleting {
            return None;
        }
        let knobs = self.knobs_for(&key.namespace, disk.view.knobs.as_deref());
        let delay: Delay = knobs.get(|k| k.provisioning_delay).unwrap_or(self.settings.provisioning_delay);
        match &disk.stage {
            DiskStage::Pending(waits_for) => match self.blocker(key, disk) {
                ProvisioningBlocker::None => Some((None, DiskStage::Provisioning(Timestamp::MIN), None)),
                ProvisioningBlocker::Upload => Some((None, DiskStage::Upload, None)),
                ProvisioningBlocker::Wait(why) if why == *waits_for => None,
                ProvisioningBlocker::Wait(why) => Some((None, DiskStage::Pending(why), None)),
                ProvisioningBlocker::Fatal(why) => Some((None, DiskStage::Failed(why), None)),
            },
            DiskStage::Provisioning(since) => {
                let at = delay_end(*since, delay)?;
                let stage = if self.must_fail(key, disk) {
                    return Some((Some(at), DiskStage::Failed("requested by a knob".to_owned()), None));
                } else if self.waits_for_first_consumer(disk) {
                    DiskStage::Waiting
                } else {
                    DiskStage::Ready
                };
                let capacity = (stage == DiskStage::Ready).then(|| self.wanted_capacity(key, disk)).flatten();
                Some((Some(at), stage, capacity))
            }
            DiskStage::Waiting if !disk.mounts.is_empty() => {
                Some((None, DiskStage::Binding(Timestamp::MIN), None))
            }
            DiskStage::Binding(since) | DiskStage::Resizing(since) => {
                Some((Some(delay_end(*since, delay)?), DiskStage::Ready, self.wanted_capacity(key, disk)))
            }
            DiskStage::Ready if Self::needs_expansion(disk) && self.may_expand(disk) => {
                Some((None, DiskStage::Resizing(Timestamp::MIN), None))
            }
            DiskStage::Waiting
            | DiskStage::Ready
            | DiskStage::Upload
            | DiskStage::Failed(_)
            | DiskStage::Lost => None,
        }
    }
}
