//! Control plane, scenario language and end-to-end tests of vmpool.
//!
//! * [`cluster`]: a real control plane as child processes;
//! * [`process`]: child processes that cannot outlive the harness.

pub mod cluster;
pub mod error;
pub mod invariants;
pub mod object;
pub mod process;
pub mod recorder;

pub use error::{Error, Result};
