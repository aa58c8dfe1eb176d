//! Failures of planned writes, as conditions, events and metrics report them.

use crate::condition::ConditionReason;

/// Why a planned write failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolFailure {
    /// The reason in the condition, the event and the metric.
    pub reason: FailureReason,
    /// A sentence with the cause, as the API server reported it.
    pub message: String,
}

impl PoolFailure {
    /// One failure with the reason of the first and the messages of all.
    pub fn combine<'a>(failures: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let mut failures = failures.into_iter();
        let mut combined = failures.next()?.clone();
        for failure in failures {
            if !combined.message.contains(&failure.message) {
                combined.message.push_str("; ");
                combined.message.push_str(&failure.message);
            }
        }
        Some(combined)
    }
}

/// Which kind of write failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureReason {
    /// Creating a machine.
    FailedCreate,
    /// None. Machines that the pool created do not belong to it, because another client or an admission
    /// policy changed them.
    MachineLost,
    /// None. The same for disks.
    DiskLost,
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
    /// Whether objects that the pool created do not belong to it.
    pub fn is_loss(self) -> bool {
        matches!(self, Self::MachineLost | Self::DiskLost)
    }

    /// The text of the reason in the `ReplicaFailure` condition.
    pub fn as_str(self) -> &'static str {
        ConditionReason::from(self).as_str()
    }
}

impl From<FailureReason> for ConditionReason {
    fn from(reason: FailureReason) -> Self {
        match reason {
            FailureReason::FailedCreate => Self::FailedCreate,
            FailureReason::MachineLost => Self::MachineLost,
            FailureReason::DiskLost => Self::DiskLost,
            FailureReason::FailedDelete => Self::FailedDelete,
            FailureReason::DiskFailure => Self::DiskFailure,
            FailureReason::FailedRepair => Self::FailedRepair,
            FailureReason::FailedTemplateUpdate => Self::FailedTemplateUpdate,
            FailureReason::FailedRevisionPruning => Self::FailedRevisionPruning,
            FailureReason::FailedRead => Self::FailedRead,
            FailureReason::StatusDisputed => Self::StatusDisputed,
        }
    }
}

/// Several messages in one, limited to a number that the API server accepts.
pub(crate) fn summarize_messages(messages: &[String]) -> String {
    const SHOWN: usize = 10;
    let shown = messages.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("; ");
    match messages.len().checked_sub(SHOWN) {
        Some(more @ 1..) => format!("{shown}; and {more} more"),
        Some(0) | None => shown,
    }
}
