//! The actions of a plan.

use std::sync::Arc;

use jiff::Timestamp;

use crate::draining::{DrainMark, DrainReason};
use crate::failure::FailureReason;
use crate::ids::{ObjectId, Uid};
use crate::model::{DiskAnnotations, DiskDraft, Draft};
use crate::recycling::RecycleCause;
use crate::revisions::RevisionId;
use crate::scale_up::names::NameBlock;

/// One write. It contains every decision that the write needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolAction {
    /// Restore the managed labels of a machine.
    Relabel {
        /// The machine.
        machine: ObjectId,
    },
    /// Remove the controller's labels and annotations from a machine that the pool no longer owns.
    Release {
        /// The machine.
        machine: ObjectId,
        /// Disks that it refers to and that stay with the pool, because another machine of the pool uses
        /// them. The machine becomes the owner of the others.
        shared: Vec<Arc<str>>,
    },
    /// Add the finalizer of the controller to the pool.
    AddPoolFinalizer,
    /// Remove the finalizer of the controller from a deleted pool whose machines are released.
    RemovePoolFinalizer,
    /// Add the finalizer of the controller to a machine.
    AddFinalizer {
        /// The machine.
        machine: ObjectId,
    },
    /// Remove the finalizer of the controller from a machine that is being deleted, or whose pool is.
    RemoveFinalizer {
        /// The machine.
        machine: ObjectId,
        /// Whether its storage is preserved first: it then belongs to no machine until the next one with this
        /// name.
        preserve_storage: bool,
    },
    /// End the deletion of a machine that only the garbage collector still holds, although the storage of the
    /// machine is gone: an object that is not part of the machine names it as an owner that waits.
    EndDeletion {
        /// The machine.
        machine: ObjectId,
    },
    /// Restart the instance of a machine, so that an update takes effect.
    Restart {
        /// The machine.
        machine: ObjectId,
        /// The instance. Another one was already started with the update.
        instance: Uid,
        /// The revision that takes effect.
        revision: RevisionId,
    },
    /// Remove the mark that the machine is being restarted, so that it can be claimed again.
    EndRestart {
        /// The machine.
        machine: ObjectId,
    },
    /// Mark a machine with hooks as draining, at the version that was read.
    BeginDrain {
        /// The machine.
        machine: ObjectId,
        /// The mark.
        mark: DrainMark,
    },
    /// Remove the mark of a machine that drained for a step which does not follow.
    EndDrain {
        /// The machine.
        machine: ObjectId,
    },
    /// Replace the time in the protection of a machine, because it cannot be read or is too far in the
    /// future.
    ShortenProtection {
        /// The machine.
        machine: ObjectId,
        /// The new time.
        until: Timestamp,
    },
    /// Create a disk that a machine refers to and that does not exist.
    CreateDisk {
        /// The machine, which owns the disk unless it is a retained disk.
        machine: ObjectId,
        /// The disk.
        disk: DiskDraft,
    },
    /// Make the machine or the pool the owner of a disk that the platform restored for a machine.
    AdoptDisk {
        /// The machine, which becomes the owner unless it is a retained disk.
        machine: ObjectId,
        /// The disk.
        disk: ObjectId,
        /// Name of its disk template.
        template: Arc<str>,
    },
    /// Make a machine refer to another disk, because it cannot use the one that it refers to. If both are the
    /// same disk, only the disk map of the machine changes.
    Repoint {
        /// The machine.
        machine: ObjectId,
        /// Position in its device list.
        position: usize,
        /// The disk that it refers to now.
        from: Arc<str>,
        /// The disk to refer to. If it does not exist, the next pass creates it.
        to: DiskDraft,
    },
    /// Remove a device that a user added from a machine, because another machine of the pool uses the disk.
    Detach {
        /// The machine.
        machine: ObjectId,
        /// Position in its device list.
        position: usize,
        /// The disk.
        disk: Arc<str>,
    },
    /// Write the current revision to a machine: the parts of spec, labels, annotations and devices that the
    /// pool sets.
    Update {
        /// The machine.
        machine: ObjectId,
        /// The merge base: the revision that was last written to the machine, which determines the fields to
        /// remove. With `None`, no field is removed.
        base: Option<RevisionId>,
        /// The revision.
        to: RevisionId,
        /// The disks of its devices: one for each disk template of the revision, and those of earlier
        /// templates that the machine must keep.
        disks: Vec<DiskDraft>,
        /// Which effect on the machine the plan allows.
        disruption: Disruption,
    },
    /// Record that the revision which was last written to a machine is in effect: on its instance, if it has
    /// one, otherwise on the machine.
    RecordRevision {
        /// The machine.
        machine: ObjectId,
        /// The instance in which it is in effect.
        instance: Option<Uid>,
        /// The revision.
        to: RevisionId,
    },
    /// Write the annotations of a disk of the pool, at the version that the plan used.
    AnnotateDisk {
        /// The disk.
        disk: ObjectId,
        /// The new values of all its annotations.
        annotations: DiskAnnotations,
        /// A machine that the disk is allocated to and that no cache shows. If a live read finds it, apply
        /// does not write.
        absent: Option<Arc<str>>,
    },
    /// Expand a disk.
    ExpandDisk {
        /// The disk.
        disk: ObjectId,
        /// Its new size, in bytes.
        to: u64,
    },
    /// Delete a disk of the pool that no object refers to. Apply confirms this with live reads first.
    DeleteDisk {
        /// The disk.
        disk: ObjectId,
        /// Why it is deleted.
        reason: DiskDeleteReason,
    },
    /// Delete a machine.
    Delete {
        /// The machine.
        machine: ObjectId,
        /// Why it is deleted.
        reason: DeleteReason,
    },
    /// Record a block of machine numbers on the pool before any of them is used.
    OpenNameBlock {
        /// The block.
        block: NameBlock,
    },
    /// Create a machine and its own disks.
    Create {
        /// The machine.
        draft: Draft,
    },
    /// Make a stopped standby machine active: remove its label, and write the current revision with its run
    /// state, at the version that was read.
    Activate {
        /// The machine.
        machine: ObjectId,
        /// The merge base, as for an update.
        base: Option<RevisionId>,
        /// The revision.
        to: RevisionId,
        /// The disks of its devices.
        disks: Vec<DiskDraft>,
    },
    /// Start an activated machine that the platform does not start by itself.
    StartActivated {
        /// The machine.
        machine: ObjectId,
    },
    /// Stop a standby machine whose warm-up has ended.
    StopStandby {
        /// The machine.
        machine: ObjectId,
    },
    /// Store the current revision before it is written to any machine.
    StoreRevision {
        /// The identity.
        revision: RevisionId,
    },
    /// Restore the copies of objects that machines of a stored revision use, from the content of that
    /// revision.
    RestoreCopies {
        /// The identity.
        revision: RevisionId,
    },
    /// Delete a stored revision that is no longer needed.
    PruneRevision {
        /// The identity.
        revision: RevisionId,
    },
    /// Delete a copy of an object that no revision and no machine refers to.
    DeleteCopy {
        /// The copy.
        copy: ObjectId,
    },
    /// Remove finished entries from the removal record.
    PruneRecord {
        /// Accepted targets that are deleted or released. Apply confirms each with a live read.
        gone: Vec<ObjectId>,
        /// Requests whose reservations are dropped because they were not accepted in time.
        expired: Vec<Arc<str>>,
        /// The name block from which the numbers of these targets have left; `None` if it stays as it is. The
        /// same write records it.
        block: Option<NameBlock>,
    },
}

