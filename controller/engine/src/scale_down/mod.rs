//! Scale-down: which machines the controller removes.
//!
//! Read here why a machine was removed, or why a pool keeps more machines than `replicas`:
//!
//! * `policy`: the table of policies: which machines leave, and in which order.
//! * `remove`: the planner that deletes the targets of removals and the surplus.
//! * [`removal`]: the removal record, which stores the targets of targeted removals on the pool.
//! * `reservations`: machines that a targeted removal has reserved, so that they are not replaced.
//! * `record`: the planner that removes finished entries from the removal record.
//! * `surplus`: machines above `replicas` that the pool keeps.
//!
//! Machines that other clients protect from a scale-down: [`crate::protection`].

pub(crate) mod policy;
pub(crate) mod record;
pub mod removal;
pub(crate) mod remove;
pub(crate) mod reservations;
pub(crate) mod surplus;
