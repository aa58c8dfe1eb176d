//! The result of a check.

use serde::Serialize;

use crate::explain::describe_kube_error;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum CheckVerdict {
    /// In order.
    Ok,
    /// Cannot be checked with the rights of the user.
    Unknown,
    /// Works, but differs from the usual.
    Warning,
    /// Not in order.
    Failed,
}

/// The result of a check with its remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct CheckFinding {
    pub(super) check: String,
    pub(super) verdict: CheckVerdict,
    pub(super) what: String,
    /// What to do; empty if everything is in order.
    pub(super) remedy: String,
}

impl CheckFinding {
    pub(super) fn new(
        check: &str,
        verdict: CheckVerdict,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { check: check.to_owned(), verdict, what: what.into(), remedy: remedy.into() }
    }

    /// A check that a request of the user could not make.
    pub(super) fn unknown(check: &str, attempt: &str, error: &kube::Error) -> Self {
        let remedy = "run the command with the rights of an administrator to check this";
        let what = format!("{attempt}: {}", describe_kube_error(error));
        Self::new(check, CheckVerdict::Unknown, what, remedy)
    }
}
