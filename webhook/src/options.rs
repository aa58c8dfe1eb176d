//! Command-line options and their validation.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use vmpool_diskimage::source::{SourceUrl, UrlError};
use vmpool_engine::admission::PrivilegedUsers;
use vmpool_platforms::admission::{AdmissionSettings, CapabilityState, ClusterCapabilities};
use vmpool_runtime::args::{ArgsError, GateArgs, InstancetypeMode, ProgramArgs};
use vmpool_runtime::certificates::{ServingArgs, ServingArgsError, ServingConfig};

use crate::callers::Callers;

/// Validates pools, disk images, and instance types for the API server, and rejects invalid changes.
///
/// Run at least two replicas. They share only the certificate and give the same responses. Each flag can also
/// be set by the environment variable beside it.
#[derive(Debug, Parser)]
// If a flag is repeated, the last value is used, so that arguments that a user of the chart appends take
// effect.
#[command(name = "vmpool-webhook", version, args_override_self = true)]
#[command(after_long_help = vmpool_feature_gates::help_text())]
pub struct WebhookOptions {
    /// Feature gates.
    #[command(flatten)]
    pub gates: GateArgs,

    /// User name of the API server for removals, for example
    /// system:serviceaccount:vmpool-system:vmpool-apiserver. Without it, the replicas of pools with
    /// scaleDownPolicy Explicit cannot be reduced.
    #[arg(long, env = "VMPOOL_REMOVAL_HANDLER", value_name = "USERNAME")]
    pub removal_handler: Option<String>,

    /// User name of the controller, which may remove entries from the removal record.
    #[arg(long, env = "VMPOOL_CONTROLLER_USER", value_name = "USERNAME")]
    pub controller_user: Option<String>,

    /// URLs at which the URL of every disk image must begin, with the feature gate DiskImages. Without it,
    /// all URLs are allowed, except those with local addresses.
    #[arg(
        long,
        env = "VMPOOL_DISK_IMAGE_ALLOWED_URL_PREFIXES",
        value_name = "URL,...",
        value_delimiter = ','
    )]
    pub disk_image_allowed_url_prefixes: Vec<String>,

    /// Whether to validate instance types, preferences, and the machines that name them. Use Standalone only
    /// in a cluster without KubeVirt's own webhooks.
    #[arg(
        long,
        env = "VMPOOL_INSTANCETYPE_MODE",
        value_enum,
        default_value_t,
        ignore_case = true,
        value_name = "MODE"
    )]
    pub instancetype_mode: InstancetypeMode,

    /// Capabilities of the cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Accepted clients.
    #[command(flatten)]
    pub callers: CallerArgs,

    /// HTTPS.
    #[command(flatten)]
    pub serving: ServingArgs,

    /// Options that all programs have.
    #[command(flatten)]
    pub program: ProgramArgs,
}

/// Cluster capabilities that cannot be detected through the API. With `unknown`, the webhook skips the check.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[command(next_help_heading = "The cluster")]
pub struct ClusterArgs {
    /// Whether the cluster has software-defined networks. With false, machines can only use the Main network
    #[arg(long, env = "VMPOOL_CLUSTER_SDN", value_enum, default_value_t, value_name = "ANSWER")]
    pub cluster_sdn: Capability,

    /// Whether address ranges for machines are configured. With false, machines cannot use the Main network
    #[arg(long, env = "VMPOOL_CLUSTER_MACHINE_CIDRS", value_enum, default_value_t, value_name = "ANSWER")]
    pub cluster_machine_cidrs: Capability,

    /// Whether machines can use GPUs
    #[arg(long, env = "VMPOOL_CLUSTER_GPUS", value_enum, default_value_t, value_name = "ANSWER")]
    pub cluster_gpus: Capability,

    /// Whether a vertical autoscaler can resize running machines. coreFraction Auto requires it
    #[arg(long, env = "VMPOOL_CLUSTER_IN_PLACE_RESIZE", value_enum, default_value_t, value_name = "ANSWER")]
    pub cluster_in_place_resize: Capability,
}

/// Accepted clients. Without these flags, the webhook accepts all clients and reads no objects of namespaces
/// for them.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Clients")]
pub struct CallerArgs {
    /// Accept only clients with a certificate that an authority in this PEM file has signed. Changes of the
    /// file take effect without a restart. The API server uses the certificate that its
    /// AdmissionConfiguration contains for the webhook
    #[arg(long, env = "VMPOOL_CLIENT_CA_FILE", value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,

