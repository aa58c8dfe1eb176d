//! Writes of other clients.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::api::{Api, PoolHistoryEntry};
use crate::model::{Disk, Machine, ObjectId, Owner, Pool, Uid};
use crate::protection::{Protection, ProtectionEnd};

impl Api {
    pub(super) fn edit_pool(&mut self, edit: impl FnOnce(&mut Pool)) {
        edit(&mut self.pool);
        self.pool.generation += 1;
        if self.templates_ever.last() != Some(&self.pool.disks) {
            self.templates_ever.push(self.pool.disks.clone());
        }
        self.history.push(PoolHistoryEntry::of(&self.pool));
    }

    pub(super) fn put_machine(&mut self, machine: Machine) {
        let version = self.next_version();
        self.machines.put(machine, version);
    }

    pub(super) fn edit_machine(&mut self, id: &ObjectId, edit: impl FnOnce(&mut Machine)) {
        self.change(id, edit).expect("only what exists is edited");
    }

    /// A user protects a machine until this time, or takes the protection off.
    pub(super) fn protect(&mut self, id: &ObjectId, until: Option<ProtectionEnd>) {
        let protection = Protection { until, ..Protection::default() };
        let protection = until.map(|_| Arc::new(protection));
        self.edit_machine(id, |machine| machine.protection = protection);
    }

    /// A user deletes a machine or removes its owner.
    pub(super) fn remove_by_hand(&mut self, id: &ObjectId, edit: impl FnOnce(&mut Machine)) {
        self.others_removals.push(self.machines.log.len());
        self.edit_machine(id, edit);
    }

    /// The platform finishes the deletion of a terminating machine.
    pub(super) fn finish(&mut self, name: &str) {
        let id = self.machines.objects[name].facts.id.clone();
        self.unmount(&id.uid);
        self.discard_storage(&id);
        self.machines.remove(name);
    }

    /// A client deletes a disk. A mounted disk stays terminating.
    pub(super) fn lose_disk(&mut self, name: &str) {
        if self.is_mounted(name) {
            let disk = (*self.disks.objects[name].facts).clone();
            let version = self.next_version();
            self.disks.put(Disk { terminating: true, ..disk }, version);
        } else {
            self.disks.remove(name);
        }
    }

    /// The garbage collector deletes the disks of deleted machines.
    pub(super) fn collect(&mut self) -> usize {
        let names = self.orphans();
        for name in &names {
            self.disks.remove(name);
        }
        names.len() + self.finish_disks()
    }

    /// Whether the garbage collector or the platform has disks to delete.
    pub(super) fn has_garbage(&self) -> bool {
        !(self.orphans().is_empty() && self.finished_disks().is_empty())
    }

    fn orphans(&self) -> Vec<Arc<str>> {
        let machines: BTreeSet<&Uid> =
            self.machines.objects.values().map(|seen| &seen.facts.id.uid).collect();
        let orphans = self.disks.objects.values().filter(|disk| {
            let gone = |owner: &Owner| {
                if owner.is_pool(&self.pool.id) {
                    return self.pool.deleting && !self.is_mounted(&disk.facts.id.name);
                }
                !machines.contains(&owner.id.uid)
            };
            disk.facts.owner.as_ref().is_some_and(gone)
        });
        orphans.map(|disk| disk.facts.id.name.clone()).collect()
    }
}
