//! The command line, and the checked configuration it becomes before anything starts.

use std::time::Duration;

use clap::Parser;
use vmpool_runtime::args::{ArgsError, GateArgs, LeaseArgs, ProgramArgs, ReservationArgs};

use crate::context::Settings;

/// Keeps pools of identical virtual machines: creates, replaces and removes machines and their disks until each pool
/// is as its owner wants it.
///
/// Run two replicas: one leads, the other takes over when the lease ends. Every flag can be set by the environment
/// variable named beside it.
#[derive(Debug, Parser)]
// The last of several equal flags counts, so that what a chart's user appends wins.
#[command(name = "vmpool-controller", version, args_override_self = true)]
#[command(after_long_help = vmpool_feature_gates::help_text())]
pub struct Options {
    /// Feature gates.
    #[command(flatten)]
    pub gates: GateArgs,

    /// Serve the pools of this namespace only. Default: all namespaces.
    #[arg(long, env = "VMPOOL_WATCH_NAMESPACE", value_name = "NAMESPACE")]
    pub watch_namespace: Option<String>,

    /// Pools that are worked on side by side.
    #[arg(long, env = "VMPOOL_WORKERS", default_value_t = 4, value_name = "COUNT")]
    pub workers: usize,

    /// Writes to the API server that may be under way at a time, over all pools.
    #[arg(long, env = "VMPOOL_MAX_IN_FLIGHT_WRITES", default_value_t = 64, value_name = "COUNT")]
    pub max_in_flight_writes: usize,

    /// Give a request up after this time; its effect is then found out. Must be shorter than the lease stays valid
    /// between two renewals.
    #[arg(long, env = "VMPOOL_REQUEST_DEADLINE", default_value = "8s", value_name = "DURATION",
          value_parser = vmpool_runtime::duration::parse)]
    pub request_deadline: Duration,

    /// Collect the events of a pool for this long before looking at it again.
    #[arg(long, env = "VMPOOL_DEBOUNCE", default_value = "100ms", value_name = "DURATION",
          value_parser = vmpool_runtime::duration::parse)]
    pub debounce: Duration,

    /// Reservations of named machines.
    #[command(flatten)]
    pub reservations: ReservationArgs,

    /// Mark a free disk for so long before it is deleted, so that whoever is about to use it is seen.
    #[arg(long, env = "VMPOOL_DISK_COLLECTION_GRACE", default_value = "30s", value_name = "DURATION",
          value_parser = vmpool_runtime::duration::parse)]
    pub disk_collection_grace: Duration,

    /// The lease of the leader.
    #[command(flatten)]
    pub lease: LeaseArgs,

    /// What every program has.
    #[command(flatten)]
    pub program: ProgramArgs,
}

/// An option is not usable.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// A count that must not be zero.
    #[error("--{0} must be at least 1")]
    Zero(&'static str),
    /// A write could outlive the lease.
    #[error(
        "--request-deadline {deadline:?} must be shorter than --lease-duration minus two renewals ({limit:?}), \
         or no write would ever be allowed to start"
    )]
    DeadlineBeyondLease {
        /// As given.
        deadline: Duration,
        /// What it must stay below.
        limit: Duration,
    },
    /// A gate is unknown, the options of the lease do not fit each other, or reservations would not last.
    #[error(transparent)]
    Shared(#[from] ArgsError),
}

impl Options {
    /// The bounds, checked.
    ///
    /// # Errors
    /// One line that names the flag and what would be right.
    pub fn settings(&self) -> Result<Settings, OptionsError> {
        if self.workers == 0 {
            return Err(OptionsError::Zero("workers"));
        }
        if self.max_in_flight_writes == 0 {
            return Err(OptionsError::Zero("max-in-flight-writes"));
        }
        let limit = self.lease.lease_duration.saturating_sub(self.lease.lease_renew_interval * 2);
        if self.request_deadline >= limit {
            return Err(OptionsError::DeadlineBeyondLease { deadline: self.request_deadline, limit });
        }
        Ok(Settings {
            workers: self.workers,
            writes_in_flight: self.max_in_flight_writes,
            request_deadline: self.request_deadline,
            debounce: self.debounce,
            collection_grace: self.disk_collection_grace,
            reservation_timeout: self.reservations.timeout()?,
            ..Settings::default()
        })
    }
}

#[cfg(test)]
mod tests;
