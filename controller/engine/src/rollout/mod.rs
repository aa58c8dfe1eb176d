//! Rollout: how a changed template reaches existing machines.
//!
//! Read here why a machine was updated or restarted, or why it still has an earlier revision:
//!
//! * `progress`: the rollout state of each machine, and the progress of the whole rollout.
//! * `planner`: the planner `rollout`, which updates machines to the current revision.
//! * `attempts`: results of the attempts to update machines.
//! * `restart`: the planner that restarts instances, so that an update takes effect.
//! * `requested_restarts`: restarts that the cache does not show yet.
//! * `overridden`: machines in which fields of the template are not in effect.

pub(crate) mod attempts;
pub(crate) mod overridden;
mod planner;
pub(crate) mod progress;
pub(crate) mod requested_restarts;
pub(crate) mod restart;

pub(crate) use planner::{draft_machine_disks, find_merge_base, lacks_device, plan_rollout};
