//! The machine to which a disk is attached, and the machines that use it.
//!
//! The two are different. The *holder* of a disk is the machine to which it is attached according to the
//! machines' status; it prevents a second machine from starting. The *mounts* are the machines whose guests
//! use the disk. On a correct platform a disk has at most one mount. If the holder fails to prevent a second
//! one, the mounts show it.

use super::{
    events::DvpModelAction,
    model::{DiskHolder, DvpModel, SimulatedMachine},
};
use crate::{
    objects::{DvpObjectId, DvpObjectKind, NamespacedKey},
    shared::{DiskViolation, DiskViolationKind},
};
use jiff::Timestamp;
use std::sync::Arc;

impl DvpModel {
    /// Registers the machine with the disks in its spec. Attaches those that are free, and detaches those
    /// that are no longer in its spec.
    pub(super) fn sync_users(&mut self, key: &NamespacedKey, machine: &mut SimulatedMachine) {
        let listed: Vec<NamespacedKey> =
            machine.devices.iter().filter_map(|device| device.disk(key)).collect();
        for left in machine.listed.iter().filter(|disk| !listed.contains(disk)) {
            self.detach_disk(key, &machine.view.meta.uid, left);
        }
        let holds = machine.holds_disks();
        for disk in &listed {
            if self.users.entry(disk.clone()).or_default().insert(key.clone()) {
                self.mark(DvpObjectKind::Disk, disk);
            }
            let Some(known) = self.disks.get_mut(disk) else { continue };
            let uid = &machine.view.meta.uid;
            let held = known.holder.as_ref().is_some_and(|holder| holder.uid == *uid);
            if holds && known.holder.is_none() {
                known.holder = Some(DiskHolder { uid: uid.clone(), name: key.name.clone() });
                self.mark(DvpObjectKind::Disk, disk);
            } else if !holds && held {
                known.holder = None;
                self.mark(DvpObjectKind::Disk, disk);
                self.mark_users(disk);
            }
        }
        machine.listed = listed;
    }

    /// Detaches all disks of the machine.
    pub(super) fn release(&mut self, key: &NamespacedKey, machine: &mut SimulatedMachine) {
        for disk in std::mem::take(&mut machine.listed) {
            self.detach_disk(key, &machine.view.meta.uid, &disk);
        }
    }

    fn detach_disk(&mut self, machine: &NamespacedKey, uid: &Arc<str>, disk: &NamespacedKey) {
        if let Some(users) = self.users.get_mut(disk) {
            users.remove(machine);
            if users.is_empty() {
                self.users.remove(disk);
            }
        }
        if let Some(known) = self.disks.get_mut(disk)
            && known.holder.as_ref().is_some_and(|holder| holder.uid == *uid)
        {
            known.holder = None;
            self.mark_users(disk);
        }
        self.mark(DvpObjectKind::Disk, disk);
    }

    /// The guest starts to use all its boot disks.
    pub(super) fn mount_all(&mut self, key: &NamespacedKey, machine: &mut SimulatedMachine, now: Timestamp) {
        for disk in machine.devices.iter().filter_map(|device| device.disk(key)) {
            if !machine.mounted.contains(&disk) {
                self.mount(&machine.view.meta.uid, &disk, now);
                machine.mounted.push(disk);
            }
        }
    }

    pub(super) fn mount(&mut self, uid: &Arc<str>, key: &NamespacedKey, now: Timestamp) {
        let Some(disk) = self.disks.get_mut(key) else { return };
        disk.log_mount(uid);
        if !disk.mounts.contains(uid) {
            disk.mounts.push(uid.clone());
        }
        if disk.mounts.len() > 1 {
            self.actions.push(DvpModelAction::Report(DiskViolation {
                time: now,
                problem: DiskViolationKind::DoubleMount,
                namespace: key.namespace.to_string(),
                disk: key.name.to_string(),
                machines: disk.mounts.iter().map(ToString::to_string).collect(),
            }));
        }
        self.agenda.mark(DvpObjectId::new(DvpObjectKind::Disk, key.clone()));
    }

    pub(super) fn unmount(&mut self, uid: &Arc<str>, disks: &[NamespacedKey]) {
        for key in disks {
            if let Some(disk) = self.disks.get_mut(key) {
                disk.mounts.retain(|mounted| mounted != uid);
                self.mark(DvpObjectKind::Disk, key);
            }
        }
    }
}
