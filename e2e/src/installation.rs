//! A cluster with everything that pools need: CRDs, the chart's accounts, the simulator, an image and a class.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cluster::{Cluster, Options, apply, workspace_root};
use crate::error::Result;
use crate::object::API_VERSION;
use crate::programs::{Accounts, Simulator};

/// The image that the pools of scenarios boot from, a ClusterVirtualImage.
pub const IMAGE: &str = "alpine";

/// The class of the machines of scenarios.
pub const CLASS: &str = "generic";

/// Options of a cluster with our CRDs and nothing else.
pub fn cluster_options(name: &str) -> Options {
    let manifests = vec![workspace_root().join("api/crds")];
    Options { name: name.to_owned(), manifests, ..Options::default() }
}

/// A cluster on which pools live. Controllers are started apart, by those who want one.
pub struct Installation {
    // Fields are dropped in this order: the simulator goes before the API server that it talks to.
    simulator: Simulator,
    accounts: Accounts,
    cluster: Arc<Cluster>,
}

impl Installation {
    /// Starts a cluster of its own and installs everything on it.
    ///
    /// # Errors
    /// What [`Cluster::start`] and [`Installation::onto`] say.
    pub async fn start(name: &str) -> Result<Self> {
        let cluster = Cluster::start(cluster_options(name)).await?;
        Self::onto(Arc::new(cluster)).await
    }

    /// Installs everything on a cluster that was started with [`cluster_options`].
    ///
    /// # Errors
    /// [`crate::Error::MissingProgram`] and [`crate::Error::MissingTool`] for what was not built, and whatever the
    /// manifests meet.
    pub async fn onto(cluster: Arc<Cluster>) -> Result<Self> {
        let installed: Result<_> = async {
            let accounts = install_without_simulator(&cluster).await?;
            let simulator = Simulator::start(&cluster).await?;
            Ok((accounts, simulator))
        }
        .await;
        // Whoever fails to install wants the logs.
        let (accounts, simulator) = installed.inspect_err(|_| cluster.keep_directory())?;
        tracing::info!("roles, image, class and simulator are in place");
        Ok(Self { simulator, accounts, cluster })
    }

    /// The control plane.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The simulator.
    pub fn simulator(&self) -> &Simulator {
        &self.simulator
    }

    /// What the chart grants.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Kills everything but the cluster. For owners that are never dropped.
    pub(crate) fn tear_down(&self) {
        self.simulator.kill();
    }

    /// Stops the simulator, then the cluster if nobody else uses it.
    ///
    /// # Errors
    /// As [`Cluster::stop`].
    pub async fn stop(self) -> Result<()> {
        let Self { simulator, accounts: _, cluster } = self;
        drop(simulator);
        match Arc::try_unwrap(cluster) {
            Ok(cluster) => cluster.stop().await,
            Err(_shared) => Ok(()),
        }
    }
}

/// Installs roles, image and class, on a cluster whose machines stay as they were created: nobody plays the platform.
///
/// # Errors
/// As [`Installation::onto`].
pub async fn install_without_simulator(cluster: &Cluster) -> Result<Accounts> {
    let accounts = Accounts::install(cluster).await?;
    apply(&cluster.admin(), &platform_objects(), None).await?;
    Ok(accounts)
}

/// What a platform's administrator provides.
fn platform_objects() -> Vec<Value> {
    vec![
        json!({
            "apiVersion": API_VERSION,
            "kind": "ClusterVirtualImage",
            "metadata": { "name": IMAGE },
            "spec": { "dataSource": { "type": "HTTP", "http": { "url": "https://images.example/alpine.qcow2" } } },
        }),
        json!({
            "apiVersion": API_VERSION,
            "kind": "VirtualMachineClass",
            "metadata": { "name": CLASS },
            "spec": {},
        }),
    ]
}
