//! The decisions of vmpool: pure functions from an observed pool to a plan.
//!
//! The engine reads no clock, draws no random number and talks to nobody. A pass of the controller is
//! `observe -> plan -> apply -> report`; this crate is `plan`, the words the other three speak, and the two pieces
//! of memory that connect one pass with the next:
//!
//! ```text
//!             +-------------------------- Memory (per pool UID) ---------------------------+
//!             | Ledger: our writes that the cache has not shown yet    Pacing   Numbers    |
//!             +----------------------------------------------------------------------------+
//!                        | laid over the cache                          ^ told what happened
//!                        v                                              |
//!  cache -> [Observed] -> plan() -> [Plan: actions, waits, again] -> apply -> [Failure?] -> status()
//! ```
//!
//! # What the engine relies on
//!
//! Other actors must leave these alone; what happens when they do not is written beside each:
//!
//! * the controller owner reference of a member: it alone decides membership. Removing it releases the machine,
//!   which is then replaced;
//! * the managed labels of a member: written back when they are lost;
//! * the disk map annotation of a member: says which disk fills which template. Without it the member's disks are
//!   not repaired;
//! * the revision annotation of a member, which says what was written to it last: a member that claims another
//!   revision is written to again, one that claims the current one is left alone;
//! * the stored revisions of a pool: one that was taken away is stored again if it is the current one; of a member
//!   that was made from another one nobody knows any more what was the pool's, so nothing is taken off it;
//! * the block of machine numbers on the pool: without it names may return that a machine of the pool had before;
//! * the record of named machines on the pool, which follows the steps of [`removal`]: an accepted entry that nobody
//!   lowered the count for removes its machine, which is then replaced.

pub mod admission;
pub mod backoff;
pub mod condition;
pub mod ledger;
pub mod limits;
pub mod memory;
pub mod model;
pub mod names;
pub mod plan;
pub mod removal;
pub mod revision;
pub mod status;

#[cfg(test)]
mod simulation;
#[cfg(test)]
pub(crate) mod testing;

pub use memory::Memory;
pub use model::{Disk, Machine, ObjectId, Pool, Uid};
pub use plan::{Action, Observed, Plan, plan};
pub use status::{Status, status};
