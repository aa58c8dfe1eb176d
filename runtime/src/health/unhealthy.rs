//! Why a health check fails.

use crate::lease::LeaseContactError;

/// The reason of a failed health check. Every client of the endpoint can read it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unhealthy(String);

impl Unhealthy {
    /// A failure with this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl From<LeaseContactError> for Unhealthy {
    fn from(error: LeaseContactError) -> Self {
        Self::new(error.to_string())
    }
}
