//! Stashes: immutable copies of instance types and preferences, stored as ControllerRevisions.
//!
//! A machine uses the copy instead of the live object, so that an edit or a deletion of the object does not change machines.
//! A stash that all machines of one template revision of a pool share is a *pin*: its owner is the pool.

mod accept;
mod compare;
mod convert;
mod decode;
mod name;
mod object;
mod upgrade;

#[cfg(test)]
mod tests;

pub use accept::{Acceptance, RevisionMismatch, Wanted, accept};
pub use compare::{Outdated, outdated, same_spec};
pub use decode::{DecodeError, Decoded, StoredVersion, decode};
pub use name::{Recorded, compose, recorded};
pub use object::{Owner, Stash, Unidentified, labels};
pub use upgrade::{Upgrade, in_place, upgrade};
