//! The words that label values are made of. Their sets are closed, but for the HTTP status.

use std::fmt::{self, Write as _};

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};
use vmpool_engine::backoff::FailureReason;
use vmpool_runtime::metrics::{Values, Word};
use vmpool_runtime::words;

words!(
    /// What is asked of the API server.
    pub(crate) Verb {
        /// Read one object.
        Get => "get",
        /// Read all.
        List => "list",
        /// Follow changes.
        Watch => "watch",
        /// Make an object.
        Create => "create",
        /// Replace an object.
        Update => "update",
        /// Change parts of an object.
        Patch => "patch",
        /// Delete an object.
        Delete => "delete",
    }
);

words!(
    /// What a request is about, in words that do not depend on the platform.
    pub(crate) Resource {
        /// The pools.
        Pools => "pools",
        /// Their status.
        PoolStatus => "pools/status",
        /// The machines.
        Machines => "machines",
        /// The disks.
        Disks => "disks",
        /// What attaches disks to machines by hand.
        Attachments => "attachments",
        /// Revisions of machine templates.
        Revisions => "revisions",
        /// Kubernetes events.
        Events => "events",
        /// The lease of the leader.
        Leases => "leases",
        /// Anything else.
        Other => "other",
    }
);

/// What a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Code {
    /// An HTTP status.
    Status(u16),
    /// Nothing: it failed on the way, or was given up.
    NoResponse,
}

impl EncodeLabelValue for Code {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(encoder, "{status}"),
            Self::NoResponse => encoder.write_str("lost"),
        }
    }
}

impl Word for Code {
    fn values() -> Values {
        Values::Open("the HTTP status, or `lost` when there was no answer in time")
    }
}

words!(
    /// What a write is for.
    pub WriteKind {
        /// A new machine.
        CreateMachine => "create_machine",
        /// A new disk.
        CreateDisk => "create_disk",
        /// A disk that outlived its machine is deleted.
        DeleteDisk => "delete_disk",
        /// A disk is claimed or freed, marked to be deleted, made larger, or handed over to a machine.
        PatchDisk => "patch_disk",
        /// A machine leaves.
        DeleteMachine => "delete_machine",
        /// A member is repaired, or released.
        PatchMachine => "patch_machine",
        /// A changed template is written to a member, or the member says that it is in effect.
        UpdateMachine => "update_machine",
        /// A revision of a machine template is stored.
        CreateRevision => "create_revision",
        /// A stored revision is deleted, since nobody needs it.
        DeleteRevision => "delete_revision",
        /// A block of machine numbers is recorded, or settled entries leave the record of named machines.
        PatchPool => "patch_pool",
        /// The status is published.
        PatchStatus => "patch_status",
        /// An event is told.
        Event => "event",
    }
);

words!(
    /// What came of a write.
    pub(crate) WriteOutcome {
        /// The server did it.
        Done => "done",
        /// The server refused it, without an effect.
        Refused => "refused",
        /// No certain answer: it may have been done.
        Unconfirmed => "lost",
        /// Not sent, because the lease ends too soon.
        Fenced => "fenced",
        /// Not sent, because it could not be built.
        Invalid => "invalid",
    }
);

words!(
    /// What came of a pass.
    pub(crate) PassResult {
        /// Nothing was to be written to machines or disks.
        Idle => "idle",
        /// Something was written, and all of it went through.
        Acted => "acted",
        /// A write failed.
        Failed => "failed",
        /// The world was not as planned for.
        Outdated => "outdated",
        /// The lease ends too soon for a write.
        Fenced => "fenced",
        /// A read that must be live failed.
        Unread => "unread",
        /// The pool is gone or on its way out.
        Gone => "gone",
        /// The program is wrong.
        Panicked => "panicked",
    }
);

words!(
    /// A part of a pass.
    pub(crate) PassStep {
        /// Reads: the snapshot of the caches, and live reads.
        Observe => "observe",
        /// Decisions.
        Plan => "plan",
        /// Writes to machines and disks.
        Apply => "apply",
        /// Status and events.
        Report => "report",
    }
);

