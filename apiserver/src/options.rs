//! The command line, and what it becomes before anything starts.

use std::time::Duration;

use clap::Parser;
use vmpool_runtime::args::{ArgsError, GateArgs, ProgramArgs, ReservationArgs};
use vmpool_runtime::certificates::{ServingArgs, ServingArgsError, ServingConfig};

/// Serves the removal of chosen machines from pools, as an API that is part of the cluster's own.
///
/// Every replica answers; run two or more, because without any the cluster deletes no namespace. Every flag can be set by
/// the environment variable named beside it.
#[derive(Debug, Parser)]
// The last of several equal flags counts, so that what a chart's user appends wins.
#[command(name = "vmpool-apiserver", version, args_override_self = true)]
#[command(after_long_help = vmpool_feature_gates::help_text())]
pub struct Options {
    /// Feature gates.
    #[command(flatten)]
    pub gates: GateArgs,

    /// The HTTPS port and its certificate.
    #[command(flatten)]
    pub serving: ServingArgs,

    /// Reservations of named machines.
    #[command(flatten)]
    pub reservations: ReservationArgs,

    /// What every program has.
    #[command(flatten)]
    pub program: ProgramArgs,
}

/// An option is not usable.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// The options of the HTTPS port do not fit each other.
    #[error(transparent)]
    Serving(#[from] ServingArgsError),
    /// A gate is unknown, or reservations would not last.
    #[error(transparent)]
    Shared(#[from] ArgsError),
}

impl Options {
    /// How to serve, checked.
    ///
    /// # Errors
    /// [`OptionsError::Serving`], one line that names the flag.
    pub fn serving(&self) -> Result<ServingConfig, OptionsError> {
        Ok(self.serving.config()?)
    }

    /// For how long the controller lets a reservation stand that nobody accepts.
    ///
    /// # Errors
    /// [`OptionsError::Shared`].
    pub fn reservation_timeout(&self) -> Result<Duration, OptionsError> {
        Ok(self.reservations.timeout()?)
    }
}

#[cfg(test)]
mod tests;
