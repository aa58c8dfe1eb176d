//! The writes that a plan consists of.

use std::sync::Arc;

use crate::model::{DiskDraft, Draft, ObjectId};
use crate::numbers::Block;
use crate::pacing::FailureReason;

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
    },
    /// Create a disk that a member refers to and that does not exist.
    CreateDisk {
        /// The member, which will own it.
        member: ObjectId,
        /// The disk.
        disk: DiskDraft,
    },
    /// Make a member refer to a disk of another name, because a foreign disk has the wanted one.
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
    /// Delete a member.
    Delete {
        /// The member.
        member: ObjectId,
        /// Why it leaves.
        reason: DeleteReason,
    },
    /// Record a block of machine numbers on the pool before any of them is used.
    OpenBlock {
        /// The block.
        block: Block,
    },
    /// Create a machine and its own disks.
    Create {
        /// What to create.
        draft: Draft,
    },
    /// Take entries that are settled out of the pool's record of named machines.
    Settle {
        /// Accepted targets that no member is any more; each must be confirmed by a live read.
        gone: Vec<ObjectId>,
        /// Requests whose reservations are dropped, because nobody accepted them in time.
        expired: Vec<Arc<str>>,
    },
}

/// Why a member leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeleteReason {
    /// There are more members than desired.
    Surplus,
    /// Somebody named it, and the count was lowered for it.
    Named,
}

/// The steps of a pass that must not overtake each other; actions of one stage may run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Markers and disks of members.
    Repair,
    /// Deletions.
    Remove,
    /// The block of numbers.
    OpenBlock,
    /// New machines.
    Create,
    /// The record of named machines.
    Settle,
}

impl Action {
    /// The stage that it belongs to.
    pub fn stage(&self) -> Stage {
        match self {
            Self::Relabel { .. } | Self::Release { .. } | Self::CreateDisk { .. } | Self::Repoint { .. } => {
                Stage::Repair
            }
            Self::Delete { .. } => Stage::Remove,
            Self::OpenBlock { .. } => Stage::OpenBlock,
            Self::Create { .. } => Stage::Create,
            Self::Settle { .. } => Stage::Settle,
        }
    }

    /// Name of the object that it writes; empty for the pool.
    pub fn object(&self) -> &Arc<str> {
        static POOL: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| Arc::from(""));
        match self {
            Self::Relabel { member } | Self::Repoint { member, .. } | Self::Delete { member, .. } => {
                &member.name
            }
            Self::Release { machine } => &machine.name,
            Self::CreateDisk { disk, .. } => &disk.name,
            Self::Create { draft } => &draft.name,
            Self::OpenBlock { .. } | Self::Settle { .. } => &POOL,
        }
    }

    /// What it means when it fails.
    pub fn failure_reason(&self) -> FailureReason {
        match self {
            Self::Relabel { .. } | Self::Release { .. } | Self::Settle { .. } => FailureReason::FailedRepair,
            Self::CreateDisk { .. } | Self::Repoint { .. } => FailureReason::DiskFailure,
            Self::Delete { .. } => FailureReason::FailedDelete,
            Self::OpenBlock { .. } | Self::Create { .. } => FailureReason::FailedCreate,
        }
    }
}
