//! Admission: the rules that hold for pools of every platform, and the answer to a request.
//!
//! Most rules name fields of one pool API. They are part of its platform, which judges the request and uses the rules
//! of this module for what is the same everywhere: who may write the removal record ([`record`]), who may reduce the
//! number of machines ([`count`]), and what the scale subresource may do ([`scale`]). A platform passes its own names of
//! fields, so that the messages use the names of its API.

pub mod count;
mod finding;
mod lookup;
pub mod record;
mod review;
mod rule;
pub mod scale;

pub use finding::{Refusal, Warning, quoted, shortened};
pub use lookup::{Found, Lookup, LookupResult, Subject};
pub use review::{Kind, Pending, Review, Rules, ScaleGuard};
pub use rule::{Rule, Severity};

use serde_json::Value;

/// A create or an update of a pool.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The full name of the user who sent it.
    pub user: &'a str,
    /// The stored pool; `None` for a create.
    pub old: Option<&'a Value>,
    /// The pool as the API server would store it.
    pub new: &'a Value,
}

/// The users with more rights than other users, by their full names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Users {
    /// The program that serves targeted removal.
    pub removal_handler: Option<String>,
    /// The controller.
    pub controller: Option<String>,
}

/// The decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No rule refuses it.
    Allowed,
    /// It breaks a rule.
    Refused(Refusal),
    /// The webhook cannot judge it: it could not read an object that a refusing rule depends on, for this reason.
    Undecided(String),
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The decision.
    pub outcome: Outcome,
    /// Warnings for the user, in the order in which they were found. Of a refused request, those that were found before
    /// the refusal.
    pub warnings: Vec<Warning>,
}

/// Whether a cluster has a capability that the API server does not report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Known {
    /// It has the capability.
    Yes,
    /// It does not have the capability.
    No,
    /// The administrator did not set it. The webhook skips the checks that depend on it.
    #[default]
    Unknown,
}

/// The result of a check. The error is boxed, because it is large and rare.
pub type Checked<T = ()> = Result<T, Box<Refusal>>;

/// A refusal, as the error of a check. `reason` describes the error, `way_out` the correction.
///
/// # Errors
/// Always.
pub fn refuse<T>(
    rule: impl Into<Rule>,
    field: impl Into<String>,
    value: &Value,
    reason: impl std::fmt::Display,
    way_out: impl std::fmt::Display,
) -> Checked<T> {
    Err(Box::new(Refusal::new(rule, field, value, reason, way_out)))
}

impl From<Box<Refusal>> for Box<Outcome> {
    fn from(refusal: Box<Refusal>) -> Self {
        Self::new(Outcome::Refused(*refusal))
    }
}
