//! Healing: which machines the controller replaces because they do not start.
//!
//! Read here why a machine was replaced, or why it was not:
//!
//! * `heal`: the planner that replaces machines.
//! * `start_failures`: since when a machine does not start, and how often the controller has replaced it.

pub(crate) mod heal;
pub(crate) mod start_failures;
