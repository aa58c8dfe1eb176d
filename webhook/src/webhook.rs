//! A webhook: its path, and its rules as a decision about a request.

use std::fmt;

use vmpool_decision::{AdmissionRead, AdmissionReads, Step};
use vmpool_engine::admission::{AdmissionDecision, PoolKind};

use crate::metrics::Path;
use crate::review::{ReviewAnswer, ReviewRequest};

/// The answer to a request, and the warnings for the user.
pub(crate) type Reviewed = (ReviewAnswer, Vec<String>);

/// Decides about a request.
type WebhookRules =
    Box<dyn Fn(&ReviewRequest, &AdmissionReads) -> Step<Reviewed, AdmissionRead> + Send + Sync>;

/// A webhook.
pub(crate) struct WebhookEntry {
    pub(crate) path: &'static str,
    /// Its name in metrics and in the log.
    pub(crate) name: Path,
    /// The kind of objects that it reviews.
    pub(crate) kind: PoolKind,
    pub(crate) rules: WebhookRules,
}

impl fmt::Debug for WebhookEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookEntry").field("path", &self.path).finish_non_exhaustive()
    }
}

impl WebhookEntry {
    /// A webhook whose rules depend on other objects.
    pub(crate) fn new(
        path: &'static str,
        name: Path,
        kind: PoolKind,
        rules: impl Fn(&ReviewRequest, &AdmissionReads) -> Step<Reviewed, AdmissionRead> + Send + Sync + 'static,
    ) -> Self {
        Self { path, name, kind, rules: Box::new(rules) }
    }

    /// A webhook whose rules depend on the request alone.
    pub(crate) fn without_reads(
        path: &'static str,
        name: Path,
        kind: PoolKind,
        rules: impl Fn(&ReviewRequest) -> Reviewed + Send + Sync + 'static,
    ) -> Self {
        Self::new(path, name, kind, move |request, _| Ok(rules(request)))
    }
}

impl From<ReviewAnswer> for Reviewed {
    fn from(answer: ReviewAnswer) -> Self {
        (answer, Vec::new())
    }
}

impl From<AdmissionDecision> for ReviewAnswer {
    fn from(decision: AdmissionDecision) -> Self {
        match decision {
            AdmissionDecision::Allowed => Self::allowed(),
            AdmissionDecision::Refused(refusals) => Self::refused(refusals),
            AdmissionDecision::Malformed(reason) => Self::malformed(reason),
            AdmissionDecision::Undecided(reason) => Self::undecided(&reason),
        }
    }
}
