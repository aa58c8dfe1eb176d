//! Failures of planned writes, as conditions, events and metrics report them.

/// Why a planned write failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The reason in the condition, the event and the metric.
    pub reason: FailureReason,
    /// A sentence with the cause, as the API server reported it.
    pub message: String,
}

/// Which kind of write failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureReason {
    /// Creating a machine.
    FailedCreate,
    /// Deleting a machine.
    FailedDelete,
    /// Creating a disk, or changing the disk that a machine refers to.
    DiskFailure,
    /// Restoring labels and annotations of the controller.
    FailedRepair,
    /// Writing a template to a machine.
    FailedTemplateUpdate,
    /// Deleting revisions that no machine needs.
    FailedRevisionPruning,
    /// None. Reading objects that the plan depends on failed.
    FailedRead,
    /// None. Another client keeps overwriting the status of the pool, so the controller writes nothing.
    StatusDisputed,
}

impl FailureReason {
    /// The reason in the `ReplicaFailure` condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FailedCreate => "FailedCreate",
            Self::FailedDelete => "FailedDelete",
            Self::DiskFailure => "DiskFailure",
            Self::FailedRepair => "FailedRepair",
            Self::FailedTemplateUpdate => "FailedTemplateUpdate",
            Self::FailedRevisionPruning => "FailedRevisionPruning",
            Self::FailedRead => "FailedRead",
            Self::StatusDisputed => "StatusDisputed",
        }
    }
}
