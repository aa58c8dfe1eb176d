//! The command line, and what it becomes before anything starts.

use std::time::Duration;

use clap::Parser;
use vmpool_feature_gates::{FeatureGates, Registry};
use vmpool_runtime::args::{ArgsError, ClientArgs, HealthArgs, LogArgs, ReservationArgs};
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
    /// Switch features on or off, for example VirtualMachinePool=true. The gates are listed below.
    #[arg(long, env = "VMPOOL_FEATURE_GATES", default_value = "", value_name = "GATE=BOOL,...")]
    pub feature_gates: String,

    /// The HTTPS port and its certificate.
    #[command(flatten)]
    pub serving: ServingArgs,

    /// Reservations of named machines.
    #[command(flatten)]
    pub reservations: ReservationArgs,

    /// The way to the API server.
    #[command(flatten)]
    pub client: ClientArgs,

    /// Probes.
    #[command(flatten)]
    pub health: HealthArgs,

    /// Logs.
    #[command(flatten)]
    pub log: LogArgs,
}

/// An option is not usable.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// `--feature-gates` is wrong.
    #[error("--feature-gates: {0}")]
    Gates(#[from] vmpool_feature_gates::ParseError),
    /// The options of the HTTPS port do not fit each other.
    #[error(transparent)]
    Serving(#[from] ServingArgsError),
    /// Reservations would not last.
    #[error(transparent)]
    Reservations(#[from] ArgsError),
}

impl Options {
    /// The gates, checked.
    ///
    /// # Errors
    /// [`OptionsError::Gates`].
    pub fn gates(&self) -> Result<FeatureGates, OptionsError> {
        Ok(FeatureGates::parse(&Registry::of_this_build()?, &self.feature_gates)?)
    }

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
    /// [`OptionsError::Reservations`].
    pub fn reservation_timeout(&self) -> Result<Duration, OptionsError> {
        Ok(self.reservations.timeout()?)
    }
}

#[cfg(test)]
mod tests;
