//! The disks of the pool that outlive their machines: who has which, and which may be handed out.
//!
//! A [`Shelf`] is made once per pass and shared by all planners, so that no disk is handed out twice.
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

mod shared;
mod stack;
mod standing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::disks::free_name;
use super::{Observed, Wait};
use crate::ledger::REQUEST_TIMEOUT;
use crate::model::{DiskDraft, DiskSource, DiskTemplate, Lifetime, Naming, ObjectId, Replica};
use crate::numbers::{Namer, SUFFIXES};
use stack::Stack;
pub(super) use stack::is_usable;
use standing::Books;
pub(super) use standing::{Book, Standing};

/// How long a machine waits for a disk that is about to become free before it gets a new one.
pub(super) const PATIENCE: Duration = REQUEST_TIMEOUT;

/// See the module.
pub(super) struct Shelf<'a> {
    observed: &'a Observed<'a>,
    books: Books<'a>,
    namer: Namer,
    /// What may be handed out and what is waited for, by template; made when it is asked for first.
    stacks: BTreeMap<Arc<str>, Stack>,
    /// Names of disks that this pass makes.
    made: BTreeSet<Arc<str>>,
    /// Members whose devices this pass changes.
    repaired: BTreeSet<Arc<str>>,
}

/// Whom a disk is for.
#[derive(Clone, Copy)]
pub(super) struct For<'n> {
    /// The machine.
    pub(super) name: &'n str,
    /// Its number.
    pub(super) number: u64,
}

impl<'a> Shelf<'a> {
    /// Looks at every disk of the pool once.
    pub(super) fn new(observed: &'a Observed<'a>) -> Self {
        Self {
            observed,
            books: Books::read(observed),
            namer: Namer::new(&observed.pool.id.name, &observed.pool.id.uid),
            stacks: BTreeMap::new(),
            made: BTreeSet::new(),
            repaired: BTreeSet::new(),
        }
    }

    /// The disk that shall fill `template` in a member that exists: the one that it has, or was promised, or a free
    /// one, or one that is to be made. What it returns for a member that lacks one is handed out to nobody else.
    ///
    /// # Errors
    /// A disk is about to become free: the member waits for it rather than getting a new one.
    pub(super) fn fill(&mut self, member: &Replica, template: &DiskTemplate) -> Result<DiskDraft, Wait> {
        let device = member.disks.iter().find(|device| device.template.as_ref() == Some(&template.name));
        if let Some(device) = device {
            let existing = self.observed.disks.get(&device.disk);
            let source = existing.map_or(DiskSource::New, |disk| DiskSource::Held(disk.id.clone()));
            return Ok(DiskDraft { name: device.disk.clone(), template: template.name.clone(), source });
        }
        self.instead(template, member)
    }

    /// Another disk for a member that cannot keep the one that it refers to.
    ///
    /// # Errors
    /// As for [`Shelf::fill`].
    pub(super) fn instead(&mut self, template: &DiskTemplate, member: &Replica) -> Result<DiskDraft, Wait> {
        match template.lifetime {
            Lifetime::Machine => {
                let name = free_name(self.observed, &member.id.name, &template.name);
                Ok(DiskDraft::new(name, template.name.clone()))
            }
            Lifetime::Pool => self.take(&template.name, self.whom(&member.id.name)),
        }
    }

    /// Whether this pass repairs the disks of this member already, so that nothing else may be planned on them.
    pub(super) fn is_repaired(&self, member: &Arc<str>) -> bool {
        self.repaired.contains(member)
    }

    /// Notes that this pass changes the devices of this member.
    pub(super) fn repairs(&mut self, member: &Arc<str>) {
        self.repaired.insert(member.clone());
    }

    /// The disk of a kept template for a machine that has none: one that was promised to it, or the best free one, or
    /// one that is to be made.
    ///
    /// # Errors
    /// As for [`Shelf::fill`].
    pub(super) fn take(&mut self, template: &Arc<str>, whom: For<'_>) -> Result<DiskDraft, Wait> {
        if let Some(held) = self.promised(template, whom) {
            return Ok(held);
        }
        let stack = self.stack(template);
        if let Some(at) = stack.free.pop() {
            return Ok(self.hand_out(at, template, DiskSource::Free));
        }
        if let Some(disk) = stack.coming.pop() {
            return Err(Wait::Disk { machine: whom.name.into(), disk });
        }
        Ok(self.new_disk(template, whom))
    }

    /// The disk for a machine whose create is repeated: the same as the first time, as far as that can be known.
    pub(super) fn again(&mut self, template: &Arc<str>, whom: For<'_>) -> DiskDraft {
        self.promised(template, whom).unwrap_or_else(|| self.new_disk(template, whom))
    }

