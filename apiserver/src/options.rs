//! Command-line options and their validation.

use std::time::Duration;

use clap::Parser;
use vmpool_runtime::args::{ArgsError, GateArgs, InstancetypeMode, ProgramArgs, ReservationArgs};
use vmpool_runtime::certificates::{ServingArgs, ServingArgsError, ServingConfig};

use crate::removal;

/// The minimum of `--request-timeout`. A kube-apiserver under load needs this time.
const MIN_REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// The maximum of `--request-timeout`. It leaves time to report the failure of a request before
/// [`removal::DEADLINE`].
const MAX_REQUEST_TIMEOUT: Duration = removal::DEADLINE.saturating_sub(Duration::from_secs(2));

/// Serves targeted removal, claims and releases of machines of pools as an aggregated API of the cluster; for
/// KubeVirt also machines and pools with instance type and preference written out.
///
/// Every replica handles requests. Run at least two replicas: while none is available, the cluster cannot
/// delete any namespace. Each flag can also be set by the environment variable beside it.
#[derive(Debug, Parser)]
// If a flag is repeated, the last value is used, so that arguments that a user of the chart appends take
// effect.
#[command(name = "vmpool-apiserver", version, args_override_self = true)]
#[command(after_long_help = vmpool_feature_gates::help_text())]
pub struct ApiServerOptions {
    /// Feature gates.
    #[command(flatten)]
    pub gates: GateArgs,

    /// HTTPS port and certificate.
    #[command(flatten)]
    pub serving: ServingArgs,

    /// Reservations of targets.
    #[command(flatten)]
    pub reservations: ReservationArgs,

    /// Deadline of each request to the Kubernetes API, from 1s to 26s. Set it longer than timeoutSeconds of
    /// the webhooks for pools, so that an error names the webhook that did not respond
    #[arg(
        long,
        env = "VMPOOL_REQUEST_TIMEOUT",
        value_name = "DURATION",
        default_value = "12s",
        value_parser = vmpool_runtime::duration::parse_duration,
        help_heading = "Kubernetes API"
    )]
    pub request_timeout: Duration,

    /// Which program processes instance types and preferences. With Standalone, the server also serves the
    /// expansion of machines in KubeVirt's own API group, while the cluster has no KubeVirt object
    #[arg(
        long,
        env = "VMPOOL_INSTANCETYPE_MODE",
        value_enum,
        default_value_t,
        ignore_case = true,
        value_name = "MODE",
        help_heading = "Expansion"
    )]
    pub instancetype_mode: InstancetypeMode,

    /// Options that all programs have.
    #[command(flatten)]
    pub program: ProgramArgs,
}

/// Why an option is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ApiServerOptionsError {
    /// The options of the HTTPS port are invalid.
    #[error(transparent)]
    Serving(#[from] ServingArgsError),
    /// A feature gate or the reservation timeout is invalid.
    #[error(transparent)]
    Shared(#[from] ArgsError),
    /// The request timeout is outside its range.
    #[error(
        "--request-timeout must be between {MIN_REQUEST_TIMEOUT:?} and {MAX_REQUEST_TIMEOUT:?}, not {0:?}"
    )]
    RequestTimeout(Duration),
}

impl ApiServerOptions {
    /// The validated options of the HTTPS port.
    ///
    /// # Errors
    /// [`ApiServerOptionsError::Serving`], which names the flag.
    pub fn serving(&self) -> Result<ServingConfig, ApiServerOptionsError> {
        Ok(self.serving.config()?)
    }

    /// How long the controller keeps a reservation that is not accepted.
    ///
    /// # Errors
    /// [`ApiServerOptionsError::Shared`].
    pub fn reservation_timeout(&self) -> Result<Duration, ApiServerOptionsError> {
        Ok(self.reservations.timeout()?)
    }

    /// The deadline of each request to kube-apiserver.
    ///
    /// # Errors
    /// [`ApiServerOptionsError::RequestTimeout`].
    pub fn request_timeout(&self) -> Result<Duration, ApiServerOptionsError> {
        if (MIN_REQUEST_TIMEOUT..=MAX_REQUEST_TIMEOUT).contains(&self.request_timeout) {
            Ok(self.request_timeout)
        } else {
            Err(ApiServerOptionsError::RequestTimeout(self.request_timeout))
        }
    }
}

#[cfg(test)]
mod tests;
