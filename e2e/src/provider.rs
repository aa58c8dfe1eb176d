//! External clusters for `make e2e`. CI has none of them: this code is compiled there and its refusals are tested.
//! Developers with Docker or a cluster run the rest.
//!
//! | `E2E_CLUSTER` | What it is | What it needs |
//! | --- | --- | --- |
//! | `kind` | a kind cluster, created and deleted | Docker and kind |
//! | `k3s` | a k3s server in one container, created and deleted | Docker |
//! | `current` | the cluster of the kubeconfig, with the chart installed | a kubeconfig |
//!
//! Docker is used through its command-line tool: a library would add another HTTP stack to the dependencies, for six
//! commands.

mod current;
mod k3s;
mod kind;
mod tool;

use std::ffi::OsString;
use std::path::PathBuf;

use tool::Tool;
use vmpool_installation::node_install::VALUES;
use vmpool_installation::release::{Release, platform};
use vmpool_test_cluster::access::Access;
use vmpool_test_cluster::control_plane;
use vmpool_test_cluster::error::{Error, Result};
use vmpool_test_cluster::node::images::{self, Image};

/// The programs that run as Pods.
const PROGRAMS: [&str; 4] = ["vmpool-controller", "vmpool-webhook", "vmpool-apiserver", platform::SIMULATOR];

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
pub struct Surroundings {
    /// `PATH`.
    pub path: OsString,
    /// `KUBECONFIG`.
    pub kubeconfig: Option<OsString>,
    /// `HOME`.
    pub home: Option<PathBuf>,
}

impl Surroundings {
    /// The environment of this process.
    pub fn here() -> Self {
        Self {
            path: std::env::var_os("PATH").unwrap_or_default(),
            kubeconfig: std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty()),
            home: std::env::var_os("HOME").map(PathBuf::from),
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

    /// The provider with this name.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub fn named(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|provider| provider.name() == name);
        found.ok_or_else(|| unsupported(name))
    }

    fn lacks(self, what: impl Into<String>) -> Error {
        Error::Unavailable { reason: format!("E2E_CLUSTER={} needs {}", self.name(), what.into()) }
    }
}

/// Checks that the tests can start the cluster that `E2E_CLUSTER` requests: a node cluster is an embedded one with a node.
///
/// # Errors
/// [`Error::Unavailable`] for any other provider.
pub(crate) fn check_embedded() -> Result<()> {
    match std::env::var("E2E_CLUSTER") {
        Ok(name) if !["embedded", "node"].contains(&name.as_str()) => Err(unsupported(&name)),
        _ => Ok(()),
    }
}

fn unsupported(name: &str) -> Error {
    let reason = format!(
        "E2E_CLUSTER={name} is not supported here: tests start `embedded` and `node` by themselves, and `make e2e` takes \
         `kind`, `k3s` and `current`, too"
    );
    Error::Unavailable { reason }
}

/// An external cluster with the simulated platform and the chart.
pub struct Foreign {
    access: Access,
    keeper: Keeper,
    /// The data of kubectl and helm, and the kubeconfig.
    _home: tempfile::TempDir,
}

/// Deletes the cluster when it is dropped.
enum Keeper {
    Nobody,
    Kind(kind::Cluster),
    K3s(k3s::Server),
}

impl Foreign {
    /// Starts or uses a cluster of `provider`, and installs everything on it.
    ///
    /// # Errors
    /// [`Error::Unavailable`], on one line, for what this host lacks. The errors of the provider's tools, helm and
    /// the cluster; in that case the cluster is deleted.
    pub async fn start(provider: Provider, surroundings: &Surroundings) -> Result<Self> {
        let home = tempfile::Builder::new()
            .prefix("vmpool-e2e-")
            .tempdir()
            .map_err(Error::file("creating", std::env::temp_dir()))?;
        let kubeconfig = home.path().join("kubeconfig");
        let keeper = match provider {
            Provider::Current => {
                current::copy_kubeconfig(surroundings, &kubeconfig).await?;
                Keeper::Nobody
            }
            Provider::Kind => Keeper::Kind(kind::Cluster::create(surroundings, &kubeconfig, images).await?),
            Provider::K3s => Keeper::K3s(k3s::Server::start(surroundings, &kubeconfig, images).await?),
        };
        let access = Access {
            client: control_plane::client_of(&kubeconfig).await?,
            kubeconfig,
            kubectl: control_plane::kubectl()?,
            home: home.path().to_owned(),
            audit_log: None,
        };
        let foreign = Self { access, keeper, _home: home };
        match foreign.keeper {
            Keeper::Nobody => current::check(&foreign.access).await?,
            Keeper::Kind(_) | Keeper::K3s(_) => foreign.furnish().await?,
        }
        Ok(foreign)
    }

    /// The access to the cluster.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Deletes the cluster, if it was created by [`Foreign::start`].
    ///
    /// # Errors
    /// The error of the provider's tool.
    pub async fn stop(self) -> Result<()> {
        match self.keeper {
            Keeper::Nobody => Ok(()),
            Keeper::Kind(cluster) => cluster.delete().await,
            Keeper::K3s(server) => server.remove().await,
        }
    }

    async fn furnish(&self) -> Result<()> {
        let simulator = images::of_program(platform::SIMULATOR)?;
        platform::install(&self.access, &simulator.reference).await?;
        let values = self.access.home.join("values.yaml");
        std::fs::write(&values, VALUES).map_err(Error::file("writing", &values))?;
        Release::install(&self.access, &values).await.map(drop)
    }
}

fn images() -> Result<Vec<Image>> {
    PROGRAMS.into_iter().map(images::of_program).collect()
}

/// A unique name of this run.
fn unique_name() -> String {
    format!("vmpool-e2e-{}", std::process::id())
}

/// The Docker command, if it is installed and the daemon responds.
///
/// # Errors
/// [`Error::Unavailable`].
async fn docker(provider: Provider, surroundings: &Surroundings) -> Result<Tool> {
    let docker =
        Tool::find("docker", surroundings).ok_or_else(|| provider.lacks("docker, which is not on PATH"))?;
    match docker.run(&["version", "--format={{.Server.Version}}"]).await {
        Ok(_version) => Ok(docker),
        Err(Error::Command { stderr, .. }) => {
            let reason = stderr.lines().next().unwrap_or_default();
            Err(provider.lacks(format!("a running Docker daemon, but `docker version` fails: {reason}")))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
