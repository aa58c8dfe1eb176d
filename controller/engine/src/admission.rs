//! Admission: the rules that hold for pools of every platform, and the verdict about a request.
//!
//! Most rules are about fields of one pool API. They are part of its platform, which implements [`Rules`]. It
//! uses the rules of this module for what all pools have: which clients may write the removal record
//! ([`record`]), which may lower the number of machines ([`count`]), and what the scale subresource may do
//! ([`scale`]). A platform passes the names of its fields, so that the messages use the names of its API.

pub mod count;
mod dry_run;
mod finding;
mod lookup;
pub mod record;
mod request;
mod review;
mod rule;
pub mod scale;
mod verdict;

pub use dry_run::{DryRun, DryRunCause, DryRunResult};
pub use finding::{
    MessageOrder, Refusal, RefusalCollector, Refusals, RuleResult, Warning, quote_json_value, refuse_value,
    shorten_text,
};
pub use lookup::{LookupOutcome, LookupResult, LookupSubject, ObjectLookup};
pub use request::{PoolRequest, PrivilegedUsers};
pub use review::{PoolKind, RuleReview, Rules, ScaleGuard, UndecidedReview};
pub use rule::{AdmissionRule, RuleSeverity};
pub use verdict::{AdmissionDecision, AdmissionVerdict};
