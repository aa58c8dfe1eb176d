//! Shared state of all tests in this binary.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{Mutex, OnceCell, RwLock};
use vmpool_e2e::harness;
use vmpool_e2e::scenario::run_scenario_on_cluster;
use vmpool_e2e::world::ScenarioWorld;
use vmpool_installation::metrics_api::MetricsApi;
use vmpool_installation::node_install as install;
use vmpool_installation::release::HelmRelease;
use vmpool_test_cluster::access::Access;
use vmpool_test_cluster::error::error_with_causes;
use vmpool_test_cluster::node::NodeCluster;

use crate::load::ClientLoad;
use crate::{pods, rotation};

/// The values of the installation, with intervals that suit tests.
const VALUES: &str = include_str!("values.yaml");

/// The cluster with everything installed.
pub(crate) struct InstalledNodeCluster {
    node: Arc<NodeCluster>,
    release: HelmRelease,
    metrics: MetricsApi,
    load: ClientLoad,
    first_certificates: Vec<Vec<u8>>,
    availability_lock: RwLock<()>,
    pods: Mutex<()>,
}

static STAGE: OnceCell<Result<Arc<InstalledNodeCluster>, String>> = OnceCell::const_new();

/// Runs a test that works at any time.
pub(crate) fn at_any_time(test: impl AsyncFnOnce(&InstalledNodeCluster) -> anyhow::Result<()>) {
    play(test);
}

/// Runs a test of users' operations, in parallel with [`among_pods`].
pub(crate) fn among_users(test: impl AsyncFnOnce(&InstalledNodeCluster) -> anyhow::Result<()>) {
    play(async |stage| {
        let _turn = stage.availability_lock.read().await;
        test(stage).await
    });
}

/// Runs a test that inspects the chart's Pods or replaces some gracefully, while clients are served.
pub(crate) fn among_pods(test: impl AsyncFnOnce(&InstalledNodeCluster) -> anyhow::Result<()>) {
    play(async |stage| {
        let _turn = stage.availability_lock.read().await;
        let _pods = stage.pods.lock().await;
        test(stage).await
    });
}

/// Runs a test with exclusive access, which may make the components unavailable.
pub(crate) fn alone(test: impl AsyncFnOnce(&InstalledNodeCluster) -> anyhow::Result<()>) {
    play(async |stage| {
        let _turn = stage.availability_lock.write().await;
        let _outage = stage.load.outage();
        test(stage).await
    });
}

#[expect(clippy::panic, reason = "this is how a test fails")]
fn play(test: impl AsyncFnOnce(&InstalledNodeCluster) -> anyhow::Result<()>) {
    let outcome = harness::block_on(async {
        let stage = STAGE
            .get_or_init(async || start().await.map_err(|error| error_with_causes(error.as_ref())))
            .await;
        let stage =
            stage.as_ref().map_err(|error| format!("the node cluster could not be started: {error}"))?;
        match test(stage).await {
            Ok(()) => Ok(()),
            Err(error) => {
                stage.node.keep_directory();
                let (error, report) = (error_with_causes(error.as_ref()), pods::report(stage.access()).await);
                Err(format!("{error}\n\n{report}\n-- more in {} --", stage.node.directory().display()))
            }
        }
    });
    if let Err(report) = outcome {
        panic!("{report}");
    }
}

async fn start() -> anyhow::Result<Arc<InstalledNodeCluster>> {
    let begin = Instant::now();
    let node = Arc::new(NodeCluster::start(install::node_options("node-tests")?).await?);
    let to_stop = node.clone();
    harness::at_exit(move || to_stop.tear_down());
    let stage = match InstalledNodeCluster::furnish(node.clone()).await {
        Ok(stage) => stage,
        Err(error) => {
            node.keep_directory();
            return Err(error.context(pods::report(&node.cluster().access()).await));
        }
    };
    tracing::info!(seconds = begin.elapsed().as_secs_f32(), "everything is installed");
    Ok(Arc::new(stage))
}

impl InstalledNodeCluster {
    async fn furnish(node: Arc<NodeCluster>) -> anyhow::Result<Self> {
        let release = install::install_on_node(&node, VALUES).await?;
        let metrics = MetricsApi::start_inside(node.cluster()).await?;
        let load = ClientLoad::start(release.access()).await?;
        let first_certificates = rotation::parts(release.access()).await?;
        Ok(Self {
            node,
            release,
            metrics,
            load,
            first_certificates,
            availability_lock: RwLock::default(),
            pods: Mutex::default(),
        })
    }

    /// The first serving certificates, and those of their authorities.
    pub(crate) fn first_certificates(&self) -> &[Vec<u8>] {
        &self.first_certificates
    }

    /// The access to the cluster.
    pub(crate) fn access(&self) -> &Access {
        self.release.access()
    }

    /// The release of the chart.
    pub(crate) fn release(&self) -> &HelmRelease {
        &self.release
    }

    /// The metrics server for autoscalers.
    pub(crate) fn metrics(&self) -> &MetricsApi {
        &self.metrics
    }

    /// The clients that send requests continuously.
    pub(crate) fn load(&self) -> &ClientLoad {
        &self.load
    }

    /// Runs a scenario in a new namespace, with all checks and the complete end of scenarios.
    pub(crate) async fn visit(
        &self,
        name: &str,
        story: impl AsyncFnOnce(&ScenarioWorld) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        run_scenario_on_cluster(name, self.access(), story).await.map_err(anyhow::Error::msg)
    }
}
