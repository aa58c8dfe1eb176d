//! The providers of clusters, and what they need.

use std::ffi::OsString;
use std::path::PathBuf;

use vmpool_e2e::harness::unsupported_cluster_error;
use vmpool_test_cluster::error::{Error, Result};

/// A provider of external clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// A kind cluster.
    Kind,
    /// A k3s server in a container.
    K3s,
    /// The cluster of the user's kubeconfig.
    Current,
}

/// Environment variables that determine where tools and kubeconfigs are found.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// `PATH`.
    pub path: OsString,
    /// `KUBECONFIG`.
    pub kubeconfig: Option<OsString>,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// `E2E_K3S_IMAGE`, an alternative image of k3s such as `rancher/k3s:v1.33.1-k3s1`.
    pub k3s_image: Option<String>,
}

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Self {
        Self {
            path: std::env::var_os("PATH").unwrap_or_default(),
            kubeconfig: std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty()),
            home: std::env::var_os("HOME").map(PathBuf::from),
            k3s_image: std::env::var("E2E_K3S_IMAGE").ok().filter(|value| !value.is_empty()),
        }
    }
}

impl Provider {
    /// All providers.
    pub const ALL: [Self; 3] = [Self::Kind, Self::K3s, Self::Current];

    /// The name in `E2E_CLUSTER`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kind => "kind",
            Self::K3s => "k3s",
            Self::Current => "current",
        }
    }

    /// What the provider needs, as part of a sentence.
    pub fn needs(self) -> &'static str {
        match self {
            Self::Kind => "Docker and kind",
            Self::K3s => "Docker",
            Self::Current => "a kubeconfig of a cluster with the chart installed",
        }
    }

    /// The provider with this name.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with the known names.
    pub fn named(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|provider| provider.name() == name);
        found.ok_or_else(|| unsupported_cluster_error(name))
    }

    /// The error for a missing requirement: what the provider needs, and the reason why it is not met, on one
    /// line.
    pub(crate) fn unavailable(self, reason: &str) -> Error {
        let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
        Error::Unavailable { reason: format!("E2E_CLUSTER={} needs {}: {reason}", self.name(), self.needs()) }
    }
}

/// A name for the cluster or container of this run.
pub(crate) fn unique_name() -> String {
    format!("vmpool-e2e-{}", std::process::id())
}