    /// Accepted common names of client certificates. Without names, all certificates of the authorities are
    /// accepted
    #[arg(long, env = "VMPOOL_CLIENT_NAMES", value_name = "NAME,...", value_delimiter = ',')]
    pub client_names: Vec<String>,
}

/// Whether the cluster has a capability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Capability {
    /// The cluster has the capability
    True,
    /// The cluster does not have the capability
    False,
    /// Skip the checks that depend on the capability
    #[default]
    Unknown,
}

impl From<Capability> for CapabilityState {
    fn from(capability: Capability) -> Self {
        match capability {
            Capability::True => Self::Yes,
            Capability::False => Self::No,
            Capability::Unknown => Self::Unknown,
        }
    }
}

/// Why an option is invalid.
#[derive(Debug, thiserror::Error)]
pub enum WebhookOptionsError {
    /// A feature gate is invalid.
    #[error(transparent)]
    Shared(#[from] ArgsError),
    /// A user name is empty. Every request without a user name would match it.
    #[error("--{0} must not be empty; omit the flag if there is no such user")]
    Empty(&'static str),
    /// A URL of disk images cannot be read.
    #[error("--disk-image-allowed-url-prefixes: {text}")]
    Prefix {
        /// The value.
        text: String,
        /// The cause.
        source: UrlError,
    },
    /// Common names without certificate authorities.
    #[error("--client-names requires --client-ca-file")]
    NamesWithoutAuthority,
    /// The flags for HTTPS are invalid.
    #[error(transparent)]
    Serving(#[from] ServingArgsError),
    /// Both servers would use one port.
    #[error("--listen-address and --health-address are both {0}; use different ports")]
    SameAddress(SocketAddr),
}

impl WebhookOptions {
    /// The settings of the rules.
    ///
    /// # Errors
    /// [`WebhookOptionsError::Empty`].
    pub fn settings(&self) -> Result<AdmissionSettings, WebhookOptionsError> {
        for (flag, user) in
            [("removal-handler", &self.removal_handler), ("controller-user", &self.controller_user)]
        {
            if user.as_deref().is_some_and(|user| user.trim().is_empty()) {
                return Err(WebhookOptionsError::Empty(flag));
            }
        }
        let ClusterArgs { cluster_sdn, cluster_machine_cidrs, cluster_gpus, cluster_in_place_resize } =
            self.cluster;
        Ok(AdmissionSettings {
            users: PrivilegedUsers {
                removal_handler: self.removal_handler.clone(),
                controller: self.controller_user.clone(),
            },
            cluster: ClusterCapabilities {
                sdn: cluster_sdn.into(),
                machine_cidrs: cluster_machine_cidrs.into(),
                gpus: cluster_gpus.into(),
                in_place_resize: cluster_in_place_resize.into(),
            },
        })
    }

    /// The URLs at which the URL of every image must begin.
    ///
    /// # Errors
    /// [`WebhookOptionsError::Prefix`].
    pub fn allowed_urls(&self) -> Result<Vec<SourceUrl>, WebhookOptionsError> {
        let parse = |text: &String| {
            SourceUrl::parse(text)
                .map_err(|source| WebhookOptionsError::Prefix { text: text.clone(), source })
        };
        self.disk_image_allowed_url_prefixes.iter().map(parse).collect()
    }

    /// The accepted clients.
    ///
    /// # Errors
    /// [`WebhookOptionsError::NamesWithoutAuthority`].
    pub fn callers(&self) -> Result<Callers, WebhookOptionsError> {
        let CallerArgs { client_ca_file, client_names } = &self.callers;
        match client_ca_file {
            Some(_) => Ok(Callers::Certified(client_names.iter().cloned().collect())),
            None if client_names.is_empty() => Ok(Callers::Any),
            None => Err(WebhookOptionsError::NamesWithoutAuthority),
        }
    }

    /// The validated options of the HTTPS port.
    ///
    /// # Errors
    /// [`WebhookOptionsError::Serving`] and [`WebhookOptionsError::SameAddress`].
    pub fn serving(&self) -> Result<ServingConfig, WebhookOptionsError> {
        let config = self.serving.config()?;
        if config.address == self.program.health.health_address && config.address.port() != 0 {
            return Err(WebhookOptionsError::SameAddress(config.address));
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests;
