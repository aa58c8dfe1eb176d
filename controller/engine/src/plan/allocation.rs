//! The disks of the pool that outlive their machines: who has which, and which may be handed out.
//!
//! A [`FreeDisks`] is made once per pass and shared by all planners, so that no disk is handed out twice.
//!
//! ```text
//!             claim written            machine refers to it
//!     Free ───────────────────> Open / Promised ───────────────────> InUse
//!      ▲                              │                                │ the machine lets go, or is gone
//!      │    released (never created)  │                                ▼
//!      ├──────────────────────────────┘                             Leaving  still mounted
//!      └───────────────────────────────────────────────────────────────┘
//! ```
//!
//! While a disk is about to become free, a machine that needs one waits for it: otherwise the pool would end with more
//! disks than it needs.

mod candidates;
mod shared;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::disks::free_name;
use super::{Blocker, Observed};
use crate::ledger::REQUEST_TIMEOUT;
use crate::model::{DiskDraft, DiskSource, DiskTemplate, Lifetime, Machine, Naming, ObjectId};
use crate::names::{Namer, SUFFIXES};
use candidates::Candidates;
pub(super) use candidates::is_usable;
use usage::DiskUses;
pub(super) use usage::{DiskUsage, PoolDisk};

/// How long a machine waits for a disk that is about to become free before it gets a new one.
pub(super) const PATIENCE: Duration = REQUEST_TIMEOUT;

/// See the module.
pub(super) struct FreeDisks<'a> {
    observed: &'a Observed<'a>,
    disks: DiskUses<'a>,
    namer: Namer,
    /// What may be handed out and what is waited for, by template; made when it is asked for first.
    candidates: BTreeMap<Arc<str>, Candidates>,
    /// Names of disks that this pass makes.
    made: BTreeSet<Arc<str>>,
    /// Members whose devices this pass changes.
    repaired: BTreeSet<Arc<str>>,
}

/// Whom a disk is for.
#[derive(Clone, Copy)]
pub(super) struct Recipient<'n> {
    /// The machine.
    pub(super) name: &'n str,
    /// Its number.
    pub(super) number: u64,
}

impl<'a> FreeDisks<'a> {
    /// Looks at every disk of the pool once.
    pub(super) fn new(observed: &'a Observed<'a>) -> Self {
        Self {
            observed,
            disks: DiskUses::read(observed),
            namer: Namer::new(&observed.pool.id.name, &observed.pool.id.uid),
            candidates: BTreeMap::new(),
            made: BTreeSet::new(),
            repaired: BTreeSet::new(),
        }
    }

    /// The disk that shall fill `template` in a member that exists: the one that it has, or was promised, or a free
    /// one, or one that is to be made. What it returns for a member that lacks one is handed out to nobody else.
    ///
    /// # Errors
    /// A disk is about to become free: the member waits for it rather than getting a new one.
    pub(super) fn disk_for(
        &mut self,
        member: &Machine,
        template: &DiskTemplate,
    ) -> Result<DiskDraft, Blocker> {
        let device = member.disks.iter().find(|device| device.template.as_ref() == Some(&template.name));
        if let Some(device) = device {
            let existing = self.observed.disks.get(&device.disk);
            let source = existing.map_or(DiskSource::New, |disk| DiskSource::Held(disk.id.clone()));
            return Ok(DiskDraft { name: device.disk.clone(), template: template.name.clone(), source });
        }
        self.replacement(template, member)
    }

    /// Another disk for a member that cannot keep the one that it refers to.
    ///
    /// # Errors
    /// As for [`FreeDisks::fill`].
    pub(super) fn replacement(
        &mut self,
        template: &DiskTemplate,
        member: &Machine,
    ) -> Result<DiskDraft, Blocker> {
        match template.lifetime {
            Lifetime::Ephemeral => {
                let name = free_name(self.observed, &member.id.name, &template.name);
                Ok(DiskDraft::new(name, template.name.clone()))
            }
            Lifetime::Retained => self.allocate(&template.name, self.recipient(&member.id.name)),
        }
    }

    /// Whether this pass repairs the disks of this member already, so that nothing else may be planned on them.
    pub(super) fn is_repaired(&self, member: &Arc<str>) -> bool {
        self.repaired.contains(member)
    }

    /// Notes that this pass changes the devices of this member.
    pub(super) fn mark_repaired(&mut self, member: &Arc<str>) {
        self.repaired.insert(member.clone());
    }

