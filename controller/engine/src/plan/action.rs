//! The writes that a plan consists of.

use std::sync::Arc;

use crate::backoff::FailureReason;
use crate::model::{DiskAnnotations, DiskDraft, Draft, ObjectId};
use crate::names::NameBlock;
use crate::revision::RevisionId;

/// One write, with every choice already made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write the managed labels back to a member.
    Relabel {
        /// The member.
        member: ObjectId,
    },
    /// Take our markers off a machine that is not a member any more.
    Release {
        /// The machine.
        machine: ObjectId,
        /// Disks that it refers to and that stay the pool's, because a member has them. The others become its own.
        shared: Vec<Arc<str>>,
    },
    /// Create a disk that a member refers to and that does not exist.
    CreateDisk {
        /// The member, which will own it.
        member: ObjectId,
        /// The disk.
        disk: DiskDraft,
    },
    /// Make a member refer to a disk of another name, because the member cannot keep the one that it refers to. If both are
    /// the same disk, only the disk map of the member changes.
    Repoint {
        /// The member.
        member: ObjectId,
        /// Position in its list of devices.
        position: usize,
        /// The name that it refers to now.
        from: Arc<str>,
        /// The disk that it shall refer to; the next pass creates it.
        to: DiskDraft,
    },
    /// Take a device away from a member: a person added it, and another member keeps the disk.
    Detach {
        /// The member.
        member: ObjectId,
        /// Position in its list of devices.
        position: usize,
        /// The disk.
        disk: Arc<str>,
    },
    /// Write the current revision to a member: spec, labels, annotations and devices, each as far as the pool set it.
    Update {
        /// The member.
        member: ObjectId,
        /// The revision that the member was last written from, which says what of it is the pool's; `None` if that is
        /// not known, and then nothing is taken away.
        base: Option<RevisionId>,
        /// The revision.
        to: RevisionId,
        /// The disks that its devices shall be, for every template of the revision, and those of earlier templates
        /// that it has to keep.
        disks: Vec<DiskDraft>,
        /// What it was chosen for.
        disruption: Disruption,
    },
    /// Say on a member that the revision last written to it is in effect.
    RecordRevision {
        /// The member.
        member: ObjectId,
        /// The revision.
        to: RevisionId,
    },
    /// Write the marks of a disk of the pool, at the version that was planned on.
    AnnotateDisk {
        /// The disk.
        disk: ObjectId,
        /// All of its marks, as they shall be.
        annotations: DiskAnnotations,
        /// The machine whose claim is given up and that nobody has seen: a live read must not find it either, or
        /// nothing is written.
        absent: Option<Arc<str>>,
    },
    /// Make a disk larger.
    ExpandDisk {
        /// The disk.
        disk: ObjectId,
        /// Its size from now on, in bytes.
        to: u64,
    },
    /// Delete a disk of the pool that nothing refers to. That is confirmed by reads before.
    DeleteDisk {
        /// The disk.
        disk: ObjectId,
        /// Why it goes.
        reason: DiskDeleteReason,
    },
    /// Delete a member.
    Delete {
        /// The member.
        member: ObjectId,
        /// Why it leaves.
        reason: DeleteReason,
    },
    /// Record a block of machine numbers on the pool before any of them is used.
    OpenNameBlock {
        /// The block.
        block: NameBlock,
    },
    /// Create a machine and its own disks.
    Create {
        /// What to create.
        draft: Draft,
    },
    /// Store the current revision under its identity, before any machine has it.
    StoreRevision {
        /// The identity.
        revision: RevisionId,
    },
    /// Delete a stored revision that nothing needs.
    PruneRevision {
        /// The identity.
        revision: RevisionId,
    },
    /// Take entries that are settled out of the pool's record of named machines.
    PruneRecord {
        /// Accepted targets that no member is any more; each must be confirmed by a live read.
        gone: Vec<ObjectId>,
        /// Requests whose reservations are dropped, because nobody accepted them in time.
        expired: Vec<Arc<str>>,
    },
}

/// Why a member may be written to although machines may become unavailable by that, and so what must be true of it when
/// it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Disruption {
    /// It has a place in the budget.
    Budgeted,
    /// It does not run, and so costs no place. If it runs by now, it must not be written to: the version that the patch
    /// demands is that of a machine which does not run.
    NotRunning,
    /// Another controller made it, and all that it may get are labels and annotations, which disturb nobody. If more than
    /// these differs, it must not be written to: then it needs a place.
    MetadataOnly,
}

