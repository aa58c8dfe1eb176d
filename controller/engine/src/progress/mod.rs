//! The progress deadline: how long a pool may make no progress before its status says that a user must look.
//!
//! Progress is a [`PoolDistance`] from the spec that is smaller than any since the clock began: more machines
//! exist, fewer are surplus, more are ready, more are up to date, or a repeated write succeeds. A machine
//! that starts and crashes again, or that autohealing replaces again and again, is no progress.
//!
//! ```text
//!  settled, paused, or only waiting        the distance is smaller than before
//!   +--> no clock <----------------+        +----+
//!   |       |  work is left        |        |    v
//!   |       +---------------------------> the clock runs ----------> overdue: the pool is stalled
//!   +------------------------------------------+      the deadline       |  progress
//!                                              ^-------------------------+
//! ```
//!
//! The clock is in the memory of the leader, and no write records it: a new leader begins again. The status
//! then says for one deadline that the pool is reconciling, and never that it is stalled although it is not.

mod clock;
mod setting;

pub use clock::{PoolDistance, ProgressClock};
pub use setting::{
    DEFAULT_DEADLINE, PROGRESS_DEADLINE, PROGRESS_DEADLINE_FIELD, PROGRESS_DEADLINE_SETTING,
    ProgressDeadlineError, parse_progress_deadline, parse_progress_deadline_text, read_progress_deadline,
};

#[cfg(test)]
mod tests;
