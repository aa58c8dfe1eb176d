//! Scale-up: which machines the controller creates, and their names.
//!
//! Read here why a machine was created, why it has its name, or why a missing machine is not created:
//!
//! * [`names`]: machine numbers, name blocks, and the names that are computed from them.
//! * `create`: the planner that creates missing machines.
//!
//! A create also depends on free disks (`disks::allocation`) and on its limits while other clients take away
//! what the pool creates (`membership::loss_limits`).

pub(crate) mod create;
pub mod names;