/// Why a member leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeleteReason {
    /// There are more members than desired.
    Surplus,
    /// Somebody named it, and the count was lowered for it.
    Named,
}

/// Why a disk of the pool is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiskDeleteReason {
    /// It was free for longer than its template allows.
    Expired,
    /// It failed, or its volume is gone: there is no data in it.
    Broken,
    /// Its template left the pool.
    TemplateRemoved,
}

/// The steps of a pass that must not overtake each other; actions of one stage may run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Markers and disks of members.
    Repair,
    /// Deletions of machines.
    Remove,
    /// What the pool must record before machines are made or changed: the block of numbers, the revision.
    Prepare,
    /// New machines.
    Create,
    /// Members get the current revision.
    Update,
    /// Members say which revision is in effect. Apart from the others, so that a refusal of one delays none of them.
    RecordRevision,
    /// Disks between machines: marks, deletion.
    CollectDisks,
    /// Larger disks. Apart from the others, so that a refusal delays none of them.
    ExpandDisks,
    /// The record of named machines, and the history.
    CleanUp,
}

impl Stage {
    /// All of them, in the order in which they are carried out.
    pub const ALL: [Self; 9] = [
        Self::Repair,
        Self::Remove,
        Self::Prepare,
        Self::Create,
        Self::Update,
        Self::RecordRevision,
        Self::CollectDisks,
        Self::ExpandDisks,
        Self::CleanUp,
    ];
}

impl Action {
    /// The stage that it belongs to.
    pub fn stage(&self) -> Stage {
        match self {
            Self::Relabel { .. }
            | Self::Release { .. }
            | Self::CreateDisk { .. }
            | Self::Repoint { .. }
            | Self::Detach { .. } => Stage::Repair,
            Self::Delete { .. } => Stage::Remove,
            Self::OpenNameBlock { .. } | Self::StoreRevision { .. } => Stage::Prepare,
            Self::Create { .. } => Stage::Create,
            Self::Update { .. } => Stage::Update,
            Self::RecordRevision { .. } => Stage::RecordRevision,
            Self::AnnotateDisk { .. } | Self::DeleteDisk { .. } => Stage::CollectDisks,
            Self::ExpandDisk { .. } => Stage::ExpandDisks,
            Self::PruneRecord { .. } | Self::PruneRevision { .. } => Stage::CleanUp,
        }
    }

    /// Name of the object that it writes; empty for the pool.
    pub fn object(&self) -> &Arc<str> {
        static POOL: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| Arc::from(""));
        match self {
            Self::Relabel { member }
            | Self::Repoint { member, .. }
            | Self::Detach { member, .. }
            | Self::Update { member, .. }
            | Self::RecordRevision { member, .. }
            | Self::Delete { member, .. } => &member.name,
            Self::Release { machine, .. } => &machine.name,
            Self::AnnotateDisk { disk, .. }
            | Self::ExpandDisk { disk, .. }
            | Self::DeleteDisk { disk, .. } => &disk.name,
            Self::CreateDisk { disk, .. } => &disk.name,
            Self::Create { draft } => &draft.name,
            Self::OpenNameBlock { .. }
            | Self::StoreRevision { .. }
            | Self::PruneRevision { .. }
            | Self::PruneRecord { .. } => &POOL,
        }
    }

    /// What it means when it fails.
    pub fn failure_reason(&self) -> FailureReason {
        match self {
            Self::Relabel { .. }
            | Self::Release { .. }
            | Self::RecordRevision { .. }
            | Self::PruneRevision { .. }
            | Self::PruneRecord { .. } => FailureReason::FailedRepair,
            Self::CreateDisk { .. }
            | Self::Repoint { .. }
            | Self::Detach { .. }
            | Self::AnnotateDisk { .. }
            | Self::ExpandDisk { .. }
            | Self::DeleteDisk { .. } => FailureReason::DiskFailure,
            Self::Update { .. } => FailureReason::FailedTemplateUpdate,
            Self::Delete { .. } => FailureReason::FailedDelete,
            Self::OpenNameBlock { .. } | Self::StoreRevision { .. } | Self::Create { .. } => {
                FailureReason::FailedCreate
            }
        }
    }
}
