//! Clusters of other people, for `make e2e`. CI has none of them: what is here compiles, its refusals are tested, and
//! whoever has Docker or a cluster runs the rest.
//!
//! | `E2E_CLUSTER` | What it is | What it needs |
//! | --- | --- | --- |
//! | `kind` | a cluster of kind, made and removed | Docker and kind |
//! | `k3s` | a server of k3s in one container, made and removed | Docker |
//! | `current` | the cluster of the kubeconfig, which has the chart already | a kubeconfig |
//!
//! Docker is asked through its own command: a library for it would bring another HTTP stack into the tree, for what are
//! six commands.

mod current;
mod k3s;
mod kind;
mod tool;

use std::ffi::OsString;
use std::path::PathBuf;

use crate::access::Access;
use crate::cluster;
use crate::error::{Error, Result};
use crate::node::images::{self, Image};
use crate::node::install::VALUES;
use crate::release::{Release, platform};

use tool::Tool;

/// The programs that run as Pods.
const PROGRAMS: [&str; 4] = ["vmpool-controller", "vmpool-webhook", "vmpool-apiserver", platform::SIMULATOR];

/// Whose cluster it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// A cluster of kind.
    Kind,
    /// A server of k3s in a container.
    K3s,
    /// The cluster of the user's kubeconfig.
    Current,
}

/// Where tools and kubeconfigs are looked for.
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
    /// Those of this process.
    pub fn here() -> Self {
        Self {
            path: std::env::var_os("PATH").unwrap_or_default(),
            kubeconfig: std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty()),
            home: std::env::var_os("HOME").map(PathBuf::from),
        }
    }
}

impl Provider {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Kind, Self::K3s, Self::Current];

    /// As `E2E_CLUSTER` names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kind => "kind",
            Self::K3s => "k3s",
            Self::Current => "current",
        }
    }

    /// The one of this name.
    ///
    /// # Errors
    /// [`Error::UnknownProvider`].
    pub fn named(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|provider| provider.name() == name);
        found.ok_or_else(|| Error::UnknownProvider { name: name.to_owned() })
    }

    fn lacks(self, what: impl Into<String>) -> Error {
        Error::ProviderLacks { provider: self.name(), what: what.into() }
    }
}

/// A cluster with the platform, played by the simulator, and the chart, for a while.
pub struct Foreign {
    access: Access,
    keeper: Keeper,
    /// What kubectl and helm keep, and the kubeconfig.
    _home: tempfile::TempDir,
}

/// Who takes the cluster away. Dropping it does.
enum Keeper {
    Nobody,
    Kind(kind::Cluster),
    K3s(k3s::Server),
}

impl Foreign {
    /// Has a cluster of `provider` with everything on it.
    ///
    /// # Errors
    /// [`Error::ProviderLacks`], one line, for what this machine lacks. Whatever the provider's tools, helm and the cluster
    /// say; the cluster is taken away then.
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
            client: cluster::client_of(&kubeconfig).await?,
            kubeconfig,
            kubectl: cluster::kubectl()?,
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

    /// The way in.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Takes the cluster away, if it was made for us.
    ///
    /// # Errors
    /// What the provider's tool says.
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

/// A name that no other run has.
fn unique_name() -> String {
    format!("vmpool-e2e-{}", std::process::id())
}

/// Docker, if it is there and answers.
///
/// # Errors
/// [`Error::ProviderLacks`].
async fn docker(provider: Provider, surroundings: &Surroundings) -> Result<Tool> {
    let docker =
        Tool::find("docker", surroundings).ok_or_else(|| provider.lacks("docker, which is not on PATH"))?;
    match docker.run(&["version", "--format={{.Server.Version}}"]).await {
        Ok(_version) => Ok(docker),
        Err(Error::Command { stderr, .. }) => {
            let reason = stderr.lines().next().unwrap_or_default();
            Err(provider.lacks(format!("a Docker that answers, and `docker version` says: {reason}")))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
