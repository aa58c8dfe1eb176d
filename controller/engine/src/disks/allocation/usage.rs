//! Which disks of the pool are in use: derived from the machines, from users outside the pool, and from the
//! annotations of the disks.

use std::cell::OnceCell;
#[expect(clippy::disallowed_types, reason = "looked up by name, never walked")]
use std::collections::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::shared;
use crate::model::{Disk, Machine, Naming};
use crate::plan::observed::ObservedPool;
use crate::scale_up::names::Namer;

/// A disk of the pool that is not terminating.
pub(crate) struct PoolDisk<'a> {
    pub(crate) disk: &'a Arc<Disk>,
    pub(crate) usage: DiskUsage,
}

/// How a disk is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskUsage {
    /// An existing machine refers to it or names it in its disk map, or it is used outside the pool.
    InUse,
    /// It is allocated to a machine that exists and will refer to it, or that may exist.
    Allocated,
    /// It is allocated to a machine of the current name block that does not exist yet: the controller exited
    /// before the create, or the create was rejected. Creating that machine completes the allocation.
    AwaitingMachine,
    /// A deleted machine still mounts it.
    Unmounting,
    /// It is not used.
    Free,
    /// This pass allocates it to a machine.
    AllocatedInPass,
}

/// The usage of all disks of the pool.
pub(super) struct DiskUses<'a> {
    pub(super) all: Vec<PoolDisk<'a>>,
    #[expect(clippy::disallowed_types, reason = "looked up by name, never walked")]
    pub(super) index: HashMap<&'a str, usize>,
    /// Machines that must detach a disk, because another machine keeps it.
    pub(super) required_detachments: BTreeSet<(&'a str, &'a str)>,
    /// Disks that are allocated to a machine and that it does not refer to yet, by the name of the machine.
    pub(super) claims: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> DiskUses<'a> {
    /// Cost: linear in the number of the pool's disks and, if there are any, in the number of devices of its
    /// machines.
    pub(super) fn read(observed: &'a ObservedPool<'a>) -> Self {
        let machines = MachineIndex::of(observed);
        let disks = observed.pool_disks.iter().filter(|disk| !disk.terminating && machines.own(disk));
        let disks: Vec<PoolDisk<'a>> = disks.map(|disk| PoolDisk { disk, usage: DiskUsage::Free }).collect();
        let index = disks.iter().enumerate().map(|(at, pool_disk)| (&*pool_disk.disk.id.name, at)).collect();
        let mut disks =
            Self { all: disks, index, required_detachments: BTreeSet::new(), claims: BTreeMap::new() };
        if disks.all.is_empty() {
            return disks;
        }
        let held_twice = disks.note_references(observed);
        if !held_twice.is_empty() {
            disks.required_detachments = shared::required_detachments(observed, &held_twice);
        }
        disks.judge(observed, &machines);
        disks
    }

    /// Marks the disks that machines refer to as in use. Returns the disks that several machines refer to.
    fn note_references(&mut self, observed: &'a ObservedPool<'a>) -> BTreeMap<&'a str, &'a Arc<Disk>> {
        let mut held = vec![false; self.all.len()];
        let mut held_twice = BTreeMap::new();
        for machine in observed.machines {
            for device in &machine.disks {
                let Some(&at) = self.index.get(&*device.disk) else { continue };
                let pool_disk = &mut self.all[at];
                pool_disk.usage = DiskUsage::InUse;
                if std::mem::replace(&mut held[at], true) {
                    held_twice.insert(&*pool_disk.disk.id.name, pool_disk.disk);
                }
            }
            let detached = machine.detached.iter().map(|detached| &detached.disk);
            for disk in detached.chain(&machine.lingering) {
                if let Some(&at) = self.index.get(&**disk) {
                    self.all[at].usage = DiskUsage::InUse;
                }
            }
        }
        held_twice
    }

    /// Determines the usage of the disks that no machine refers to.
    fn judge(&mut self, observed: &'a ObservedPool<'a>, machines: &MachineIndex<'a>) {
        for at in 0..self.all.len() {
            let disk = self.all[at].disk;
            if self.all[at].usage == DiskUsage::InUse {
                continue;
            }
            let others = observed.other_users.get(&disk.id.name).is_some_and(|others| !others.is_empty());
            let usage = if others || disk.used_otherwise {
                DiskUsage::InUse
            } else if let Some(machine) = &disk.mounted_by {
                if machines.find(machine).is_some() { DiskUsage::InUse } else { DiskUsage::Unmounting }
            } else if let Some(claimer) = &disk.annotations.claimed_by {
                machines.promise(disk, claimer, &self.required_detachments)
            } else {
                DiskUsage::Free
            };
            self.all[at].usage = usage;
            if let (DiskUsage::Allocated | DiskUsage::AwaitingMachine, Some(claimer)) =
                (usage, &disk.annotations.claimed_by)
            {
                self.claims.entry(claimer).or_default().push(at);
            }
        }
    }
}

