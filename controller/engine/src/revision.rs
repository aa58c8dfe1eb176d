//! Revisions: the identity of a template, which no upgrade of vmpool changes, and the history of stored
//! revisions.

mod history;
mod identity;
mod live_parts;

pub use history::{ResolvedRevision, RevisionHistory, StoredRevision, TemplateParts};
pub use identity::{Fingerprint, HELD, RevisionId};
pub use live_parts::LiveParts;
