//! Admission: the rules that hold for pools of every platform, and the verdict about a request.
//!
//! Most rules are about fields of one pool API. They are part of its platform, which implements [`Rules`]. It
//! uses the rules of this module for what all pools have: which clients may write the removal record
//! ([`record`]), which may lower the number of machines ([`count`]), and what the scale subresource may do
//! ([`scale`]). A platform passes the names of its fields, so that the messages use the names of its API.

pub mod count;
mod finding;
pub mod record;
mod request;
mod review;
mod rule;
pub mod scale;
mod verdict;

pub use finding::{
    MessageOrder, Refusal, RefusalCollector, Refusals, RuleResult, Warning, quote_json_value, refuse_value,
    shorten_text,
};
pub use request::{PoolRequest, PrivilegedUsers};
pub use review::{PoolKind, Rules, ScaleGuard};
pub use rule::{AdmissionRule, RuleSeverity};
pub use verdict::{AdmissionDecision, AdmissionVerdict};
pub use vmpool_decision::{
    AdmissionRead, AdmissionReads, DryRun, DryRunCause, DryRunResult, LookupNamespace, LookupOutcome,
    LookupSubject, ObjectLookup, Step,
};
