//! Copies: immutable copies of instance types and preferences, stored as ControllerRevisions.
//!
//! A machine uses the copy instead of the live object, so that an edit or a deletion of the object does not
//! change machines. A copy that all machines of one template revision of a pool share is a *pin*: its owner
//! is the pool.

mod accept;
mod compare;
mod convert;
mod decode;
mod name;
mod object;
mod upgrade;

#[cfg(test)]
mod tests;

pub use accept::{Acceptance, ExpectedCopy, RevisionMismatch, accept_copy};
pub use compare::{Outdated, outdated_reason, same_spec};
pub use decode::{DecodeError, DecodedCopy, StoredVersion, decode_copy};
pub use name::{CopiedObjectState, compose_copy_name, parse_copy_name};
pub use object::{CopyOwner, InstanceTypeCopy, Unidentified, labels};
pub use upgrade::{CopyUpgrade, in_place, plan_copy_upgrade};
