//! The command line, and what it becomes before anything starts.

use std::time::Duration;

use clap::Parser;
use vmpool_runtime::args::{ArgsError, GateArgs, ProgramArgs, ReservationArgs};
use vmpool_runtime::certificates::{ServingArgs, ServingArgsError, ServingConfig};

use crate::removal;

/// The shortest time for a call: an API server under load needs it.
const SHORTEST_REQUEST: Duration = Duration::from_secs(1);

/// The longest time for a call: the caller gets an answer after [`removal::DEADLINE`], and the answer names what failed.
const LONGEST_REQUEST: Duration = removal::DEADLINE.saturating_sub(Duration::from_secs(2));

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

    /// How long the API server may take for one call, at most 26s; longer than the timeoutSeconds of the webhooks that judge
    /// pools, so that an error names the webhook that did not answer
    #[arg(
        long,
        env = "VMPOOL_REQUEST_TIMEOUT",
        value_name = "DURATION",
        default_value = "12s",
        value_parser = vmpool_runtime::duration::parse,
        help_heading = "Kubernetes API"
    )]
    pub request_timeout: Duration,

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
    /// A call to the API server could not end before the answer to the caller is due, or not at all.
    #[error("--request-timeout must be between {SHORTEST_REQUEST:?} and {LONGEST_REQUEST:?}, not {0:?}")]
    RequestTimeout(Duration),
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

    /// How long one call to the API server may take.
    ///
    /// # Errors
    /// [`OptionsError::RequestTimeout`].
    pub fn request_timeout(&self) -> Result<Duration, OptionsError> {
        if (SHORTEST_REQUEST..=LONGEST_REQUEST).contains(&self.request_timeout) {
            Ok(self.request_timeout)
        } else {
            Err(OptionsError::RequestTimeout(self.request_timeout))
        }
    }
}

#[cfg(test)]
mod tests;