    /// The disk of a kept template for a machine that has none: one that was promised to it, or the best free one, or
    /// one that is to be made.
    ///
    /// # Errors
    /// As for [`FreeDisks::fill`].
    pub(super) fn allocate(
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
        if let Some(disk) = candidates.coming.pop() {
            return Err(Blocker::PendingDisk { machine: recipient.name.into(), disk });
        }
        Ok(self.new_disk(template, recipient))
    }

    /// The disk for a machine whose create is repeated: the same as the first time, as far as that can be known.
    pub(super) fn repeat(&mut self, template: &Arc<str>, recipient: Recipient<'_>) -> DiskDraft {
        self.allocated(template, recipient).unwrap_or_else(|| self.new_disk(template, recipient))
    }

    /// The disk that a machine was promised and does not refer to.
    pub(super) fn allocated_to(&mut self, template: &Arc<str>, member: &Arc<str>) -> Option<DiskDraft> {
        let recipient = self.recipient(member);
        self.allocated(template, recipient)
    }

    /// A disk instead of one that cannot be used. `None` while an earlier replacement cannot be used either: whatever
    /// breaks them would break the next one.
    pub(super) fn replace_broken(&mut self, template: &Arc<str>, member: &Arc<str>) -> Option<DiskDraft> {
        let recipient = self.recipient(member);
        let owed = self.allocated(template, recipient);
        if owed.is_some() {
            return owed;
        }
        let candidates = self.candidates(template);
        let in_vain = candidates.broken && candidates.free.is_empty();
        if in_vain { None } else { self.allocate(template, recipient).ok() }
    }

    /// Takes back what was handed out to a machine that is not made in this pass.
    pub(super) fn return_disks(&mut self, drafts: Vec<DiskDraft>) {
        for draft in drafts {
            if let DiskSource::Free(_) = draft.source
                && let Some(&at) = self.disks.index.get(&*draft.name)
            {
                self.disks.all[at].usage = DiskUsage::Free;
                self.candidates(&draft.template).free.push(at);
            }
        }
    }

    /// The machines of the open block that hold a claim and that nobody has seen: whoever creates one completes it.
    pub(super) fn awaited_machines(&self) -> BTreeSet<&'a str> {
        let open = |at: &usize| self.disks.all[*at].usage == DiskUsage::AwaitingMachine;
        self.disks.claims.iter().filter(|(_, disks)| disks.iter().any(open)).map(|(name, _)| *name).collect()
    }

    /// Whether another member keeps this disk, which `member` refers to as well.
    pub(super) fn must_detach(&self, member: &str, disk: &str) -> bool {
        self.disks.losers.contains(&(member, disk))
    }

    /// All disks of the pool.
    pub(super) fn all(&self) -> &[PoolDisk<'a>] {
        &self.disks.all
    }

    fn allocated(&mut self, template: &Arc<str>, recipient: Recipient<'_>) -> Option<DiskDraft> {
        let claimed = self.disks.claims.get(recipient.name)?.iter().copied();
        let fits = |at: &usize| {
            let PoolDisk { disk, usage } = &self.disks.all[*at];
            let promised = matches!(usage, DiskUsage::Allocated | DiskUsage::AwaitingMachine);
            // One that the machine was refused for is free again once the machine exists without it.
            let refused = self.observed.memory.disk_refusal(&disk.id.name, self.observed.uptime).is_some();
            promised && !refused && disk.template.as_ref() == Some(template) && is_usable(disk)
        };
        let at = claimed.filter(fits).min_by_key(|at| &self.disks.all[*at].disk.id.name)?;
        Some(self.assign(at, template, DiskSource::Held))
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
            !(observed.taken.disk(name) || observed.disks.contains_key(name) || made.contains(name))
        };
        let mut names = (0..).map(|attempt| Arc::from(namer.name(recipient.number, attempt)));
        let name: Arc<str> = names.find(is_free).expect("the attempts do not end");
        self.made.insert(name.clone());
        DiskDraft::new(name, template.clone())
    }

    fn candidates(&mut self, template: &Arc<str>) -> &mut Candidates {
        self.candidates
            .entry(template.clone())
            .or_insert_with(|| Candidates::of(self.observed, &self.disks.all, template))
    }

    /// A machine by its name alone. One that this pool did not name gets a number that its name decides.
    fn recipient<'n>(&self, name: &'n str) -> Recipient<'n> {
        let issued = match self.observed.pool.naming {
            Naming::Random => self.namer.number_of(name),
            Naming::Ordinal => name.rsplit_once('-').and_then(|(_, ordinal)| ordinal.parse().ok()),
        };
        let scattered = || {
            let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            name.bytes().fold(0xcbf2_9ce4_8422_2325, hash) % SUFFIXES
        };
        Recipient { name, number: issued.unwrap_or_else(scattered) }
    }
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
