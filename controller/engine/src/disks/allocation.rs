//! Disk allocation: which retained disks of the pool are in use, and which free disks the plan gives to
//! machines.
//!
//! There is one [`FreeDisks`] per pass, which all planners share, so that no disk is allocated twice.
//!
//! ```text
//!             allocation written       machine refers to it
//!     Free ──────────> AwaitingMachine / Allocated ────────────────> InUse
//!      ▲                              │                                │ detached, or the machine is gone
//!      │ released (never created)     │                                ▼
//!      ├──────────────────────────────┘                            Unmounting  still mounted
//!      └───────────────────────────────────────────────────────────────┘
//! ```
//!
//! If a disk will become free soon, a machine that needs one waits for it. Otherwise the pool would get more
//! disks than it needs.

mod candidates;
mod shared;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::disk_names::free_name;
use crate::ids::{ObjectId, hash_bytes};
use crate::model::{DiskDraft, DiskSource, Lifetime, Machine, Naming, PoolDiskTemplate};
use crate::plan::blocker::Blocker;
use crate::plan::observed::ObservedPool;
use crate::scale_up::names::{Namer, SUFFIXES};
use candidates::AllocationCandidates;
pub(crate) use candidates::UNMOUNT_TIMEOUT;
use usage::DiskUses;
pub(crate) use usage::{DiskUsage, PoolDisk};

/// The free disks of one pass. See the module documentation.
pub(crate) struct FreeDisks<'a> {
    observed: &'a ObservedPool<'a>,
    disks: DiskUses<'a>,
    namer: Namer,
    /// The candidates of each disk template, computed at the first request.
    candidates: BTreeMap<Arc<str>, AllocationCandidates>,
    /// Names of disks that this pass creates.
    made: BTreeSet<Arc<str>>,
    /// Machines whose devices this pass changes.
    repaired: BTreeSet<Arc<str>>,
}

/// The machine that gets a disk.
#[derive(Clone, Copy)]
pub(crate) struct Recipient<'n> {
    /// Its name.
    pub(crate) name: &'n str,
    /// Its number.
    pub(crate) number: u64,
}

impl<'a> FreeDisks<'a> {
    /// Determines the usage of every disk of the pool.
    pub(crate) fn new(observed: &'a ObservedPool<'a>) -> Self {
        Self {
            observed,
            disks: DiskUses::read(observed),
            namer: Namer::new(&observed.pool.id.name, &observed.pool.id.uid),
            candidates: BTreeMap::new(),
            made: BTreeSet::new(),
            repaired: BTreeSet::new(),
        }
    }

    /// The disk for `template` in an existing machine: the one that it has, one that is allocated to it, a
    /// free one, or a new one. A returned disk is not allocated to any other machine.
    ///
    /// # Errors
    /// A disk will become free soon, and the machine must wait for it.
    pub(crate) fn disk_for(
        &mut self,
        machine: &Machine,
        template: &PoolDiskTemplate,
    ) -> Result<DiskDraft, Blocker> {
        let device = machine.disks.iter().find(|device| device.template.as_ref() == Some(&template.name));
        if let Some(device) = device {
            let existing = self.observed.disks.get(&device.disk);
            let source = existing.map_or(DiskSource::New, |disk| DiskSource::Existing(disk.id.clone()));
            return Ok(DiskDraft { name: device.disk.clone(), template: template.name.clone(), source });
        }
        self.replacement(template, machine)
    }

    /// Another disk for a machine that cannot use the one that it refers to.
    ///
    /// # Errors
    /// As for [`FreeDisks::disk_for`].
    pub(crate) fn replacement(
        &mut self,
        template: &PoolDiskTemplate,
        machine: &Machine,
    ) -> Result<DiskDraft, Blocker> {
        match template.lifetime {
            Lifetime::Ephemeral => {
                let name = free_name(self.observed, &machine.id.name, &template.name);
                Ok(DiskDraft::new(name, template.name.clone()))
            }
            Lifetime::Retained => self.allocate(&template.name, self.recipient(&machine.id.name)),
        }
    }

    /// Whether this pass already repairs the disks of this machine, so that no other change may be planned
    /// for them.
    pub(crate) fn is_repaired(&self, machine: &Arc<str>) -> bool {
        self.repaired.contains(machine)
    }

    /// Records that this pass changes the devices of this machine.
    pub(super) fn mark_repaired(&mut self, machine: &Arc<str>) {
        self.repaired.insert(machine.clone());
    }

    /// The retained disk for a machine that has none: one that is allocated to it, or the best free one, or a
    /// new one.
    ///
    /// # Errors
    /// As for [`FreeDisks::disk_for`].
    pub(crate) fn allocate(
        &mut self,
        template: &Arc<str>,
        recipient: Recipient<'_>,
    ) -> Result<DiskDraft, Blocker> {
        if let Some(held) = self.allocated(template, recipient) {
            return Ok(held);
        }
        let candidates = self.candidates(template);
        if let Some(at) = candidates.free.pop() {
            return Ok(self.assign(at, template, DiskSource::Free));
        }
        if let Some(disk) = candidates.pending.pop() {
            return Err(Blocker::PendingDisk { machine: recipient.name.into(), disk });
        }
        Ok(self.new_disk(template, recipient))
    }

