//! The project's programs as child processes.

mod chart;
mod controller;
mod forwarder;
mod program;
mod service;
mod simulator;

pub use crate::SYSTEM_NAMESPACE;
pub use chart::{Accounts, CONTROLLER_ACCOUNT, Chart, DVP_ONLY};
pub use controller::{ControllerOptions, ControllerProgram};
pub use program::RestartableProgram;
pub use service::{Component, ComponentReplica, ComponentService, ServiceOptions};
pub use simulator::Simulator;

use vmpool_test_cluster::binaries::find_program;
use vmpool_test_cluster::error::Result;

/// Checks that the project's programs were built.
///
/// # Errors
/// `MissingProgram` for the first missing program.
pub fn check_programs_built() -> Result<()> {
    find_program(controller::PROGRAM, controller::VARIABLE)?;
    find_program(simulator::PROGRAM, simulator::VARIABLE)?;
    Component::ALL.into_iter().try_for_each(|component| component.find().map(drop))
}
