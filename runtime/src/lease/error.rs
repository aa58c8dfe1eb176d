//! Errors of requests for the Lease.

use std::time::Duration;

/// Why a request for the Lease failed. Leadership continues until its validity ends.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The Lease could not be read.
    #[error("reading lease {lease}")]
    Read {
        /// The Lease, as `namespace/name`.
        lease: String,
        /// The error of the client.
        source: Box<kube::Error>,
    },
    /// The Lease could not be written.
    #[error("writing lease {lease}")]
    Write {
        /// The Lease, as `namespace/name`.
        lease: String,
        /// The error of the client.
        source: Box<kube::Error>,
    },
    /// The request is unconfirmed: there was no response before the deadline. A write may still be applied.
    #[error("no response to a request for lease {lease} within {limit:?}")]
    Deadline {
        /// The Lease, as `namespace/name`.
        lease: String,
        /// The deadline.
        limit: Duration,
    },
    /// Other clients changed the Lease between each read and write.
    #[error("writing lease {lease}: other clients changed it before each attempt")]
    Contended {
        /// The Lease, as `namespace/name`.
        lease: String,
    },
}
