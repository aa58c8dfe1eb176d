//! The result of expanding an object.

use serde_json::Value;
use vmpool_decision::Needs;
use vmpool_instancetype::pins::{MatcherProblem, ResolveError};
use vmpool_platform::ReferencedObject;

/// The result of expanding an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Expansion {
    /// These objects were not read yet, and are needed.
    Needs(Needs<ReferencedObject>),
    /// What the platform adds to machines was not read yet, and is needed.
    NeedsDefaults,
    /// The expanded object.
    Done(Value),
    /// The object cannot be expanded.
    Refused(MatcherProblem),
    /// The requested revision is not one of the pool.
    NoRevision,
}

impl From<Needs<ReferencedObject>> for Expansion {
    fn from(needs: Needs<ReferencedObject>) -> Self {
        Self::Needs(needs)
    }
}

impl From<ResolveError> for Expansion {
    fn from(open: ResolveError) -> Self {
        match open {
            ResolveError::Needs(needs) => needs.into(),
            ResolveError::Unresolved(problem) => Self::Refused(problem),
        }
    }
}
