//! Revisions: the identity of a template, which no upgrade of vmpool changes, and the history of stored
//! revisions.
//!
//! Read here why a template has a revision, or why a stored revision exists:
//!
//! * `identity`: the hash over the canonical form of a template.
//! * `live_parts`: the parts of a template that a platform can apply to a running instance.
//! * `copies`: what is known of the copies of objects that templates refer to.
//! * `history`: the stored revisions of one pool, and which of them is its template.
//! * `planner`: the planner `revisions`, which stores and deletes revisions.

mod copies;
mod history;
mod identity;
mod live_parts;
mod planner;

pub use copies::{PinReport, RevisionCopies, UsedCopy};
pub use history::{ResolvedRevision, RevisionHistory, StoredRevision, TemplateParts};
pub use identity::{Fingerprint, HELD, RevisionId};
pub use live_parts::LiveParts;
pub(crate) use planner::{plan_inactive_revisions, plan_revisions, plan_unneeded_revisions};
