//! Why a write failed.

use std::time::Duration;

use kube::core::Status;

/// Why a write failed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// It was not sent, because the lease ends too soon, or because the controller stops.
    #[error("not sent: the lease ends too soon")]
    Fenced,
    /// It was not sent, because the request is invalid.
    #[error("not sent: {0}")]
    Invalid(Box<dyn std::error::Error + Send + Sync>),
    /// The API server rejected it. It had no effect.
    #[error("{}", .status.message)]
    Refused {
        /// The status of the response.
        status: Box<Status>,
        /// The delay that the API server requests.
        retry_after: Option<Duration>,
    },
    /// The API server carried it out, but the stored object is not what the controller needs.
    #[error("{0}")]
    Mismatch(String),
    /// It is unconfirmed: there was no response, or the response does not show the effect. The API server may
    /// have carried it out, or may still do so.
    #[error("unconfirmed: {0}")]
    Unconfirmed(String),
}

impl WriteError {
    /// Whether an object of this name already exists. This does not include `Conflict`, which a quota can
    /// return.
    pub fn is_already_exists(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.reason == "AlreadyExists")
    }

    /// Whether the object with this name or with the required UID does not exist.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.code == 404)
    }

    /// Whether a precondition failed.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.code == 409 && status.reason == "Conflict")
    }

    /// Whether the resulting object is invalid, or a test in a JSON patch failed.
    pub fn is_unprocessable(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.code == 422)
    }

    /// The delay that the API server requests.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
