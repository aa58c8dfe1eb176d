//! Drafts: machines and disks to create, with all decisions.

use std::sync::Arc;

use crate::ids::ObjectId;
use crate::membership::losses::Rehearsal;
use crate::revisions::RevisionId;
use crate::standby::StandbyPhase;

/// A disk of a machine that the plan creates or changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskDraft {
    /// Name of the disk.
    pub name: Arc<str>,
    /// The template that it fills.
    pub template: Arc<str>,
    /// Its source.
    pub source: DiskSource,
}

impl DiskDraft {
    /// A disk that does not exist yet.
    pub fn new(name: Arc<str>, template: Arc<str>) -> Self {
        Self { name, template, source: DiskSource::New }
    }
}

/// The source of a disk in a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskSource {
    /// The controller creates it after the machine that refers to it.
    New,
    /// It is a free disk of the pool. The controller allocates it before the machine refers to it.
    Free(ObjectId),
    /// It exists and is already allocated to the machine, or the machine refers to it.
    Existing(ObjectId),
}

/// A machine to create together with its disks. It contains every decision that creating it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Name of the machine.
    pub name: Arc<str>,
    /// The number that the name was made from.
    pub number: u64,
    /// The revision that it is created from.
    pub revision: RevisionId,
    /// Its disks, in the order of the pool's disk templates.
    pub disks: Vec<DiskDraft>,
    /// Whether its create is rehearsed first.
    pub rehearsal: Rehearsal,
    /// The phase in which a standby machine begins; `None` for an active machine.
    pub standby: Option<StandbyPhase>,
}
