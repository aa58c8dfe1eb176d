//! The platform: machines, and retained disks.

use std::sync::Arc;

use super::api::Api;
use super::standby::record_ready;
use crate::model::{Disk, DiskRef, DiskState, Machine, MachineActivity, ObjectId, Uid};

impl Api {
    /// The platform tries to start a machine. Its disks must exist, contain data and not be mounted by
    /// another machine.
    pub(super) fn start(&mut self, id: &ObjectId) -> bool {
        let Ok(machine) = self.machines.find(id) else { return false };
        if !self.may_power_on(&machine) {
            return false;
        }
        let (starts, now) = (self.can_start(&machine), self.timestamp());
        if starts {
            let kept = self
                .retained_devices(&machine)
                .map(|disk| (disk.clone(), id.uid.clone()))
                .collect::<Vec<_>>();
            self.retained.mounts.extend(kept);
        }
        let activity = if starts { MachineActivity::Running } else { MachineActivity::NotRunning };
        if machine.activity != activity || machine.devices_ready != starts {
            self.edit_machine(id, |machine| {
                (machine.activity, machine.devices_ready) = (activity, starts);
                if starts {
                    record_ready(machine, now);
                }
                machine.start_health.not_ready_since.take_if(|_| starts);
            });
        }
        starts
    }

    /// The guest or the node of a ready machine fails, and the platform reports since when.
    pub(super) fn fail(&mut self, id: &ObjectId) {
        let now = self.timestamp();
        self.unmount(&id.uid);
        self.edit_machine(id, |machine| {
            machine.activity = MachineActivity::NotRunning;
            machine.start_health.not_ready_since = Some(now);
        });
    }

    /// Whether all disks of a machine can be mounted.
    pub(super) fn can_start(&self, machine: &Machine) -> bool {
        self.retained_devices(machine).all(|disk| {
            let there = self.disks.objects.get(disk).is_some_and(|seen| {
                !seen.facts.terminating && !matches!(seen.facts.state, DiskState::Failed | DiskState::Lost)
            });
            there && self.retained.mounts.get(disk).is_none_or(|holder| *holder == machine.id.uid)
        })
    }

    /// The retained disks of a machine.
    fn retained_devices<'a>(&'a self, machine: &'a Machine) -> impl Iterator<Item = &'a Arc<str>> {
        let kept = |device: &&DiskRef| {
            device.template.as_ref().is_none_or(|name| self.retained_template(name).is_some())
        };
        machine.disks.iter().filter(kept).map(|device| &device.disk)
    }

    pub(super) fn unmount(&mut self, machine: &Uid) {
        self.retained.mounts.retain(|_, holder| holder != machine);
    }

    pub(super) fn is_mounted(&self, disk: &str) -> bool {
        self.retained.mounts.contains_key(disk)
    }

    /// The platform stops a machine and unmounts its disks.
    pub(super) fn stop(&mut self, id: &ObjectId, activity: MachineActivity) {
        self.unmount(&id.uid);
        if self.machines.find(id).is_ok_and(|machine| machine.activity != activity) {
            self.edit_machine(id, |machine| machine.activity = activity);
        }
    }

    /// The disks whose status is outdated.
    pub(super) fn stale_disks(&self) -> Vec<ObjectId> {
        let kept = self.retained_disks().filter(|disk| self.true_status(disk) != ***disk);
        kept.map(|disk| disk.id.clone()).collect()
    }

    /// The platform updates the status of a disk.
    pub(super) fn tell_status(&mut self, id: &ObjectId) {
        let Ok(disk) = self.disks.find(id) else { return };
        let version = self.next_version();
        let reported = self.true_status(&disk);
        self.disks.put(reported, version);
    }

    fn true_status(&self, disk: &Disk) -> Disk {
        let state = match disk.state {
            DiskState::Pending | DiskState::Changing => DiskState::Ready,
            other => other,
        };
        let mounted_by = self.reported_holder(disk);
        Disk { mounted_by, state, capacity: disk.size.or(Some(8)), ..disk.clone() }
    }

    /// The machine that the platform reports as mounting a disk: the running one, or else one of the waiting
    /// ones, which stays the same while it waits.
    fn reported_holder(&self, disk: &Disk) -> Option<Arc<str>> {
        let machines = self.machines.objects.values().map(|seen| &seen.facts);
        let holder = self.retained.mounts.get(&disk.id.name);
        if let Some(runs) = machines.clone().find(|machine| Some(&machine.id.uid) == holder) {
            return Some(runs.id.name.clone());
        }
        let refers = |machine: &&Arc<Machine>| machine.disks.iter().any(|device| device.disk == disk.id.name);
        let waiting =
            machines.filter(|machine| machine.activity == MachineActivity::NotRunning).filter(refers);
        let names: Vec<&Arc<str>> = waiting.map(|machine| &machine.id.name).collect();
        let same = names.iter().find(|name| disk.mounted_by.as_ref() == Some(**name));
        same.or(names.first()).map(|name| (*name).clone())
    }

    /// A disk that is not mounted fails.
    pub(super) fn break_disk(&mut self, id: &ObjectId, state: DiskState) {
        if self.retained.mounts.contains_key(&id.name) {
            return;
        }
        let Ok(disk) = self.disks.find(id) else { return };
        self.retained.excused += 1;
        let version = self.next_version();
        self.disks.put(Disk { state, ..disk }, version);
    }

    /// Terminating disks that are not mounted are deleted.
    pub(super) fn finish_disks(&mut self) -> usize {
        let gone = self.finished_disks();
        for name in &gone {
            self.disks.remove(name);
        }
        gone.len()
    }

    pub(super) fn finished_disks(&self) -> Vec<Arc<str>> {
        self.disks
            .objects
            .values()
            .filter(|seen| seen.facts.terminating && !self.retained.mounts.contains_key(&seen.facts.id.name))
            .map(|seen| seen.facts.id.name.clone())
            .collect()
    }
}
