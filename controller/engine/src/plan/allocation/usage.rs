//! Who has a disk of the pool: what follows from the machines, from those outside the pool, and from the marks.

use std::cell::OnceCell;
#[expect(clippy::disallowed_types, reason = "looked up by name, never walked")]
use std::collections::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::Observed;
use super::{is_usable, shared};
use crate::model::{Disk, DiskState, Machine, Naming};
use crate::names::Namer;

/// A disk of the pool that is not on its way out.
pub(in crate::plan) struct PoolDisk<'a> {
    pub(in crate::plan) disk: &'a Arc<Disk>,
    pub(in crate::plan) usage: DiskUsage,
}

/// Who has a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::plan) enum DiskUsage {
    /// A machine that exists refers to it or names it in its disk map, or it is used outside the pool.
    InUse,
    /// It is claimed by a machine that exists and is about to refer to it, or that may exist.
    Allocated,
    /// It is claimed by a machine of the open block that nobody has seen: whoever claimed it died before, or the create
    /// was refused. Creating that machine completes the claim.
    AwaitingMachine,
    /// It is still mounted by a machine that is gone.
    Unmounting,
    /// Nobody has it.
    Free,
    /// This pass gives it to somebody.
    AllocatedInPass,
}

/// What one look at all machines tells.
pub(super) struct DiskUses<'a> {
    pub(super) all: Vec<PoolDisk<'a>>,
    #[expect(clippy::disallowed_types, reason = "looked up by name, never walked")]
    pub(super) index: HashMap<&'a str, usize>,
    /// Members that must let go of a disk, because another one keeps it.
    pub(super) losers: BTreeSet<(&'a str, &'a str)>,
    /// Disks that a machine was promised and does not refer to yet, by its name.
    pub(super) claims: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> DiskUses<'a> {
    /// Linear in the disks of the pool and, if there are any, in the devices of its machines.
    pub(super) fn read(observed: &'a Observed<'a>) -> Self {
        let members = Members::of(observed);
        let disks = observed.kept.iter().filter(|disk| !disk.terminating && members.own(disk));
        let disks: Vec<PoolDisk<'a>> = disks.map(|disk| PoolDisk { disk, usage: DiskUsage::Free }).collect();
        let index = disks.iter().enumerate().map(|(at, pool_disk)| (&*pool_disk.disk.id.name, at)).collect();
        let mut disks = Self { all: disks, index, losers: BTreeSet::new(), claims: BTreeMap::new() };
        if disks.all.is_empty() {
            return disks;
        }
        let held_twice = disks.note_references(observed);
        if !held_twice.is_empty() {
            disks.losers = shared::losers(observed, &held_twice);
        }
        disks.judge(observed, &members);
        disks
    }

    /// Marks what is in use by whoever refers to it; returns the disks that several machines refer to.
    fn note_references(&mut self, observed: &'a Observed<'a>) -> BTreeMap<&'a str, &'a Arc<Disk>> {
        let mut held = vec![false; self.all.len()];
        let mut held_twice = BTreeMap::new();
        for machine in &observed.machines {
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

    /// Decides about the disks that no machine refers to.
    fn judge(&mut self, observed: &'a Observed<'a>, members: &Members<'a>) {
        for at in 0..self.all.len() {
            let disk = self.all[at].disk;
            if self.all[at].usage == DiskUsage::InUse {
                continue;
            }
            let others = observed.others.get(&disk.id.name).is_some_and(|others| !others.is_empty());
            let usage = if others || disk.used_otherwise {
                DiskUsage::InUse
            } else if let Some(machine) = &disk.mounted_by {
                if members.machine(machine).is_some() { DiskUsage::InUse } else { DiskUsage::Unmounting }
            } else if let Some(claimer) = &disk.annotations.claimed_by {
                members.promise(disk, claimer, &self.losers)
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

/// What is asked about machines by name. The index is made when it is needed first: most disks are in use, and need
/// none.
struct Members<'a> {
    observed: &'a Observed<'a>,
    #[expect(clippy::disallowed_types, reason = "looked up by name, never walked")]
    by_name: OnceCell<HashMap<&'a str, &'a Machine>>,
    namer: OnceCell<Namer>,
}

impl<'a> Members<'a> {
    fn of(observed: &'a Observed<'a>) -> Self {
        Self { observed, by_name: OnceCell::new(), namer: OnceCell::new() }
    }

    fn machine(&self, name: &str) -> Option<&'a Machine> {
        let machines = self.observed.machines.iter();
        let index = || machines.map(|machine| (&*machine.id.name, &**machine)).collect();
        self.by_name.get_or_init(index).get(name).copied()
    }

    /// Whether a disk is the pool's to write on: it owns it, or a live member of it does and either its template has left or
    /// the disk was never made.
    fn own(&self, disk: &Disk) -> bool {
        let Some(owner) = &disk.owner else { return false };
        let pool = &self.observed.pool.id.uid;
        let never_made = disk.state == DiskState::Failed && disk.capacity.is_none();
        owner.uid == *pool
            || disk.template.as_ref().is_some_and(|template| never_made || !is_known(self.observed, template))
                && self.machine(&owner.name).is_some_and(|machine| {
                    machine.id.uid == owner.uid
                        && machine.owner.as_ref() == Some(pool)
                        && !machine.terminating
                })
    }

    /// What a claim is worth that its machine does not (yet) back with a reference.
    fn promise(&self, disk: &Disk, claimer: &str, losers: &BTreeSet<(&str, &str)>) -> DiskUsage {
        let observed = self.observed;
        if let Some(machine) = self.machine(claimer) {
            // It is to get the disk, or to have it instead of one that it cannot keep.
            let lacks = |template: &Arc<str>| {
                let detached = machine.detached.iter().any(|detached| detached.template == *template);
                let mut filled =
                    machine.disks.iter().filter(|device| device.template.as_ref() == Some(template));
                !detached
                    && is_known(observed, template)
                    && filled.all(|device| {
                        losers.contains(&(claimer, &*device.disk))
                            || observed
                                .disks
                                .get(&device.disk)
                                .is_none_or(|held| self.is_unfit(machine, held))
                    })
            };
            let member = machine.owner.as_ref() == Some(&observed.pool.id.uid);
            let refused = observed.memory.disk_refusal(&disk.id.name, observed.uptime).is_some();
            // Of one on its way out the cache may lag behind: it is waited for.
            let blockers =
                machine.terminating || member && !refused && disk.template.as_ref().is_some_and(lacks);
            return if blockers { DiskUsage::Allocated } else { DiskUsage::Free };
        }
        if observed.unconfirmed_creates.iter().any(|lost| *lost.name == *claimer) {
            return DiskUsage::Allocated;
        }
        // A number that was passed over is used up: its machine has been, or never will be.
        let open = match observed.pool.naming {
            Naming::Random => {
                let pool = &observed.pool.id;
                let namer = self.namer.get_or_init(|| Namer::new(&pool.name, &pool.uid));
                let issued = namer.number_of(claimer).zip(observed.pool.name_block);
                issued.is_some_and(|(number, block)| {
                    number >= observed.memory.next_number && number < block.end
                })
            }
            // A successor may give any ordinal again.
            Naming::Ordinal => true,
        };
        if open && !observed.taken.machine(claimer) { DiskUsage::AwaitingMachine } else { DiskUsage::Free }
    }

    /// Whether a machine cannot keep this disk: it holds no data, or it is somebody else's.
    fn is_unfit(&self, machine: &Machine, held: &Disk) -> bool {
        let pool = &self.observed.pool.id.uid;
        let ours = held.owner.as_ref().is_some_and(|owner| owner.uid == *pool || owner.uid == machine.id.uid);
        !ours || !is_usable(held)
    }
}

/// Whether the pool has a template of this name.
pub(super) fn is_known(observed: &Observed<'_>, template: &str) -> bool {
    observed.pool.disks.iter().any(|known| *known.name == *template)
}