/// Machines by name. The index is built at its first use, because most disks are in use and do not need it.
struct MachineIndex<'a> {
    observed: &'a ObservedPool<'a>,
    #[expect(clippy::disallowed_types, reason = "looked up by name, never walked")]
    by_name: OnceCell<HashMap<&'a str, &'a Machine>>,
    namer: OnceCell<Namer>,
}

impl<'a> MachineIndex<'a> {
    fn of(observed: &'a ObservedPool<'a>) -> Self {
        Self { observed, by_name: OnceCell::new(), namer: OnceCell::new() }
    }

    fn find(&self, name: &str) -> Option<&'a Machine> {
        let machines = self.observed.machines.iter();
        let index = || machines.map(|machine| (&*machine.id.name, &**machine)).collect();
        self.by_name.get_or_init(index).get(name).copied()
    }

    /// Whether the pool may write to a disk: the pool owns it, or one of its live machines owns it and either
    /// the disk template was removed or the disk was never provisioned.
    fn own(&self, disk: &Disk) -> bool {
        let Some(owner) = &disk.owner else { return false };
        let pool = &self.observed.pool.id;
        owner.is_pool(pool)
            || disk.template.as_ref().is_some_and(|template| {
                disk.was_never_provisioned() || !self.observed.pool.has_disk_template(template)
            }) && self.find(&owner.id.name).is_some_and(|machine| {
                owner.is_machine(&machine.id) && machine.belongs_to(pool) && !machine.terminating
            })
    }

    /// The usage of a disk that is allocated to a machine which does not refer to it.
    fn promise(&self, disk: &Disk, claimer: &str, losers: &BTreeSet<(&str, &str)>) -> DiskUsage {
        let observed = self.observed;
        if let Some(machine) = self.find(claimer) {
            // The machine needs the disk: it has none for the template, or cannot use the one that it has.
            let lacks = |template: &Arc<str>| {
                let detached = machine.detached.iter().any(|detached| detached.template == *template);
                let mut filled =
                    machine.disks.iter().filter(|device| device.template.as_ref() == Some(template));
                !detached
                    && observed.pool.has_disk_template(template)
                    && filled.all(|device| {
                        losers.contains(&(claimer, &*device.disk))
                            || observed
                                .disks
                                .get(&device.disk)
                                .is_none_or(|held| self.is_unfit(machine, held))
                    })
            };
            let is_owned = machine.belongs_to(&observed.pool.id);
            let refused = observed.memory.disk_refusal(&disk.id.name, observed.uptime).is_some();
            // The cache of a terminating machine may be outdated, so the disk stays allocated until the
            // machine is gone.
            let blockers =
                machine.terminating || is_owned && !refused && disk.template.as_ref().is_some_and(lacks);
            return if blockers { DiskUsage::Allocated } else { DiskUsage::Free };
        }
        if observed.unconfirmed_creates.iter().any(|lost| *lost.name == *claimer) {
            return DiskUsage::Allocated;
        }
        // A number below the next one is used up: its machine existed, or will never exist.
        let open = match observed.pool.naming {
            Naming::Random => {
                let pool = &observed.pool.id;
                let namer = self.namer.get_or_init(|| Namer::new(&pool.name, &pool.uid));
                let issued = namer.number_of(claimer).zip(observed.pool.name_block);
                issued.is_some_and(|(number, block)| {
                    number >= observed.memory.next_number && number < block.end
                })
            }
            // A new leader may use any ordinal again.
            Naming::Ordinal => true,
        };
        if open && !observed.names_in_use.has_machine(claimer) {
            DiskUsage::AwaitingMachine
        } else {
            DiskUsage::Free
        }
    }

    /// Whether a machine cannot use this disk: it contains no data, or it belongs to neither the pool nor the
    /// machine.
    fn is_unfit(&self, machine: &Machine, held: &Disk) -> bool {
        let ours = held.belongs_to(&self.observed.pool.id) || held.is_of_machine(&machine.id);
        !ours || !held.is_usable()
    }
}