/// Which disruption of a machine the plan allows. Apply checks it against the live machine before it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Disruption {
    /// It may become unavailable: the plan counted it in the disruption budget.
    Budgeted,
    /// It does not run and uses no budget. If it runs by now, apply must not write to it. The patch requires
    /// the version of the machine at which it did not run.
    NotRunning,
    /// Only its labels and annotations may change, which disrupts nothing: another controller created it and
    /// it has no budget yet, or it is protected. If its spec differs, apply must not write to it.
    MetadataOnly,
    /// It is protected, and the platform restarts it only after an approval. If the update changes that,
    /// apply must not write to it.
    ForApproval,
}

/// Why a machine is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeleteReason {
    /// The pool has more machines than desired.
    Surplus {
        /// Which rule chose it.
        rule: SurplusRule,
    },
    /// It is the target of an accepted targeted removal.
    Targeted {
        /// Whether it is deleted in any state, without a drain.
        forced: bool,
    },
    /// The storage in its template changed, so that it is created again.
    StorageChanged {
        /// Whether the next machine with its name uses its storage.
        preserved: bool,
    },
    /// It does not start, so that it is created again.
    Unhealthy,
    /// It has not been ready for too long, so that another machine is created in its place.
    NotReady,
    /// It serves no longer, so that another machine is created in its place.
    Recycled {
        /// Why.
        cause: RecycleCause,
    },
    /// The pool has more standby machines than desired.
    StandbySurplus,
    /// Another standby machine is created in its place, because it does not warm up, because the template
    /// needs other disks, or because it is too old, outdated by its image or requested to be replaced.
    StandbyReplaced,
}

