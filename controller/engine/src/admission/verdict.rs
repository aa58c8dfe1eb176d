//! The verdict about a request.

use super::finding::{Refusal, Refusals, Warning};

/// The decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdmissionDecision {
    /// It is allowed.
    Allowed,
    /// It is rejected, because it breaks these rules.
    Refused(Refusals),
    /// The object cannot be read as a pool. Contains the error.
    Malformed(String),
    /// It cannot be decided, because an object that a rule depends on could not be read. Contains the error.
    Undecided(String),
}

/// The verdict about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionVerdict {
    /// The decision.
    pub outcome: AdmissionDecision,
    /// Warnings in the order of the rules. For a rejected request, only those before the rejection.
    pub warnings: Vec<Warning>,
}

impl From<Box<Refusal>> for Box<AdmissionDecision> {
    fn from(refusal: Box<Refusal>) -> Self {
        Self::new(AdmissionDecision::Refused((*refusal).into()))
    }
}
