//! Which launchers have a claim open, and violations.
//!
//! KubeVirt has no lock: it starts an instance although a different one has its claim open, and it lets users
//! delete a claim that is in use. Both destroy data, so a controller must never cause them. The simulator
//! reports each case:
//!
//! * two instances have one claim open, unless its access modes allow that;
//! * a DataVolume or claim is deleted while an instance that is to keep running has it open.
//!
//! With foreground propagation the garbage collector deletes disks while the instance still stops. This is no
//! violation: the machine was deleted first. The watches of different kinds are not ordered, so the model
//! waits for [`LAG`] before it decides.

use super::{
    events::KubeVirtModelAction,
    model::{Guest, InstanceMemory, KubeVirtModel, SuspectedViolation},
    objects::{InstanceView, KubeVirtObjectId, KubeVirtObjectKind, claims_of},
};
use crate::{
    objects::NamespacedKey,
    shared::{DiskViolation, DiskViolationKind},
};
use jiff::Timestamp;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// How much later than the deletion of a disk the model may see the earlier deletion of its machine.
const LAG: Duration = Duration::from_secs(1);

impl KubeVirtModel {
    /// The launcher opens every claim of its instance. Without a time nothing is reported.
    pub(super) fn mount_all(
        &mut self,
        key: &NamespacedKey,
        instance: &InstanceView,
        guest: &mut Guest,
        now: Option<Timestamp>,
    ) {
        for claim in claims_of(key, instance) {
            if guest.mounted.contains(&claim) {
                continue;
            }
            let shared = self.claims.view(&claim).is_some_and(|view| view.is_shared());
            let holders = self.mounts.open.entry(claim.clone()).or_default();
            holders.push(instance.meta.uid.clone());
            if let Some(now) = now.filter(|_| holders.len() > 1 && !shared) {
                let holders = holders.iter().map(ToString::to_string).collect();
                self.report(&claim, DiskViolationKind::DoubleMount, holders, now);
            }
            guest.mounted.push(claim);
        }
    }

    /// The launcher has closed its claims.
    pub(super) fn unmount_all(&mut self, uid: &str, guest: &mut Guest) {
        self.unmount(uid, std::mem::take(&mut guest.mounted));
    }

    fn unmount(&mut self, uid: &str, claims: Vec<NamespacedKey>) {
        for claim in claims {
            if let Some(holders) = self.mounts.open.get_mut(&claim) {
                holders.retain(|holder| **holder != *uid);
                if holders.is_empty() {
                    self.mounts.open.remove(&claim);
                }
            }
        }
    }

    /// The instance is gone. Its claims stay open as long as its Pods exist.
    pub(super) fn abandon_mounts(&mut self, uid: &Arc<str>, memory: InstanceMemory) {
        let mounted = memory.guest.map(|guest| guest.mounted).unwrap_or_default();
        if self.has_pods(uid) {
            self.mounts.abandoned.insert(uid.clone(), mounted);
        } else {
            self.unmount(uid, mounted);
        }
    }

    pub(super) fn end_abandoned_mounts(&mut self, uid: &Arc<str>) {
        if let Some(claims) = self.mounts.abandoned.remove(uid) {
            self.unmount(uid, claims);
        }
    }

    /// Notes the deletion of a disk that is open, as soon as its deletion timestamp is seen.
    pub(super) fn suspect_deletion(&mut self, kind: KubeVirtObjectKind, key: &NamespacedKey, now: Timestamp) {
        let deleting = match kind {
            KubeVirtObjectKind::DataVolume => {
                self.data_volumes.view(key).is_some_and(|view| view.meta.deleting())
            }
            KubeVirtObjectKind::Claim => self.claims.view(key).is_some_and(|view| view.meta.deleting()),
            KubeVirtObjectKind::Machine
            | KubeVirtObjectKind::Instance
            | KubeVirtObjectKind::Pod
            | KubeVirtObjectKind::DataSource
            | KubeVirtObjectKind::Snapshot
            | KubeVirtObjectKind::Content
            | KubeVirtObjectKind::Revision => false,
        };
        if deleting {
            self.suspect(key, now);
        }
    }