/// The rule that chose a surplus machine, the first one that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SurplusRule {
    /// It drains.
    Draining,
    /// It has not been ready.
    NeverReady,
    /// The scale-down policy of the pool.
    Policy,
}

/// Why a disk of the pool is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiskDeleteReason {
    /// It was free for longer than the `ttl` of its template.
    Expired,
    /// It failed or lost its volume, so it contains no data.
    Broken,
    /// Its disk template was removed from the pool.
    TemplateRemoved,
}

/// The stages of apply, which run in sequence. The actions of one stage run in parallel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApplyStage {
    /// Labels, finalizers and protection of machines. This is a stage of its own, so that a rejected write
    /// delays no other stage.
    Relabel,
    /// Disks of machines.
    Repair,
    /// Deletions of machines.
    Remove,
    /// Writes that creates and updates depend on: the name block and the revision.
    Prepare,
    /// Standby machines that become active.
    Activate,
    /// New machines.
    Create,
    /// New standby machines. This is a stage of its own, so that a rejected create delays no active machine.
    Refill,
    /// Stops and deletions of standby machines. This is a stage of its own for the same reason.
    Standby,
    /// Updates of machines to the current revision.
    Update,
    /// Restarts of machines. This is a stage of its own, so that a machine that rejects its update delays no
    /// restart.
    Restart,
    /// Labels that record which revision is in effect. This is a stage of its own, so that a rejected write
    /// delays no other stage.
    RecordRevision,
    /// Annotations and deletions of disks of the pool.
    CollectDisks,
    /// Expansions of disks. This is a stage of its own, so that a rejected write delays no other stage.
    ExpandDisks,
    /// The removal record, and the deletion of revisions.
    CleanUp,
}

impl ApplyStage {
    /// All stages in the order in which apply runs them.
    pub const ALL: [Self; 14] = [
        Self::Relabel,
        Self::Repair,
        Self::Remove,
        Self::Prepare,
        Self::Activate,
        Self::Create,
        Self::Refill,
        Self::Standby,
        Self::Update,
        Self::Restart,
        Self::RecordRevision,
        Self::CollectDisks,
        Self::ExpandDisks,
        Self::CleanUp,
    ];
}

