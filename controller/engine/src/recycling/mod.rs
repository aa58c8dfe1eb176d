//! Recycling: machines that another machine replaces, because they served long enough.
//!
//! ```text
//!  requested, too old, claimed often enough    within the disruption budget      deleted; the pool
//!  or released by its hooks: due -----------------> drains, if it has hooks ----> creates another one
//! ```
//!
//! `replicas` stays as it is. The controller replaces the oldest machine first, no protected machine, and
//! none in a surplus or in a paused pool. No state is stored apart from the annotations of machines, see
//! [`RecycleFacts`].

mod cause;
mod due;
mod facts;
mod planner;
mod setting;

pub use cause::RecycleCause;
pub(crate) use due::{find_recycle_cause, find_time_until_due};
pub use facts::{CLAIMS, REQUEST, RecycleFacts, format_claim_count};
pub(crate) use planner::plan_recycling;
pub use setting::{
    DEFAULT_JITTER, RECYCLE, RECYCLE_FIELD, RECYCLE_SETTING, RecyclePolicy, RecycleSettingError,
    SHORTEST_LIFETIME, parse_recycle, read_recycle,
};

#[cfg(test)]
mod tests;
