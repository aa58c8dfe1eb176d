//! The path that all providers take to a cluster on which scenarios can run.

use std::time::Duration;

use vmpool_installation::node_install::VALUES;
use vmpool_installation::release::{HelmRelease, platform};
use vmpool_test_cluster::access::Access;
use vmpool_test_cluster::error::{Error, Result};
use vmpool_test_cluster::node::images::{self, ContainerImage};
use vmpool_test_cluster::{control_plane, poll};

use crate::{Environment, Provider, current, k3s, kind, requirements};

/// The programs that run as Pods.
const PROGRAMS: [&str; 4] = ["vmpool-controller", "vmpool-webhook", "vmpool-apiserver", platform::SIMULATOR];

/// How long the nodes of a new cluster may take to become ready.
const NODES_READY: Duration = Duration::from_mins(3);

/// An external cluster with a platform and the chart.
pub struct ExternalCluster {
    access: Access,
    owned: Owned,
    /// The data of kubectl and helm, and the kubeconfig.
    _home: tempfile::TempDir,
}

/// The cluster that this process has created, if it has. It is deleted when it is dropped.
enum Owned {
    /// The cluster is the user's.
    No,
    Kind(kind::KindCluster),
    K3s(Box<k3s::K3sServer>),
}

impl ExternalCluster {
    /// Obtains a cluster of `provider`. If the cluster is new, the platform simulator and the chart are
    /// installed.
    ///
    /// # Errors
    /// [`Error::Unavailable`], on one line, for a requirement that is not met. The errors of the provider's
    /// tools, helm and the cluster; in that case a new cluster is deleted.
    pub async fn start(provider: Provider, environment: &Environment) -> Result<Self> {
        let home = tempfile::Builder::new()
            .prefix("vmpool-e2e-")
            .tempdir()
            .map_err(Error::file("creating", std::env::temp_dir()))?;
        let kubeconfig = home.path().join("kubeconfig");
        let owned = match provider {
            Provider::Kind => Owned::Kind(kind::KindCluster::create(environment, &kubeconfig, images).await?),
            Provider::K3s => {
                let server = k3s::K3sServer::start(environment, home.path(), &kubeconfig, images).await?;
                Owned::K3s(Box::new(server))
            }
            Provider::Current => {
                current::copy_kubeconfig(environment, &kubeconfig).await?;
                Owned::No
            }
        };
        let access = Access {
            client: control_plane::client_of(&kubeconfig).await?,
            kubeconfig,
            kubectl: control_plane::kubectl_path()?,
            home: home.path().to_owned(),
            audit_log: None,
        };
        if !matches!(owned, Owned::No) {
            install(&access).await?;
        }
        requirements::check_cluster_requirements(provider, &access).await?;
        Ok(Self { access, owned, _home: home })
    }

    /// The access to the cluster.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Deletes the cluster, if it was created by [`ExternalCluster::start`].
    ///
    /// # Errors
    /// The error of kind or of Docker.
    pub async fn stop(self) -> Result<()> {
        match self.owned {
            Owned::No => Ok(()),
            Owned::Kind(cluster) => cluster.delete().await,
            Owned::K3s(server) => server.delete().await,
        }
    }
}

/// Installs the platform simulator and the chart on a new cluster.
async fn install(access: &Access) -> Result<()> {
    nodes_ready(access).await?;
    let simulator = images::of_program(platform::SIMULATOR)?;
    platform::install_platform(access, &simulator.reference).await?;
    let values = access.home.join("values.yaml");
    std::fs::write(&values, VALUES).map_err(Error::file("writing", &values))?;
    HelmRelease::install(access, &values).await.map(drop)
}

/// Waits for the nodes. `kubectl wait` alone fails if no node exists yet.
async fn nodes_ready(access: &Access) -> Result<()> {
    let wait = ["wait", "--for=condition=Ready", "node", "--all", "--timeout=10s"];
    poll::poll_until(
        || "the nodes of the new cluster are ready".to_owned(),
        NODES_READY,
        async || match access.kubectl(&wait).await {
            Ok(_ready) => Ok(Ok(())),
            Err(Error::Command { stderr, .. }) => Ok(Err(stderr)),
            Err(error) => Err(error),
        },
    )
    .await
}

/// The images of all programs. Building them takes minutes, so providers check their requirements first.
fn images() -> Result<Vec<ContainerImage>> {
    PROGRAMS.into_iter().map(images::of_program).collect()
}
