//! The result of expanding an object.

use serde_json::Value;
use vmpool_platform::ReferencedObject;

use super::super::pins::{MatcherProblem, ResolveError};

/// The result of expanding an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Expansion {
    /// This object, which was not read yet, is needed.
    Needs(ReferencedObject),
    /// What the platform adds to machines was not read yet, and is needed.
    NeedsDefaults,
    /// The expanded object.
    Done(Value),
    /// The object cannot be expanded.
    Refused(MatcherProblem),
    /// The requested revision is not one of the pool.
    NoRevision,
}

impl From<ResolveError> for Expansion {
    fn from(open: ResolveError) -> Self {
        match open {
            ResolveError::Needs(reference) => Self::Needs(reference),
            ResolveError::Unresolved(problem) => Self::Refused(problem),
        }
    }
}
