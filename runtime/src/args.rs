//! Flags that several programs share. Each group is validated before the servers start.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use vmpool_feature_gates::{FeatureGates, GateRegistry};

use crate::duration;
use crate::env::Env;
use crate::lease::LeaseConfig;
use crate::telemetry::{self, LogFormat, TelemetryError};

/// The minimum duration of a lease. A shorter one could not be distinguished from a released one.
const MIN_LEASE: Duration = Duration::from_secs(2);

/// The minimum lifetime of a reservation. A removal needs several round trips between reservation and
/// acceptance.
const MIN_RESERVATION: Duration = Duration::from_secs(1);

/// The minimum number of renewal intervals in the duration of a lease, so that one lost response does not end
/// leadership.
const RENEWALS_PER_LEASE: u32 = 3;

/// The flag of feature gates.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct GateArgs {
    /// Features to turn on or off, for example VirtualMachinePool=true. The gates are listed below.
    #[arg(long, env = "VMPOOL_FEATURE_GATES", default_value = "", value_name = "GATE=BOOL,...")]
    pub feature_gates: String,
}

impl GateArgs {
    /// The validated gates.
    ///
    /// # Errors
    /// [`ArgsError::Gates`].
    pub fn gates(&self) -> Result<FeatureGates, ArgsError> {
        Ok(FeatureGates::parse(&GateRegistry::of_this_build()?, &self.feature_gates)?)
    }
}

/// Which program processes instance types and preferences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum InstancetypeMode {
    /// KubeVirt does
    #[default]
    Coexist,
    /// vmpool does
    Standalone,
}

/// The flags that all programs have.
#[derive(Debug, Clone, clap::Args)]
pub struct ProgramArgs {
    /// Client of the API server.
    #[command(flatten)]
    pub client: ClientArgs,

    /// Health endpoints.
    #[command(flatten)]
    pub health: HealthArgs,

    /// Logs.
    #[command(flatten)]
    pub log: LogArgs,
}

/// Flags of logs.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Logs")]
pub struct LogArgs {
    /// Format of log lines: `text` for users, `json` for programs
    #[arg(long, env = "VMPOOL_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,

    /// Log level: off, error, warn, info, debug or trace. It can be set for each target:
    /// `info,vmpool_controller=debug`
    #[arg(
        long,
        env = "VMPOOL_LOG_LEVEL",
        value_name = "FILTER",
        default_value = "info,kube_client::client::builder=off",
        value_parser = parse_log_level
    )]
    pub log_level: String,
}

impl LogArgs {
    /// Sets up logging for the process.
    ///
    /// # Errors
    /// [`TelemetryError`].
    pub fn init(&self) -> Result<(), TelemetryError> {
        telemetry::init_logging(self.log_format, &self.log_level)
    }
}

/// Flags of the health endpoints.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Health")]
pub struct HealthArgs {
    /// Address and port for /livez, /readyz and /metrics. Port 0 selects a free port, which is logged
    #[arg(long, env = "VMPOOL_HEALTH_ADDRESS", value_name = "IP:PORT", default_value = "0.0.0.0:8080")]
    pub health_address: SocketAddr,

    /// Whether /metrics requires a bearer token whose user may get the URL /metrics. The program creates a
    /// TokenReview and a SubjectAccessReview, and uses the result for up to a minute
    #[arg(
        long,
        env = "VMPOOL_METRICS_AUTHORIZATION",
        value_name = "BOOL",
        action = clap::ArgAction::Set,
        default_value_t = false,
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true
    )]
    pub metrics_authorization: bool,
}

/// Flags of the client of the API server.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Kubernetes API")]
pub struct ClientArgs {
    /// Kubeconfig file. The default is $KUBECONFIG, then ~/.kube/config, then the ServiceAccount of the pod
    #[arg(long, env = "VMPOOL_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

/// Flags of reservations for targeted removal.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Targeted removal")]
pub struct ReservationArgs {
    /// How long a reservation lasts that is not accepted. Use the same value for controller and API server
    #[arg(long, env = "VMPOOL_RESERVATION_TIMEOUT", value_name = "DURATION", default_value = "30s", value_parser = duration::parse_duration)]
    pub reservation_timeout: Duration,
}

impl ReservationArgs {
    /// The validated duration.
    ///
    /// # Errors
    /// [`ArgsError::Reservation`].
    pub fn timeout(&self) -> Result<Duration, ArgsError> {
        if self.reservation_timeout < MIN_RESERVATION {
            return Err(ArgsError::Reservation(self.reservation_timeout));
        }
        Ok(self.reservation_timeout)
    }
}

/// Flags of leader election.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Leader election")]
pub struct LeaseArgs {
    /// Namespace of the Lease. The default is the only namespace that the controller serves, or that of the
    /// kubeconfig or pod
    #[arg(long, env = "VMPOOL_LEASE_NAMESPACE", value_name = "NAMESPACE")]
    pub lease_namespace: Option<String>,

