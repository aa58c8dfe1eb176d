//! The result of expanding an object.

use serde_json::Value;

use super::super::pins::{Open, Problem};
use crate::Reference;

/// The result of expanding an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Expansion {
    /// This object, which was not read yet, is needed.
    Needs(Reference),
    /// What the platform adds to machines was not read yet, and is needed.
    NeedsDefaults,
    /// The expanded object.
    Done(Value),
    /// The object cannot be expanded.
    Refused(Problem),
    /// The requested revision is not one of the pool.
    NoRevision,
}

impl From<Open> for Expansion {
    fn from(open: Open) -> Self {
        match open {
            Open::Needs(reference) => Self::Needs(reference),
            Open::Unresolved(problem) => Self::Refused(problem),
        }
    }
}
