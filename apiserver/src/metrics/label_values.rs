//! Label values. Each set is fixed, except the HTTP status codes.

use std::fmt::{self, Write as _};

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};
use vmpool_runtime::label_values;
use vmpool_runtime::metrics::{LabelValue, Values};

use crate::error::Error;

label_values!(
    /// The verb of a request.
    pub(crate) Verb {
        /// Reading one object or document.
        Get => "get",
        /// Creating an object.
        Create => "create",
        /// Sending an object that is expanded.
        Update => "update",
        /// Any other verb.
        Other => "other",
    }
);

label_values!(
    /// The resource of a request.
    pub(crate) Resource {
        /// The metadata of a pool.
        Pools => "virtualmachinepools",
        /// A targeted removal.
        Removal => "virtualmachinepools/scaledownwith",
        /// A claim of a machine.
        Claim => "virtualmachinepools/claim",
        /// A release of a claimed machine.
        Release => "virtualmachinepools/release",
        /// The expansion of a stored machine.
        ExpandedMachine => "virtualmachines/expand-spec",
        /// The expansion of a machine in the request.
        ExpandMachine => "expand-vm-spec",
        /// The expansion of a stored pool.
        ExpandedPool => "virtualmachinepools/expand-spec",
        /// The expansion of a pool in the request.
        ExpandPool => "expand-pool-spec",
        /// Discovery, OpenAPI and the version.
        Documents => "documents",
        /// Health checks.
        Health => "health",
        /// Any other path.
        Other => "other",
    }
);

label_values!(
    /// The resource of an expansion.
    pub(crate) Expansion {
        /// A stored machine.
        StoredMachine => "virtualmachines/expand-spec",
        /// A machine in the request.
        Machine => "expand-vm-spec",
        /// A stored pool.
        StoredPool => "virtualmachinepools/expand-spec",
        /// A pool in the request.
        Pool => "expand-pool-spec",
    }
);

impl Resource {
    /// The resource, if the request is an expansion.
    pub(super) fn expansion(self) -> Option<Expansion> {
        match self {
            Self::ExpandedMachine => Some(Expansion::StoredMachine),
            Self::ExpandMachine => Some(Expansion::Machine),
            Self::ExpandedPool => Some(Expansion::StoredPool),
            Self::ExpandPool => Some(Expansion::Pool),
            Self::Pools
            | Self::Removal
            | Self::Claim
            | Self::Release
            | Self::Documents
            | Self::Health
            | Self::Other => None,
        }
    }
}

label_values!(
    /// The result of a removal.
    pub(crate) Outcome {
        /// The API server removed machines and decremented replicas.
        Removed => "removed",
        /// Earlier requests had removed all targets.
        Repeated => "repeated",
        /// The request was a dry run and would have succeeded.
        DryRun => "dry_run",
        /// The request conflicts with the pool, its machines or admission, or other clients kept changing the
        /// pool.
        Refused => "refused",
        /// The removal record of the pool is full, or too many requests wait.
        Full => "full",
        /// A request to kube-apiserver failed.
        Failed => "failed",
    }
);

label_values!(
    /// The result of a claim or a release.
    pub(crate) ClaimOutcome {
        /// A machine was claimed.
        Claimed => "claimed",
        /// A claim was renewed.
        Renewed => "renewed",
        /// A machine was released.
        Released => "released",
        /// The request was a dry run and would have succeeded.
        DryRun => "dry_run",
        /// No machine was free in time.
        NoMachine => "no_machine",
        /// The claim does not exist any more.
        Lost => "lost",
        /// The request is invalid, or conflicts with the pool, another user or admission.
        Refused => "refused",
        /// Too many requests wait.
        Full => "full",
        /// A request to kube-apiserver failed, or the deadline passed.
        Failed => "failed",
    }
);

impl ClaimOutcome {
    /// The result of a request that failed.
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::NoMachineAvailable { .. } => Self::NoMachine,
            Error::ClaimLost { .. } | Error::ClaimNotFound { .. } => Self::Lost,
            error => match error.code().as_u16() {
                429 => Self::Full,
                500.. => Self::Failed,
                _ => Self::Refused,
            },
        }
    }
}

label_values!(
    /// The source of an authorization decision.
    pub(crate) CheckSource {
        /// The cache of this process.
        Cache => "cache",
        /// A SubjectAccessReview.
        Review => "review",
    }
);

/// The HTTP status of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct StatusCodeLabel(pub(super) u16);

impl EncodeLabelValue for StatusCodeLabel {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        write!(encoder, "{}", self.0)
    }
}

impl LabelValue for StatusCodeLabel {
    fn values() -> Values {
        Values::Open("the HTTP status")
    }
}
