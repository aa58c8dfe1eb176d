//! Label values. Each set is fixed, except the HTTP status codes.

use std::fmt::{self, Write as _};

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};
use vmpool_runtime::label_values;
use vmpool_runtime::metrics::{LabelValue, Values};

label_values!(
    /// The verb of a request.
    pub(crate) Verb {
        /// Reading one object or document.
        Get => "get",
        /// Creating an object.
        Create => "create",
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
        /// Discovery, OpenAPI and the version.
        Documents => "documents",
        /// Health checks.
        Health => "health",
        /// Any other path.
        Other => "other",
    }
);

label_values!(
    /// The result of a removal.
    pub(crate) Outcome {
        /// The API server removed machines and decremented replicas.
        Removed => "removed",
        /// Earlier requests had removed all targets.
        Repeated => "repeated",
        /// The request was a dry run and would have succeeded.
        DryRun => "dry_run",
        /// The request conflicts with the pool, its machines or admission, or other clients kept changing the pool.
        Refused => "refused",
        /// The removal record of the pool is full, or too many requests wait.
        Full => "full",
        /// A request to kube-apiserver failed.
        Failed => "failed",
    }
);

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
pub(super) struct Code(pub(super) u16);

impl EncodeLabelValue for Code {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        write!(encoder, "{}", self.0)
    }
}

impl LabelValue for Code {
    fn values() -> Values {
        Values::Open("the HTTP status")
    }
}
