//! The machine to which a disk is attached, and the machines that use it.
//!
//! The two are different. The *holder* of a disk is the machine to which it is attached according to the machines'
//! status; it prevents a second machine from starting. The *mounts* are the machines whose guests use the disk. On a
//! correct platform a disk has at most one mount. If the holder fails to prevent a second one, the mounts show it.

use super::{
    events::Action,
    model::{Holder, Machine, World},
};
use crate::{
    objects::{Id, Key, Kind},
    shared::{Problem, Violation},
};
use jiff::Timestamp;
use std::sync::Arc;

impl World {
    /// Registers the machine with the disks in its spec. Attaches those that are free, and detaches those that are no
    /// longer in its spec.
    pub(super) fn sync_users(&mut self, key: &Key, machine: &mut Machine) {
        let listed: Vec<Key> = machine.devices.iter().filter_map(|device| device.disk(key)).collect();
        for left in machine.listed.iter().filter(|disk| !listed.contains(disk)) {
            self.leave(key, &machine.view.meta.uid, left);
        }
        let holds = machine.holds_disks();
        for disk in &listed {
            if self.users.entry(disk.clone()).or_default().insert(key.clone()) {
                self.mark(Kind::Disk, disk);
            }
            let Some(known) = self.disks.get_mut(disk) else { continue };
            let uid = &machine.view.meta.uid;
            let held = known.holder.as_ref().is_some_and(|holder| holder.uid == *uid);
            if holds && known.holder.is_none() {
                known.holder = Some(Holder { uid: uid.clone(), name: key.name.clone() });
                self.mark(Kind::Disk, disk);
            } else if !holds && held {
                known.holder = None;
                self.mark(Kind::Disk, disk);
                self.mark_users(disk);
            }
        }
        machine.listed = listed;
    }

    /// Detaches all disks of the machine.
    pub(super) fn release(&mut self, key: &Key, machine: &mut Machine) {
        for disk in std::mem::take(&mut machine.listed) {
            self.leave(key, &machine.view.meta.uid, &disk);
        }
    }

    fn leave(&mut self, machine: &Key, uid: &Arc<str>, disk: &Key) {
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
        self.mark(Kind::Disk, disk);
    }

    /// The guest starts to use all its boot disks.
    pub(super) fn mount_all(&mut self, key: &Key, machine: &mut Machine, now: Timestamp) {
        for disk in machine.devices.iter().filter_map(|device| device.disk(key)) {
            if !machine.mounted.contains(&disk) {
                self.mount(&machine.view.meta.uid, &disk, now);
                machine.mounted.push(disk);
            }
        }
    }

    pub(super) fn mount(&mut self, uid: &Arc<str>, key: &Key, now: Timestamp) {
        let Some(disk) = self.disks.get_mut(key) else { return };
        disk.log_mount(uid);
        if !disk.mounts.contains(uid) {
            disk.mounts.push(uid.clone());
        }
        if disk.mounts.len() > 1 {
            self.actions.push(Action::Report(Violation {
                time: now,
                problem: Problem::DoubleMount,
                namespace: key.namespace.to_string(),
                disk: key.name.to_string(),
                machines: disk.mounts.iter().map(ToString::to_string).collect(),
            }));
        }
        self.agenda.mark(Id::new(Kind::Disk, key.clone()));
    }

    pub(super) fn unmount(&mut self, uid: &Arc<str>, disks: &[Key]) {
        for key in disks {
            if let Some(disk) = self.disks.get_mut(key) {
                disk.mounts.retain(|mounted| mounted != uid);
                self.mark(Kind::Disk, key);
            }
        }
    }
}
