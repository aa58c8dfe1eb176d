//! Scale-up: which machines the controller creates, and their names.
//!
//! Read here why a machine was created, why it has its name, or why a missing machine is not created:
//!
//! * [`names`]: machine numbers, name blocks, and the names that are computed from them.
//! * `create`: the planner that creates missing machines.
//! * `refill`: the planner that creates missing standby machines.
//! * `batch`: the names and the disks of the machines that both create.
//! * [`provisioning_limit`]: the limit of a pool on machines that have not been ready yet.
//! * [`class_slots`]: the limit over all pools.
//! * [`provisioning`]: which machines count, and the creates that both limits leave.
//!
//! A create also depends on free disks (`disks::allocation`) and on its limits while other clients take away
//! what the pool creates (`membership::loss_limits`).

mod batch;
pub mod class_slots;
pub(crate) mod create;
pub mod names;
pub mod provisioning;
pub mod provisioning_limit;
pub(crate) mod refill;