impl PoolAction {
    /// The stage that it belongs to.
    pub fn stage(&self) -> ApplyStage {
        match self {
            Self::Relabel { .. }
            | Self::Release { .. }
            | Self::AddFinalizer { .. }
            | Self::BeginDrain { .. }
            | Self::EndDrain { .. }
            | Self::ShortenProtection { .. } => ApplyStage::Relabel,
            Self::RemoveFinalizer { .. }
            | Self::EndDeletion { .. }
            | Self::CreateDisk { .. }
            | Self::AdoptDisk { .. }
            | Self::Repoint { .. }
            | Self::Detach { .. } => ApplyStage::Repair,
            // The rollout plans such a deletion instead of a restart, and with the same backoff.
            Self::Restart { .. } | Self::Delete { reason: DeleteReason::StorageChanged { .. }, .. } => {
                ApplyStage::Restart
            }
            Self::StopStandby { .. }
            | Self::Delete { reason: DeleteReason::StandbySurplus | DeleteReason::StandbyReplaced, .. } => {
                ApplyStage::Standby
            }
            Self::Delete { .. } => ApplyStage::Remove,
            Self::OpenNameBlock { .. }
            | Self::StoreRevision { .. }
            | Self::RestoreCopies { .. }
            | Self::AddPoolFinalizer => ApplyStage::Prepare,
            Self::Create { draft } if draft.standby.is_some() => ApplyStage::Refill,
            Self::Create { .. } => ApplyStage::Create,
            Self::Activate { .. } | Self::StartActivated { .. } => ApplyStage::Activate,
            Self::Update { .. } => ApplyStage::Update,
            Self::RecordRevision { .. } | Self::EndRestart { .. } => ApplyStage::RecordRevision,
            Self::AnnotateDisk { .. } | Self::DeleteDisk { .. } => ApplyStage::CollectDisks,
            Self::ExpandDisk { .. } => ApplyStage::ExpandDisks,
            Self::PruneRecord { .. }
            | Self::PruneRevision { .. }
            | Self::DeleteCopy { .. }
            | Self::RemovePoolFinalizer => ApplyStage::CleanUp,
        }
    }

    /// Whether it begins a drain for this step.
    pub(crate) fn begins_drain_for(&self, reason: DrainReason) -> bool {
        matches!(self, Self::BeginDrain { mark, .. } if mark.reason == reason)
    }

    /// Whether it deletes a machine that the controller creates again.
    pub(crate) fn is_recreation(&self) -> bool {
        matches!(
            self,
            Self::Delete {
                reason: DeleteReason::StorageChanged { .. }
                    | DeleteReason::Unhealthy
                    | DeleteReason::NotReady
                    | DeleteReason::Recycled { .. }
                    | DeleteReason::StandbyReplaced,
                ..
            }
        )
    }

    /// The machine that it deletes.
    pub(crate) fn deleted_machine(&self) -> Option<&Uid> {
        match self {
            Self::Delete { machine, .. } => Some(&machine.uid),
            _ => None,
        }
    }

