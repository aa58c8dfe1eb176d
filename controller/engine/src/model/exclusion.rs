//! Why an object that a pool created does not belong to it.

use std::fmt;

/// What differs from the draft of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exclusion {
    /// The controller owner reference.
    Owner {
        /// The controller owner, if the object has one.
        found: Option<String>,
    },
    /// A label by which the pool selects.
    Label {
        /// The key.
        key: String,
        /// What the pool selects.
        wanted: String,
        /// The value, if the object has the label.
        found: Option<String>,
    },
}

/// The texts of other clients are quoted, so that no character of them is taken for one of the message.
impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner { found: None } => f.write_str("it has no controller owner reference"),
            Self::Owner { found: Some(found) } => write!(f, "its controller owner is {found:?}"),
            Self::Label { key, wanted, found: None } => {
                write!(f, "it lacks the label {key:?}, which must have {wanted}")
            }
            Self::Label { key, wanted, found: Some(found) } => {
                write!(f, "its label {key:?} is {found:?} and must be {wanted}")
            }
        }
    }
}
