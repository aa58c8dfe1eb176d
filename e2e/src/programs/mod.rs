//! Our own programs as child processes.

mod chart;
mod controller;
mod forwarder;
pub(crate) mod probe;
mod program;
mod service;
mod simulator;

use std::path::{Path, PathBuf};

pub use chart::{Accounts, CONTROLLER_ACCOUNT, Chart, SYSTEM_NAMESPACE};
pub use controller::{Controller, ControllerOptions};
pub use program::Program;
pub use service::{Component, Replica, Service, ServiceOptions};
pub use simulator::Simulator;

use crate::error::{Error, Result};

/// Whether our own programs were built.
///
/// # Errors
/// [`Error::MissingProgram`] for the first one that is not there.
pub fn check() -> Result<()> {
    find(controller::PROGRAM, controller::VARIABLE)
        .and_then(|_controller| find(simulator::PROGRAM, simulator::VARIABLE))
        .map(drop)
}

/// Finds a program of ours: where `variable` says, else beside the running test's own directory.
pub(crate) fn find(program: &'static str, variable: &'static str) -> Result<PathBuf> {
    let path = match std::env::var_os(variable) {
        Some(path) => PathBuf::from(path),
        None => profile_directory()?.join(program),
    };
    if path.is_file() { Ok(path) } else { Err(Error::MissingProgram { program, path, variable }) }
}

/// `target/<profile>`: tests run in its `deps`, binaries in itself.
pub(crate) fn profile_directory() -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(Error::file("finding", "the running program"))?;
    let directory = own.parent().unwrap_or(Path::new("."));
    let is_deps = directory.file_name().is_some_and(|name| name == "deps");
    Ok(if is_deps { directory.parent().unwrap_or(directory) } else { directory }.to_owned())
}