    /// Name of the object that it writes; empty for the pool.
    pub fn object(&self) -> &Arc<str> {
        static POOL: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| Arc::from(""));
        match self {
            Self::Relabel { machine }
            | Self::Repoint { machine, .. }
            | Self::Detach { machine, .. }
            | Self::Update { machine, .. }
            | Self::Activate { machine, .. }
            | Self::StartActivated { machine }
            | Self::StopStandby { machine }
            | Self::RecordRevision { machine, .. }
            | Self::Delete { machine, .. }
            | Self::AddFinalizer { machine }
            | Self::RemoveFinalizer { machine, .. }
            | Self::EndDeletion { machine }
            | Self::Restart { machine, .. }
            | Self::EndRestart { machine }
            | Self::BeginDrain { machine, .. }
            | Self::EndDrain { machine }
            | Self::ShortenProtection { machine, .. }
            | Self::Release { machine, .. } => &machine.name,
            Self::AdoptDisk { disk, .. }
            | Self::AnnotateDisk { disk, .. }
            | Self::ExpandDisk { disk, .. }
            | Self::DeleteDisk { disk, .. } => &disk.name,
            Self::CreateDisk { disk, .. } => &disk.name,
            Self::Create { draft } => &draft.name,
            Self::DeleteCopy { copy } => &copy.name,
            Self::OpenNameBlock { .. }
            | Self::StoreRevision { .. }
            | Self::RestoreCopies { .. }
            | Self::AddPoolFinalizer
            | Self::RemovePoolFinalizer
            | Self::PruneRevision { .. }
            | Self::PruneRecord { .. } => &POOL,
        }
    }

    /// The reason to report if it fails.
    pub fn failure_reason(&self) -> FailureReason {
        match self {
            Self::Relabel { .. }
            | Self::Release { .. }
            | Self::AddFinalizer { .. }
            | Self::RemoveFinalizer { .. }
            | Self::EndDeletion { .. }
            | Self::RemovePoolFinalizer
            | Self::RecordRevision { .. }
            | Self::EndRestart { .. }
            | Self::BeginDrain { .. }
            | Self::EndDrain { .. }
            | Self::ShortenProtection { .. }
            | Self::StopStandby { .. }
            | Self::PruneRecord { .. } => FailureReason::FailedRepair,
            Self::PruneRevision { .. } | Self::DeleteCopy { .. } => FailureReason::FailedRevisionPruning,
            Self::CreateDisk { .. }
            | Self::AdoptDisk { .. }
            | Self::Repoint { .. }
            | Self::Detach { .. }
            | Self::AnnotateDisk { .. }
            | Self::ExpandDisk { .. }
            | Self::DeleteDisk { .. } => FailureReason::DiskFailure,
            Self::Update { .. } | Self::Restart { .. } => FailureReason::FailedTemplateUpdate,
            Self::Delete { .. } => FailureReason::FailedDelete,
            Self::OpenNameBlock { .. }
            | Self::StoreRevision { .. }
            | Self::RestoreCopies { .. }
            | Self::AddPoolFinalizer
            | Self::Activate { .. }
            | Self::StartActivated { .. }
            | Self::Create { .. } => FailureReason::FailedCreate,
        }
    }
}

/// Which kinds of writes the plan wants, including blocked ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a plan may want any combination of them")]
pub struct WantedWrites {
    /// Machines are missing.
    pub create: bool,
    /// Standby machines become active.
    pub activate: bool,
    /// Standby machines are missing.
    pub refill: bool,
    /// Standby machines are stopped or deleted.
    pub standby: bool,
    /// There is a surplus of machines that the controller may delete.
    pub remove: bool,
    /// A machine lost labels, or a released machine still has them.
    pub relabel: bool,
    /// A machine needs a repair of its disks.
    pub repair: bool,
    /// Entries of the removal record or revisions can be deleted.
    pub clean_up: bool,
    /// Machines lack the current revision.
    pub update: bool,
    /// Instances lack the current revision, and the controller may restart them.
    pub restart: bool,
    /// Machines do not have the label of the revision that is in effect yet.
    pub record_revision: bool,
    /// Annotations of disks must change, or disks can be deleted.
    pub collect_disks: bool,
    /// A disk is smaller than its template requires.
    pub expand_disks: bool,
}

impl WantedWrites {
    /// Whether the plan wants writes of this stage.
    pub fn has_writes(self, stage: ApplyStage) -> bool {
        match stage {
            ApplyStage::Relabel => self.relabel,
            ApplyStage::Repair => self.repair,
            ApplyStage::Remove => self.remove,
            ApplyStage::Prepare | ApplyStage::Create => self.create,
            ApplyStage::Activate => self.activate,
            ApplyStage::Refill => self.refill,
            ApplyStage::Standby => self.standby,
            ApplyStage::Update => self.update,
            ApplyStage::Restart => self.restart,
            ApplyStage::RecordRevision => self.record_revision,
            ApplyStage::CollectDisks => self.collect_disks,
            ApplyStage::ExpandDisks => self.expand_disks,
            ApplyStage::CleanUp => self.clean_up,
        }
    }
}
