//! Flags that several binaries share. Each group becomes a checked configuration before anything starts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use vmpool_feature_gates::{FeatureGates, Registry};

use crate::duration;
use crate::env::Env;
use crate::lease::LeaseConfig;
use crate::telemetry::{self, LogFormat, TelemetryError};

/// The shortest lease: a shorter one could not be told from a released one.
const SHORTEST_LEASE: Duration = Duration::from_secs(2);

/// The shortest life of a reservation: some round trips lie between it and its acceptance.
const SHORTEST_RESERVATION: Duration = Duration::from_secs(1);

/// How many renewals must fit into a lease, so that one lost answer does not cost leadership.
const RENEWALS_PER_LEASE: u32 = 3;

/// The flag about feature gates.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct GateArgs {
    /// Switch features on or off, for example VirtualMachinePool=true. The gates are listed below.
    #[arg(long, env = "VMPOOL_FEATURE_GATES", default_value = "", value_name = "GATE=BOOL,...")]
    pub feature_gates: String,
}

impl GateArgs {
    /// The gates, checked.
    ///
    /// # Errors
    /// [`ArgsError::Gates`].
    pub fn gates(&self) -> Result<FeatureGates, ArgsError> {
        Ok(FeatureGates::parse(&Registry::of_this_build()?, &self.feature_gates)?)
    }
}

/// The flags that every program has at the end of its own.
#[derive(Debug, Clone, clap::Args)]
pub struct ProgramArgs {
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

/// Flags about logs.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Logs")]
pub struct LogArgs {
    /// How log lines look: `text` for people, `json` for machines
    #[arg(long, env = "VMPOOL_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,

    /// What to log: off, error, warn, info, debug or trace, also per target, as in `info,vmpool_controller=debug`
    #[arg(
        long,
        env = "VMPOOL_LOG_LEVEL",
        value_name = "FILTER",
        default_value = "info,kube_client::client::builder=off",
        value_parser = log_level
    )]
    pub log_level: String,
}

impl LogArgs {
    /// Sets up the logs of the process.
    ///
    /// # Errors
    /// [`TelemetryError`].
    pub fn init(&self) -> Result<(), TelemetryError> {
        telemetry::init(self.log_format, &self.log_level)
    }
}

/// Flags about the health endpoints.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Health")]
pub struct HealthArgs {
    /// Where to serve /livez, /readyz and /metrics; port 0 takes a free one and logs it
    #[arg(long, env = "VMPOOL_HEALTH_ADDRESS", value_name = "IP:PORT", default_value = "0.0.0.0:8080")]
    pub health_address: SocketAddr,
}

/// Flags about the way to the API server.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Kubernetes API")]
pub struct ClientArgs {
    /// The kubeconfig to use; without it $KUBECONFIG, then ~/.kube/config, then the pod's ServiceAccount
    #[arg(long, env = "VMPOOL_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

/// Flags about machines that are reserved on their pool, to be removed by name.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Removal by name")]
pub struct ReservationArgs {
    /// Drop a reservation that nobody accepts after this time; the same in controller and API server
    #[arg(long, env = "VMPOOL_RESERVATION_TIMEOUT", value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    pub reservation_timeout: Duration,
}

impl ReservationArgs {
    /// The time, checked.
    ///
    /// # Errors
    /// [`ArgsError::Reservation`].
    pub fn timeout(&self) -> Result<Duration, ArgsError> {
        if self.reservation_timeout < SHORTEST_RESERVATION {
            return Err(ArgsError::Reservation(self.reservation_timeout));
        }
        Ok(self.reservation_timeout)
    }
}

/// Flags about leader election.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Leader election")]
pub struct LeaseArgs {
    /// Namespace of the Lease; without it the namespace that is served alone, or that of the kubeconfig or pod
    #[arg(long, env = "VMPOOL_LEASE_NAMESPACE", value_name = "NAMESPACE")]
    pub lease_namespace: Option<String>,

    /// Name of the Lease
    #[arg(long, env = "VMPOOL_LEASE_NAME", value_name = "NAME", default_value = "vmpool-controller")]
    pub lease_name: String,

    /// How long others wait for a leader that has fallen silent, in whole seconds
    #[arg(long, env = "VMPOOL_LEASE_DURATION", value_name = "DURATION", default_value = "15s", value_parser = duration::parse)]
    pub lease_duration: Duration,

    /// How often the leader renews; at most a third of the lease's duration
    #[arg(long, env = "VMPOOL_LEASE_RENEW_INTERVAL", value_name = "DURATION", default_value = "3s", value_parser = duration::parse)]
    pub lease_renew_interval: Duration,

    /// Name of this process in the Lease; without it the host's name and a random suffix
    #[arg(long, env = "VMPOOL_IDENTITY", value_name = "NAME")]
    pub identity: Option<String>,
}

/// What is wrong with flags that are right one by one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgsError {
    /// `--feature-gates` is wrong.
    #[error("--feature-gates: {0}")]
    Gates(#[from] vmpool_feature_gates::ParseError),
    /// A name is empty.
    #[error("--{0} must not be empty")]
    Empty(&'static str),
    /// The Lease stores whole seconds.
    #[error("--lease-duration must be in whole seconds and at least {SHORTEST_LEASE:?}, not {0:?}")]
    LeaseDuration(Duration),
    /// A reservation would not last until it can be accepted.
    #[error("--reservation-timeout must be at least {SHORTEST_RESERVATION:?}, not {0:?}")]
    Reservation(Duration),
    /// One lost answer would cost leadership.
    #[error(
        "--lease-renew-interval must be between 100ms and a third of --lease-duration, which is {limit:?}, not {interval:?}"
    )]
    RenewInterval {
        /// The wanted interval.
        interval: Duration,
        /// The longest that suits the duration.
        limit: Duration,
    },
}

impl LeaseArgs {
    /// Checks the flags and fills in what depends on the surroundings: `namespace` is the client's default one.
    ///
    /// # Errors
    /// [`ArgsError`], one line that names the flag.
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
        if lease_duration.subsec_nanos() != 0 || *lease_duration < SHORTEST_LEASE {
            return Err(ArgsError::LeaseDuration(*lease_duration));
        }
        let limit = *lease_duration / RENEWALS_PER_LEASE;
        if *lease_renew_interval > limit || *lease_renew_interval < Duration::from_millis(100) {
            return Err(ArgsError::RenewInterval { interval: *lease_renew_interval, limit });
        }
        Ok(LeaseConfig {
            duration: *lease_duration,
            renew_interval: *lease_renew_interval,
            // So that a renewal without an answer is repeated when the next would have been due.
            request_deadline: *lease_renew_interval,
            ..LeaseConfig::new(namespace, lease_name, identity)
        })
    }
}

/// The host's name, which in a pod is the pod's, and a suffix, because a restarted container has the same host.
fn default_identity(env: &Env) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}_{:016x}", env.random())
}

fn log_level(text: &str) -> Result<String, String> {
    match telemetry::parse_filter(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(telemetry::with_causes(&error)),
    }
}

#[cfg(test)]
mod tests;
