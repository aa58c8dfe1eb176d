//! The command line, and the checked configuration it becomes before anything starts.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use vmpool_engine::admission::{Known, Users};
use vmpool_platforms::dvp::admission::{Cluster, Settings};
use vmpool_runtime::args::{ArgsError, GateArgs, ProgramArgs};
use vmpool_runtime::certificates::{ServingArgs, ServingArgsError, ServingConfig};

use crate::callers::Callers;

/// Reviews creates, updates and scalings of pools for the API server, and refuses what no pool should become.
///
/// Run two replicas: they share nothing but the certificate and answer alike. Every flag can be set by the environment
/// variable named beside it.
#[derive(Debug, Parser)]
// The last of several equal flags counts, so that what a chart's user appends wins.
#[command(name = "vmpool-webhook", version, args_override_self = true)]
#[command(after_long_help = vmpool_feature_gates::help_text())]
pub struct Options {
    /// Feature gates.
    #[command(flatten)]
    pub gates: GateArgs,

    /// Full name of the user that removes named machines, for example system:serviceaccount:vmpool-system:vmpool-apiserver.
    /// Without it no pool with scaleDownPolicy Explicit ever shrinks.
    #[arg(long, env = "VMPOOL_REMOVAL_HANDLER", value_name = "USERNAME")]
    pub removal_handler: Option<String>,

    /// Full name of the controller's user, who may clear the record of machines that were asked to leave.
    #[arg(long, env = "VMPOOL_CONTROLLER_USER", value_name = "USERNAME")]
    pub controller_user: Option<String>,

    /// What the cluster can do.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Which clients are answered.
    #[command(flatten)]
    pub callers: CallerArgs,

    /// HTTPS.
    #[command(flatten)]
    pub serving: ServingArgs,

    /// What every program has.
    #[command(flatten)]
    pub program: ProgramArgs,
}

/// Flags about what no object of the cluster tells. What is unknown is allowed.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[command(next_help_heading = "The cluster")]
pub struct ClusterArgs {
    /// Whether there are software-defined networks; if not, machines have the Main network only
    #[arg(long, env = "VMPOOL_CLUSTER_SDN", value_enum, default_value_t, value_name = "ANSWER")]
    pub cluster_sdn: Told,

    /// Whether address ranges for machines are configured; if not, no machine can be on the Main network
    #[arg(long, env = "VMPOOL_CLUSTER_MACHINE_CIDRS", value_enum, default_value_t, value_name = "ANSWER")]
    pub cluster_machine_cidrs: Told,

    /// Whether GPUs can be passed to machines
    #[arg(long, env = "VMPOOL_CLUSTER_GPUS", value_enum, default_value_t, value_name = "ANSWER")]
    pub cluster_gpus: Told,

    /// Whether running machines can be resized and a vertical autoscaler does so; coreFraction Auto needs it
    #[arg(long, env = "VMPOOL_CLUSTER_IN_PLACE_RESIZE", value_enum, default_value_t, value_name = "ANSWER")]
    pub cluster_in_place_resize: Told,
}

/// Flags about the clients. Without them every client is answered, and for none of them an object of a namespace is read.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Clients")]
pub struct CallerArgs {
    /// Accept only clients with a certificate that an authority of this PEM file has signed, and follow its changes. The
    /// API server shows the certificate that its AdmissionConfiguration gives it for the webhook
    #[arg(long, env = "VMPOOL_CLIENT_CA_FILE", value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,

    /// Common names that the client's certificate may have; without any, all that the authorities have signed
    #[arg(long, env = "VMPOOL_CLIENT_NAMES", value_name = "NAME,...", value_delimiter = ',')]
    pub client_names: Vec<String>,
}

/// An answer about the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Told {
    /// It is so
    True,
    /// It is not
    False,
    /// Nobody knows: what depends on it is allowed
    #[default]
    Unknown,
}

impl From<Told> for Known {
    fn from(told: Told) -> Self {
        match told {
            Told::True => Self::Yes,
            Told::False => Self::No,
            Told::Unknown => Self::Unknown,
        }
    }
}

/// An option is not usable.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// A gate is unknown.
    #[error(transparent)]
    Shared(#[from] ArgsError),
    /// A user without a name would be everybody whom the API server does not name.
    #[error("--{0} must not be empty; leave it out if there is no such user")]
    Empty(&'static str),
    /// Names of certificates that no client is asked for.
    #[error("--client-names needs --client-ca-file, too")]
    NamesWithoutAuthority,
    /// The flags about HTTPS do not fit each other.
    #[error(transparent)]
    Serving(#[from] ServingArgsError),
    /// Both servers would take one port.
    #[error("--listen-address and --health-address are both {0}")]
    SameAddress(SocketAddr),
}

impl Options {
    /// What the rules are told.
    ///
    /// # Errors
    /// [`OptionsError::Empty`].
    pub fn settings(&self) -> Result<Settings, OptionsError> {
        for (flag, user) in
            [("removal-handler", &self.removal_handler), ("controller-user", &self.controller_user)]
        {
            if user.as_deref().is_some_and(|user| user.trim().is_empty()) {
                return Err(OptionsError::Empty(flag));
            }
        }
        let ClusterArgs { cluster_sdn, cluster_machine_cidrs, cluster_gpus, cluster_in_place_resize } =
            self.cluster;
        Ok(Settings {
            users: Users {
                removal_handler: self.removal_handler.clone(),
                controller: self.controller_user.clone(),
            },
            cluster: Cluster {
                sdn: cluster_sdn.into(),
                machine_cidrs: cluster_machine_cidrs.into(),
                gpus: cluster_gpus.into(),
                in_place_resize: cluster_in_place_resize.into(),
            },
        })
    }

    /// Which clients are answered.
    ///
    /// # Errors
    /// [`OptionsError::NamesWithoutAuthority`].
    pub fn callers(&self) -> Result<Callers, OptionsError> {
        let CallerArgs { client_ca_file, client_names } = &self.callers;
        match client_ca_file {
            Some(_) => Ok(Callers::Certified(client_names.iter().cloned().collect())),
            None if client_names.is_empty() => Ok(Callers::Anyone),
            None => Err(OptionsError::NamesWithoutAuthority),
        }
    }

    /// How HTTPS is served.
    ///
    /// # Errors
    /// [`OptionsError::Serving`] and [`OptionsError::SameAddress`].
    pub fn serving(&self) -> Result<ServingConfig, OptionsError> {
        let config = self.serving.config()?;
        if config.address == self.program.health.health_address && config.address.port() != 0 {
            return Err(OptionsError::SameAddress(config.address));
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests;