    /// The disk that a machine was promised and does not refer to.
    pub(super) fn owed(&mut self, template: &Arc<str>, member: &Arc<str>) -> Option<DiskDraft> {
        let whom = self.whom(member);
        self.promised(template, whom)
    }

    /// A disk instead of one that cannot be used. `None` while an earlier replacement cannot be used either: whatever
    /// breaks them would break the next one.
    pub(super) fn replace(&mut self, template: &Arc<str>, member: &Arc<str>) -> Option<DiskDraft> {
        let whom = self.whom(member);
        let owed = self.promised(template, whom);
        if owed.is_some() {
            return owed;
        }
        let stack = self.stack(template);
        let in_vain = stack.broken && stack.free.is_empty();
        if in_vain { None } else { self.take(template, whom).ok() }
    }

    /// Takes back what was handed out to a machine that is not made in this pass.
    pub(super) fn give_back(&mut self, drafts: Vec<DiskDraft>) {
        for draft in drafts {
            if let DiskSource::Free(_) = draft.source
                && let Some(&at) = self.books.index.get(&*draft.name)
            {
                self.books.all[at].standing = Standing::Free;
                self.stack(&draft.template).free.push(at);
            }
        }
    }

    /// The machines of the open block that hold a claim and that nobody has seen: whoever creates one completes it.
    pub(super) fn open_claims(&self) -> BTreeSet<&'a str> {
        let open = |at: &usize| self.books.all[*at].standing == Standing::Open;
        self.books.claims.iter().filter(|(_, disks)| disks.iter().any(open)).map(|(name, _)| *name).collect()
    }

    /// Whether another member keeps this disk, which `member` refers to as well.
    pub(super) fn loses(&self, member: &str, disk: &str) -> bool {
        self.books.losers.contains(&(member, disk))
    }

    /// All disks of the pool.
    pub(super) fn books(&self) -> &[Book<'a>] {
        &self.books.all
    }

    fn promised(&mut self, template: &Arc<str>, whom: For<'_>) -> Option<DiskDraft> {
        let claimed = self.books.claims.get(whom.name)?.iter().copied();
        let fits = |at: &usize| {
            let Book { disk, standing } = &self.books.all[*at];
            let promised = matches!(standing, Standing::Promised | Standing::Open);
            // One that the machine was refused for is free again once the machine exists without it.
            let refused = self.observed.memory.disk_refusal(&disk.id.name, self.observed.uptime).is_some();
            promised && !refused && disk.template.as_ref() == Some(template) && is_usable(disk)
        };
        let at = claimed.filter(fits).min_by_key(|at| &self.books.all[*at].disk.id.name)?;
        Some(self.hand_out(at, template, DiskSource::Held))
    }

    fn hand_out(
        &mut self,
        at: usize,
        template: &Arc<str>,
        source: impl FnOnce(ObjectId) -> DiskSource,
    ) -> DiskDraft {
        let book = &mut self.books.all[at];
        book.standing = Standing::HandedOut;
        let id = &book.disk.id;
        DiskDraft { name: id.name.clone(), template: template.clone(), source: source(id.clone()) }
    }

    fn new_disk(&mut self, template: &Arc<str>, whom: For<'_>) -> DiskDraft {
        let namer = self.stack(template).namer.clone();
        let Self { observed, made, .. } = self;
        let is_free = |name: &Arc<str>| {
            !(observed.taken.disk(name) || observed.disks.contains_key(name) || made.contains(name))
        };
        let mut names = (0..).map(|attempt| Arc::from(namer.name(whom.number, attempt)));
        let name: Arc<str> = names.find(is_free).expect("the attempts do not end");
        self.made.insert(name.clone());
        DiskDraft::new(name, template.clone())
    }

    fn stack(&mut self, template: &Arc<str>) -> &mut Stack {
        self.stacks
            .entry(template.clone())
            .or_insert_with(|| Stack::of(self.observed, &self.books.all, template))
    }

    /// A machine by its name alone. One that this pool did not name gets a number that its name decides.
    fn whom<'n>(&self, name: &'n str) -> For<'n> {
        let issued = match self.observed.pool.naming {
            Naming::Scattered => self.namer.number_of(name),
            Naming::Ordinal => name.rsplit_once('-').and_then(|(_, ordinal)| ordinal.parse().ok()),
        };
        let scattered = || {
            let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            name.bytes().fold(0xcbf2_9ce4_8422_2325, hash) % SUFFIXES
        };
        For { name, number: issued.unwrap_or_else(scattered) }
    }
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
