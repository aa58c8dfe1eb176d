//! The words that label values are made of. Their sets are closed, but for the HTTP status.

use std::fmt::{self, Write as _};

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};
use vmpool_runtime::metrics::{Values, Word};
use vmpool_runtime::words;

words!(
    /// What is asked of this server.
    pub(crate) Verb {
        /// Read one object or document.
        Get => "get",
        /// Make an object.
        Create => "create",
        /// Anything else.
        Other => "other",
    }
);

words!(
    /// What a request is about.
    pub(crate) Resource {
        /// The metadata of a pool.
        Pools => "virtualmachinepools",
        /// The removal of named machines.
        Removal => "virtualmachinepools/scaledownwith",
        /// Discovery, OpenAPI and the version.
        Documents => "documents",
        /// Health checks.
        Health => "health",
        /// Anything else.
        Other => "other",
    }
);

words!(
    /// What came of a removal.
    pub(crate) Outcome {
        /// Machines leave, and replicas went down for them.
        Removed => "removed",
        /// All machines had been removed by earlier requests.
        Repeated => "repeated",
        /// It was a dry run, and would have worked.
        DryRun => "dry_run",
        /// The request does not fit the pool, its machines or its admission, or others kept changing the pool.
        Refused => "refused",
        /// The pool has too many open removals, or too many requests wait.
        Full => "full",
        /// The API server did not do what it was asked.
        Failed => "failed",
    }
);

words!(
    /// Where the answer came from.
    pub(crate) CheckSource {
        /// It was remembered.
        Cache => "cache",
        /// The API server was asked.
        Review => "review",
    }
);

/// What a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Code(pub(super) u16);

impl EncodeLabelValue for Code {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        write!(encoder, "{}", self.0)
    }
}

impl Word for Code {
    fn values() -> Values {
        Values::Open("the HTTP status")
    }
}