words!(
    /// What became of a wake-up.
    pub(crate) WakeOutcome {
        /// It made a pool due, or due sooner.
        Queued => "queued",
        /// The pool was due soon enough already.
        Merged => "merged",
    }
);

words!(
    /// The state of a pool.
    pub(crate) PoolState {
        /// All members that should be there are there and ready.
        Ready => "ready",
        /// All members that should be there are there, some not ready.
        Unready => "unready",
        /// Members are missing or too many.
        Progressing => "progressing",
        /// Its condition ReplicaFailure is True.
        Failing => "failing",
        /// Somebody else keeps writing its status, so that nothing is done about it.
        Disputed => "disputed",
        /// It is on its way out.
        Deleting => "deleting",
    }
);

words!(
    /// What is counted about members.
    pub(crate) MachineState {
        /// Replicas that pools should have.
        Desired => "desired",
        /// Members that exist.
        Replicas => "replicas",
        /// Members that run.
        Ready => "ready",
        /// Members in which the current template is in effect.
        Updated => "updated",
        /// Members that take the current template up with their next restart.
        RestartPending => "restart_pending",
        /// Members that have a deletion timestamp.
        Terminating => "terminating",
    }
);

words!(
    /// Why a machine leaves.
    pub(crate) Deletion {
        /// There were more members than desired.
        Surplus => "surplus",
        /// Somebody named it.
        Targeted => "named",
    }
);

words!(
    /// How far the removal of a named machine has come.
    pub(crate) RemovalState {
        /// A request has reserved it: it is not replaced, and not removed yet.
        Reserved => "reserved",
        /// It was accepted, and its machine is not known to be gone yet.
        Accepted => "accepted",
    }
);

words!(
    /// Why a target left the record.
    pub(crate) SettledOutcome {
        /// It was accepted, and its machine is gone.
        Removed => "removed",
        /// It was only reserved, and nobody accepted it in time.
        Expired => "expired",
    }
);

words!(
    /// What a ledger is about.
    pub(crate) LedgerResource {
        /// Machines.
        Machines => "machines",
        /// Disks.
        Disks => "disks",
    }
);

words!(
    /// What is watched and cached.
    pub(crate) WatchResource {
        /// Pools.
        Pools => "pools",
        /// Machines.
        Machines => "machines",
        /// Disks.
        Disks => "disks",
        /// What attaches disks to machines by hand.
        Attachments => "attachments",
    }
);

words!(
    /// A change of leadership, as this process saw it.
    pub(crate) LeadershipChange {
        /// It began to lead.
        Acquired => "acquired",
        /// It stopped leading of its own will.
        Released => "released",
        /// It stopped leading because the lease was not its own any more.
        Lost => "lost",
    }
);

/// Why writes failed; the words of the condition `ReplicaFailure`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Failed(pub(super) FailureReason);

impl Failed {
    pub(super) const ALL: [Self; 6] = [
        Self(FailureReason::FailedCreate),
        Self(FailureReason::FailedDelete),
        Self(FailureReason::DiskFailure),
        Self(FailureReason::FailedRepair),
        Self(FailureReason::FailedTemplateUpdate),
        Self(FailureReason::StatusDisputed),
    ];
}

impl EncodeLabelValue for Failed {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(self.0.as_str())
    }
}

impl Word for Failed {
    fn values() -> Values {
        Values::Words(
            Self::ALL
                .iter()
                .map(|failed| match failed.0 {
                    reason @ FailureReason::FailedCreate => (reason.as_str(), "Creating a machine."),
                    reason @ FailureReason::FailedDelete => (reason.as_str(), "Deleting a machine."),
                    reason @ FailureReason::DiskFailure => {
                        (reason.as_str(), "Creating a disk, or pointing a machine to it.")
                    }
                    reason @ FailureReason::FailedRepair => {
                        (reason.as_str(), "Writing back our markers, or the record of named machines.")
                    }
                    reason @ FailureReason::StatusDisputed => (
                        reason.as_str(),
                        "A pool is left alone, because somebody else keeps writing its status.",
                    ),
                    reason @ FailureReason::FailedTemplateUpdate => {
                        (reason.as_str(), "Writing a changed template to a machine.")
                    }
                })
                .collect(),
        )
    }
}