    /// Name of the Lease
    #[arg(long, env = "VMPOOL_LEASE_NAME", value_name = "NAME", default_value = "vmpool-controller")]
    pub lease_name: String,

    /// How long standby replicas wait before they replace an unresponsive leader, in whole seconds
    #[arg(long, env = "VMPOOL_LEASE_DURATION", value_name = "DURATION", default_value = "15s", value_parser = duration::parse_duration)]
    pub lease_duration: Duration,

    /// Interval at which the leader renews the lease, at most a third of the lease duration
    #[arg(long, env = "VMPOOL_LEASE_RENEW_INTERVAL", value_name = "DURATION", default_value = "3s", value_parser = duration::parse_duration)]
    pub lease_renew_interval: Duration,

    /// Identity of this process in the Lease. The default is the host name with a random suffix
    #[arg(long, env = "VMPOOL_IDENTITY", value_name = "NAME")]
    pub identity: Option<String>,
}

/// Why flags are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgsError {
    /// `--feature-gates` is invalid.
    #[error("--feature-gates: {0}")]
    Gates(#[from] vmpool_feature_gates::GateParseError),
    /// A value is empty.
    #[error("--{0} must not be empty")]
    Empty(&'static str),
    /// The lease duration is too short or has fractions of a second, which the Lease cannot store.
    #[error("--lease-duration must be in whole seconds and at least {MIN_LEASE:?}, not {0:?}")]
    LeaseDuration(Duration),
    /// The reservation timeout is too short.
    #[error("--reservation-timeout must be at least {MIN_RESERVATION:?}, not {0:?}")]
    Reservation(Duration),
    /// The renewal interval is outside its range.
    #[error(
        "--lease-renew-interval must be between 100ms and a third of --lease-duration, which is {limit:?}, not {interval:?}"
    )]
    RenewInterval {
        /// The interval.
        interval: Duration,
        /// The maximum for the lease duration.
        limit: Duration,
    },
}

impl LeaseArgs {
    /// Validates the flags and adds defaults. `namespace` is the default namespace of the client.
    ///
    /// # Errors
    /// [`ArgsError`], which names the flag.
    pub fn config(&self, env: &Env, namespace: &str) -> Result<LeaseConfig, ArgsError> {
        let Self { lease_namespace, lease_name, lease_duration, lease_renew_interval, identity } = self;
        let namespace = lease_namespace.as_deref().unwrap_or(namespace);
        let identity = identity.clone().unwrap_or_else(|| default_identity(env));
        for (flag, value) in
            [("lease-namespace", namespace), ("lease-name", lease_name), ("identity", &identity)]
        {
            if value.trim().is_empty() {
                return Err(ArgsError::Empty(flag));
            }
        }
        if lease_duration.subsec_nanos() != 0 || *lease_duration < MIN_LEASE {
            return Err(ArgsError::LeaseDuration(*lease_duration));
        }
        let limit = *lease_duration / RENEWALS_PER_LEASE;
        if *lease_renew_interval > limit || *lease_renew_interval < Duration::from_millis(100) {
            return Err(ArgsError::RenewInterval { interval: *lease_renew_interval, limit });
        }
        Ok(LeaseConfig {
            duration: *lease_duration,
            renew_interval: *lease_renew_interval,
            // A renewal without a response is retried when the next renewal is due.
            request_deadline: *lease_renew_interval,
            ..LeaseConfig::new(namespace, lease_name, identity)
        })
    }
}

/// The host name, which in a pod is the name of the pod, with a random suffix, because a restarted container
/// has the same host name.
fn default_identity(env: &Env) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}_{:016x}", env.random())
}

/// Why the value of `--log-level` is invalid. clap prints only the text of an error, so the text contains
/// the causes.
#[derive(Debug, thiserror::Error)]
#[error("{}", telemetry::with_causes(.0))]
struct LogLevelError(#[source] TelemetryError);

fn parse_log_level(text: &str) -> Result<String, LogLevelError> {
    telemetry::parse_filter(text).map(|_| text.to_owned()).map_err(LogLevelError)
}

#[cfg(test)]
mod tests;
