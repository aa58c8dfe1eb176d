//! The autoscaler of pools as pure functions of what was observed.
//!
//! An autoscaler keeps machines of a pool free. [`read`] takes the stored object apart. [`limits`] says which
//! numbers apply at a time, with the [`schedule`]s that are active then. [`demand`] is what the machines and
//! the [`waiting`] claims need, and [`decision`] what the controller writes. [`status`] shows it.
//! [`simulation`] replays a recorded demand against the same decision.
//!
//! # Layers
//!
//! A file imports only files of lower layers. From the lowest layer:
//!
//! 1. [`cron`], [`demand`], [`machines`], [`waiting`]
//! 2. [`schedule`], [`history`]
//! 3. [`limits`]
//! 4. [`read`], [`decision`]
//! 5. [`admission`], [`conflict`], [`status`], [`simulation`]
//!
//! The crate has no clock: the time is an argument. The data of time zones are part of it.

pub mod admission;
pub mod conflict;
pub mod cron;
pub mod decision;
pub mod demand;
pub mod history;
pub mod limits;
pub mod machines;
pub mod read;
pub mod schedule;
pub mod simulation;
pub mod status;
pub mod waiting;

/// The most schedules that are read. The schema has the same limit.
pub const MAX_SCHEDULES: usize = 32;
