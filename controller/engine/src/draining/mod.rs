//! Draining: a guest finishes its work before its machine leaves or restarts.
//!
//! ```text
//!                     chosen                    all hooks released, the guest stopped, or the deadline
//!  hooks, no mark ------------> marked, waits -------------------------------------------------------> the step
//!                                    |  no longer chosen, or protected
//!                                    +-----------------------------------> the mark is removed
//! ```
//!
//! A *hook* is an annotation of a machine with the prefix [`HOOK_PREFIX`]. Without hooks, nothing waits and
//! nothing is written. The *mark* is the annotation [`MARK`], and the whole state: a new leader, a lost
//! response or an old cache cannot drain two machines for one step.

mod budget;
mod hooks;
mod mark;
mod planner;
mod setting;

pub(crate) use budget::is_draining_within_budget;
pub use hooks::{DrainHook, Draining, HOOK_PREFIX, MOST_HOOKS};
pub use mark::{DrainMark, DrainReason, MARK};
pub(crate) use planner::{DrainPlanner, plan_drains};
pub use setting::{
    DEFAULT_TIMEOUT, DRAIN, DRAIN_FIELD, DRAIN_SETTING, DrainSettingError, LONGEST_TIMEOUT, parse_drain,
    read_drain,
};

#[cfg(test)]
mod tests;
