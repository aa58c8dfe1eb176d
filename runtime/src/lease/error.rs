//! What can go wrong with a request for the Lease.

use std::time::Duration;

/// Why a request for the Lease failed. Leadership goes on until its validity ends.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The Lease could not be read.
    #[error("reading lease {lease}")]
    Read {
        /// Which Lease, as `namespace/name`.
        lease: String,
        /// What the client said.
        source: Box<kube::Error>,
    },
    /// The Lease could not be written.
    #[error("writing lease {lease}")]
    Write {
        /// Which Lease, as `namespace/name`.
        lease: String,
        /// What the client said.
        source: Box<kube::Error>,
    },
    /// No answer came in time. A write may still happen.
    #[error("no answer about lease {lease} within {limit:?}")]
    Deadline {
        /// Which Lease, as `namespace/name`.
        lease: String,
        /// How long we waited.
        limit: Duration,
    },
    /// Others kept changing the Lease between our reading and our writing it.
    #[error("lease {lease} was changed by others each time before our write arrived")]
    Contended {
        /// Which Lease, as `namespace/name`.
        lease: String,
    },
}
