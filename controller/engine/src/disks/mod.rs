//! Disks: which disks the controller creates, allocates, expands and deletes.
//!
//! Read here why a machine has a disk, or why a disk was deleted:
//!
//! * `planner`: the planner `disks`, which repairs missing, unusable and restored disks of machines.
//! * `allocation`: which disks of the pool are in use, and which machine gets a free disk.
//! * `disk_collection`: the planner that deletes free disks that are too old.
//! * `expand`: the planner that expands disks. `disk_size` has its rule.
//! * `disk_names`: the names of disks. `stored_time`: the times that annotations of disks store.

pub(crate) mod allocation;
pub(crate) mod disk_collection;
pub(crate) mod disk_names;
mod disk_size;
pub(crate) mod expand;
mod planner;
mod stored_time;

pub(crate) use planner::{DiskCheckResult, plan_disk_repairs};
