//! Membership: which machines belong to a pool.
//!
//! Read here why a machine counts for its pool, why it was released, or why created machines get lost:
//!
//! * `owner`: the owners of objects. The owner alone decides about membership.
//! * `planner`: the planner `membership`, which restores labels that machines lost, and releases machines.
//! * `adoption`: machines of other controllers, and their disks.
//! * `finalizers`: the planner of the finalizers on the pool and on its machines.
//! * [`losses`]: objects that the pool created and that did not stay in it.
//! * `loss_limits`: the planner that limits creates while other clients take away what the pool creates.

pub(crate) mod adoption;
pub(crate) mod finalizers;
pub(crate) mod loss_limits;
pub mod losses;
pub(crate) mod owner;
mod planner;

pub(crate) use planner::plan_membership;
