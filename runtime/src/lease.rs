//! The fenced lease: at most one process at a time acts as leader.
//!
//! ```text
//!            acquire                    renew; the validity counts from before the request
//! Candidate ─────────> Leadership ──┐ <──────────────────────────────────────────┐
//!     ^                   │ fence   └────────────────────────────────────────────┘
//!     │   lost: the validity ended, or the Lease names another holder
//!     └───────────────────┴──────> released: the next candidate does not wait
//! ```
//!
//! **Why there are never two leaders.** The leader counts its validity from before it sent the request that
//! the API server accepted. All other candidates count the same duration from after they read the result of
//! that request, so their wait ends later. This holds regardless of clock differences between machines,
//! because no remote time is compared with a local clock. Every write carries the UID and the resource
//! version that was read, so a late request fails instead of overwriting the Lease.
//!
//! **Two clocks.** [`Fence::remaining`] uses the larger of the elapsed times on the boot clock and the wall
//! clock. The boot clock includes the suspension of this machine. The wall clock also jumps forward if a
//! virtual machine was paused. If the wall clock jumps back, the boot clock decides. A fence that has ended
//! stays ended.
//!
//! **Assumptions.** Only candidates write the Lease. If another client writes it, the following still holds.
//! If a client deletes the Lease or clears its holder, every candidate that saw a holder waits for the full
//! duration, and the leader restores the Lease. If a client writes another holder, the leadership ends at the
//! next renewal. A process that starts between a deletion and the next read of leader or standby (three
//! seconds) does not know the leader, and may lead at the same time until the next renewal.

mod candidate;
mod config;
mod error;
pub(crate) mod fence;
mod health;
mod leadership;
mod observation;
mod record;
mod store;

pub use candidate::Candidate;
pub use config::LeaseConfig;
pub use error::LeaseError;
pub use fence::Fence;
pub use health::{LeaseContactError, LeaseHealth};
pub use leadership::Leadership;

#[cfg(test)]
mod tests;
