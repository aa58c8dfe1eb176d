//! A cluster with the requirements of pools: CRDs, the chart's accounts, the simulator, an image and a class.
//! A guarded installation also has the webhook and the aggregated API.

mod guard;

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use vmpool_api::v1alpha2::API_VERSION;

pub(crate) use guard::until_pools_are_validated;
pub use guard::{CLASS, GuardOptions, GuardServices, UNGUARDED, connect_services};

use vmpool_test_cluster::control_plane::{AuditLog, ControlPlane, ControlPlaneOptions, apply_manifests};
use vmpool_test_cluster::error::{Error, Result};

use crate::programs::{Accounts, Chart, DVP_ONLY, Simulator};
use crate::workspace_root;

/// The ClusterVirtualImage from which pools of scenarios boot.
pub const IMAGE: &str = "alpine";

/// The audit rules of clusters on which invariants are checked.
///
/// Writes to pools are logged with their body, to check which fields the controller writes, and deletions
/// with their options, which contain the UID.
pub const AUDIT_RULES: &str = r#"
- level: Request
  verbs: [create, update, patch]
  resources:
  - group: virtualization.deckhouse.io
    resources: ["virtualmachinepools", "virtualmachinepools/*"]
  - group: pool.kubevirt.io
    resources: ["virtualmachinepools", "virtualmachinepools/*"]
- level: Request
  users: ["system:serviceaccount:vmpool-system:vmpool-controller"]
  verbs: [patch]
  resources:
  - group: kubevirt.io
    resources: ["virtualmachines"]
- level: Request
  verbs: [delete]
  resources:
  - group: virtualization.deckhouse.io
  - group: kubevirt.io
  - group: cdi.kubevirt.io
"#;

/// Options of a cluster with the project's CRDs and nothing else.
pub fn cluster_options(name: &str) -> ControlPlaneOptions {
    let manifests = vec![workspace_root().join("api/crds")];
    let audit = AuditLog::WithRules(AUDIT_RULES.to_owned());
    ControlPlaneOptions { name: name.to_owned(), manifests, audit, ..ControlPlaneOptions::default() }
}

/// The CRDs of KubeVirt pools, and those of KubeVirt and CDI: add them to [`ControlPlaneOptions::manifests`].
pub fn kubevirt_definitions() -> [PathBuf; 2] {
    let pools = workspace_root().join("api/crds/kubevirt");
    [pools.clone(), pools.join("platform")]
}

/// The CRDs of disk images, wrappers and instance types, which need [`kubevirt_definitions`].
pub fn feature_definitions() -> [PathBuf; 2] {
    ["diskimage", "instancetype"].map(|folder| workspace_root().join("api/crds").join(folder))
}

/// The CRD of PoolAutoscalers.
pub fn autoscaler_definitions() -> PathBuf {
    workspace_root().join("api/crds/autoscaler")
}

/// A cluster prepared for pools. Controllers are started separately.
pub struct ClusterInstallation {
    // Fields are dropped in this order: the programs stop before their API server.
    guard: Option<GuardServices>,
    simulator: Simulator,
    accounts: Accounts,
    cluster: Arc<ControlPlane>,
}

impl ClusterInstallation {
    /// Starts a new cluster and installs everything on it; with `guard` also the webhook and the aggregated
    /// API.
    ///
    /// # Errors
    /// The errors of [`ControlPlane::start`] and [`ClusterInstallation::onto`].
    pub async fn start(name: &str, guard: Option<GuardOptions>) -> Result<Self> {
        let cluster = Arc::new(ControlPlane::start(cluster_options(name)).await?);
        match guard {
            Some(options) => Self::guarded(cluster, options).await,
            None => Self::onto(cluster).await,
        }
    }

    /// Installs everything but the webhook and the aggregated API on a cluster that was started with
    /// [`cluster_options`].
    ///
    /// # Errors
    /// [`vmpool_test_cluster::Error::MissingProgram`] and [`vmpool_test_cluster::Error::MissingTool`] if a
    /// program was not built, and the errors of the manifests.
    pub async fn onto(cluster: Arc<ControlPlane>) -> Result<Self> {
        let chart =
            Chart::render(&DVP_ONLY.map(str::to_owned)).await.inspect_err(|_| cluster.keep_directory())?;
        Self::of(&chart, cluster).await
    }

    /// As [`ClusterInstallation::onto`], with the roles of a chart that was rendered before.
    ///
    /// # Errors
    /// As [`ClusterInstallation::onto`].
    pub async fn of(chart: &Chart, cluster: Arc<ControlPlane>) -> Result<Self> {
        Self::simulating("dvp", chart, cluster).await
    }