    /// Notes the deletion of a disk that is open. Later deletions of the same disk under the same instance,
    /// such as that of the claim after that of its DataVolume, are part of it.
    pub(super) fn suspect(&mut self, key: &NamespacedKey, now: Timestamp) {
        let users = self.users.get(key).into_iter().flatten();
        for instance in users.cloned().collect::<Vec<_>>() {
            let Some(slot) = self.instances.slot(&instance) else { continue };
            let (Some(view), Some(guest)) = (slot.view.clone(), &mut slot.memory.guest) else { continue };
            if !guest.mounted.contains(key) || guest.lost.contains(key) {
                continue;
            }
            guest.lost.push(key.clone());
            let suspect = SuspectedViolation { deleted: now, instance, uid: view.meta.uid.clone() };
            self.mounts.suspects.entry(key.clone()).or_default().push(suspect);
            self.agenda.wake(KubeVirtObjectId::new(KubeVirtObjectKind::Claim, key), now + LAG);
        }
    }

    /// Decides on suspects whose machine or instance is deleted, too, or that are old enough.
    pub(super) fn judge_suspects(&mut self, key: &NamespacedKey, now: Timestamp) {
        let Some(suspects) = self.mounts.suspects.remove(key) else { return };
        let mut open = Vec::new();
        let mut guilty = BTreeSet::new();
        for suspect in suspects {
            match self.departure(&suspect) {
                Departure::At(deleted) if deleted <= suspect.deleted => {}
                Departure::Gone => {}
                Departure::Stays if now < suspect.deleted + LAG => open.push(suspect),
                Departure::At(_) | Departure::Stays => drop(guilty.insert(suspect.uid.to_string())),
            }
        }
        if let Some(due) = open.iter().map(|suspect| suspect.deleted + LAG).min() {
            self.agenda.wake(KubeVirtObjectId::new(KubeVirtObjectKind::Claim, key), due);
            self.mounts.suspects.insert(key.clone(), open);
        }
        if !guilty.is_empty() {
            self.report(key, DiskViolationKind::DeletedWhileMounted, guilty.into_iter().collect(), now);
        }
    }

    /// When the instance of a suspect, or its machine, was deleted.
    fn departure(&self, suspect: &SuspectedViolation) -> Departure {
        let instance = self.instances.view(&suspect.instance).filter(|view| view.meta.uid == suspect.uid);
        let Some(instance) = instance else { return Departure::Gone };
        let machine = self.machines.view(&suspect.instance);
        let machine = machine.filter(|machine| instance.meta.is_controlled_by(&machine.meta.uid));
        let deleted = [instance.meta.deleted_at, machine.and_then(|machine| machine.meta.deleted_at)];
        deleted.into_iter().flatten().min().map_or(Departure::Stays, Departure::At)
    }

    /// Looks again at suspects of this instance.
    pub(super) fn mark_suspects_of(&mut self, instance: &NamespacedKey) {
        if self.mounts.suspects.is_empty() {
            return;
        }
        for disk in self.uses(instance) {
            self.mark(KubeVirtObjectKind::Claim, &disk);
        }
    }

    fn report(
        &mut self,
        disk: &NamespacedKey,
        problem: DiskViolationKind,
        machines: Vec<String>,
        now: Timestamp,
    ) {
        self.actions.push(KubeVirtModelAction::Report(DiskViolation {
            time: now,
            problem,
            namespace: disk.namespace.to_string(),
            disk: disk.name.to_string(),
            machines,
        }));
    }
}

/// Whether an instance leaves.
enum Departure {
    /// It, or its machine, was deleted at that time.
    At(Timestamp),
    /// It is gone.
    Gone,
    /// It is to keep running.
    Stays,
}