    /// The disk for a machine whose create is repeated: the same as in the first attempt, as far as that is
    /// known.
    pub(crate) fn repeat(&mut self, template: &Arc<str>, recipient: Recipient<'_>) -> DiskDraft {
        self.allocated(template, recipient).unwrap_or_else(|| self.new_disk(template, recipient))
    }

    /// The disk that is allocated to a machine and that the machine does not refer to.
    pub(super) fn allocated_to(&mut self, template: &Arc<str>, machine: &Arc<str>) -> Option<DiskDraft> {
        let recipient = self.recipient(machine);
        self.allocated(template, recipient)
    }

    /// A replacement for a disk that cannot be used. `None` while an earlier replacement cannot be used
    /// either, because a third disk would probably fail for the same reason.
    pub(super) fn replace_broken(&mut self, template: &Arc<str>, machine: &Arc<str>) -> Option<DiskDraft> {
        let recipient = self.recipient(machine);
        let owed = self.allocated(template, recipient);
        if owed.is_some() {
            return owed;
        }
        let candidates = self.candidates(template);
        let in_vain = candidates.broken && candidates.free.is_empty();
        if in_vain { None } else { self.allocate(template, recipient).ok() }
    }

    /// Frees the disks that were allocated to a machine which this pass does not create.
    pub(crate) fn return_disks(&mut self, drafts: Vec<DiskDraft>) {
        for draft in drafts {
            if let DiskSource::Free(_) = draft.source
                && let Some(&at) = self.disks.index.get(&*draft.name)
            {
                self.disks.all[at].usage = DiskUsage::Free;
                self.candidates(&draft.template).free.push(at);
            }
        }
    }

    /// The machines of the current name block that disks are allocated to and that do not exist yet. Creating
    /// such a machine completes the allocation.
    pub(crate) fn awaited_machines(&self) -> BTreeSet<&'a str> {
        let open = |at: &usize| self.disks.all[*at].usage == DiskUsage::AwaitingMachine;
        self.disks.claims.iter().filter(|(_, disks)| disks.iter().any(open)).map(|(name, _)| *name).collect()
    }

    /// Whether `machine` must detach this disk, because another machine keeps it.
    pub(super) fn must_detach(&self, machine: &str, disk: &str) -> bool {
        self.disks.required_detachments.contains(&(machine, disk))
    }

    /// All disks of the pool.
    pub(crate) fn all(&self) -> &[PoolDisk<'a>] {
        &self.disks.all
    }

    fn allocated(&mut self, template: &Arc<str>, recipient: Recipient<'_>) -> Option<DiskDraft> {
        let claimed = self.disks.claims.get(recipient.name)?.iter().copied();
        let fits = |at: &usize| {
            let PoolDisk { disk, usage } = &self.disks.all[*at];
            let is_allocated = matches!(usage, DiskUsage::Allocated | DiskUsage::AwaitingMachine);
            // A disk that was the reason for a rejection becomes free when the machine exists without it.
            let refused = self.observed.memory.disk_refusal(&disk.id.name, self.observed.uptime).is_some();
            is_allocated && !refused && disk.template.as_ref() == Some(template) && disk.is_usable()
        };
        let at = claimed.filter(fits).min_by_key(|at| &self.disks.all[*at].disk.id.name)?;
        Some(self.assign(at, template, DiskSource::Existing))
    }

    fn assign(
        &mut self,
        at: usize,
        template: &Arc<str>,
        source: impl FnOnce(ObjectId) -> DiskSource,
    ) -> DiskDraft {
        let pool_disk = &mut self.disks.all[at];
        pool_disk.usage = DiskUsage::AllocatedInPass;
        let id = &pool_disk.disk.id;
        DiskDraft { name: id.name.clone(), template: template.clone(), source: source(id.clone()) }
    }

    fn new_disk(&mut self, template: &Arc<str>, recipient: Recipient<'_>) -> DiskDraft {
        let namer = self.candidates(template).namer.clone();
        let Self { observed, made, .. } = self;
        let is_free = |name: &Arc<str>| {
            !(observed.names_in_use.has_disk(name)
                || observed.disks.contains_key(name)
                || made.contains(name))
        };
        let mut names = (0..).map(|attempt| Arc::from(namer.name(recipient.number, attempt)));
        let name: Arc<str> = names.find(is_free).expect("the attempts do not end");
        self.made.insert(name.clone());
        DiskDraft::new(name, template.clone())
    }

    fn candidates(&mut self, template: &Arc<str>) -> &mut AllocationCandidates {
        self.candidates
            .entry(template.clone())
            .or_insert_with(|| AllocationCandidates::of(self.observed, &self.disks.all, template))
    }

    /// The recipient of this name. A machine whose name was not issued by the pool gets a number that is a
    /// hash of its name.
    fn recipient<'n>(&self, name: &'n str) -> Recipient<'n> {
        let issued = match self.observed.pool.naming {
            Naming::Random => self.namer.number_of(name),
            Naming::Ordinal => name.rsplit_once('-').and_then(|(_, ordinal)| ordinal.parse().ok()),
        };
        let scattered = || hash_bytes(name.bytes()) % SUFFIXES;
        Recipient { name, number: issued.unwrap_or_else(scattered) }
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