    /// As [`ClusterInstallation::of`], with a simulator of this platform, as its flag `--platform` takes it.
    /// For KubeVirt, the cluster also needs [`kubevirt_definitions`].
    ///
    /// # Errors
    /// As [`ClusterInstallation::onto`].
    pub async fn simulating(platform: &str, chart: &Chart, cluster: Arc<ControlPlane>) -> Result<Self> {
        let installed: Result<_> = async {
            let accounts = install_without_simulator(chart, &cluster).await?;
            let simulator = Simulator::start_with(&cluster, &[&format!("--platform={platform}")]).await?;
            Ok((accounts, simulator))
        }
        .await;
        // If the installation fails, the logs are kept.
        let (accounts, simulator) = installed.inspect_err(|_| cluster.keep_directory())?;
        tracing::info!("roles, image, class and simulator are installed");
        Ok(Self { guard: None, simulator, accounts, cluster })
    }

    /// Installs everything on a cluster that was started with [`cluster_options`], as the chart does with the
    /// values of `options`.
    ///
    /// # Errors
    /// As [`ClusterInstallation::onto`], and [`vmpool_test_cluster::Error::Deadline`] if the API server does
    /// not reach the programs.
    pub async fn guarded(cluster: Arc<ControlPlane>, options: GuardOptions) -> Result<Self> {
        let installed: Result<_> = async {
            let chart = Chart::render(&options.values).await?;
            let accounts = install_without_simulator(&chart, &cluster).await?;
            let platforms = format!("--platform={}", options.simulated);
            let simulator = async { Simulator::start_with(&cluster, &[&platforms]).await };
            let (simulator, guard) =
                tokio::try_join!(simulator, GuardServices::start(&cluster, &chart, options))?;
            Ok((accounts, simulator, guard))
        }
        .await;
        let (accounts, simulator, guard) = installed.inspect_err(|_| cluster.keep_directory())?;
        tracing::info!("roles, image, class, simulator, webhook and aggregated API are installed");
        Ok(Self { guard: Some(guard), simulator, accounts, cluster })
    }

    /// The control plane.
    pub fn cluster(&self) -> &ControlPlane {
        &self.cluster
    }

    /// The platform simulator.
    pub fn simulator(&self) -> &Simulator {
        &self.simulator
    }

    /// The accounts of the chart.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// The webhook and the aggregated API.
    ///
    /// # Errors
    /// [`Error::Unexpected`] if this installation has none.
    pub fn guard(&self) -> Result<&GuardServices> {
        self.guard.as_ref().ok_or_else(|| Error::Unexpected {
            what: "the scenario runs on a guarded installation".to_owned(),
            last: "it was started without `guarded`".to_owned(),
        })
    }

    /// Checks that no shared program has exited.
    ///
    /// # Errors
    /// [`Error::Exited`].
    pub fn check(&self) -> Result<()> {
        self.simulator.check()?;
        self.guard.as_ref().map_or(Ok(()), GuardServices::check)
    }

    /// The ends of the programs' logs, by name.
    pub fn logs(&self, lines: usize) -> Vec<(String, String)> {
        let simulator = ("simulator".to_owned(), self.simulator.log_tail(lines));
        let guard = self.guard.as_ref().map(|guard| guard.logs(lines)).unwrap_or_default();
        std::iter::once(simulator).chain(guard).collect()
    }

    /// Kills everything but the cluster, for owners that are never dropped.
    pub fn tear_down(&self) {
        if let Some(guard) = &self.guard {
            guard.kill();
        }
        self.simulator.kill();
    }

    /// Stops the programs, then the cluster if it is not shared.
    ///
    /// # Errors
    /// As [`ControlPlane::stop`].
    pub async fn stop(self) -> Result<()> {
        let Self { guard, simulator, accounts: _, cluster } = self;
        drop((guard, simulator));
        match Arc::try_unwrap(cluster) {
            Ok(cluster) => cluster.stop().await,
            Err(_shared) => Ok(()),
        }
    }
}

/// Installs the roles of a chart, an image and a class, without the platform simulator: machines keep the
/// state in which they were created.
///
/// # Errors
/// As [`ClusterInstallation::onto`].
pub async fn install_without_simulator(chart: &Chart, cluster: &ControlPlane) -> Result<Accounts> {
    let accounts = Accounts::of(chart, cluster).await?;
    apply_manifests(&cluster.admin(), &platform_objects(), None).await?;
    Ok(accounts)
}

/// The objects that an administrator of the platform provides.
pub(crate) fn platform_objects() -> Vec<Value> {
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
