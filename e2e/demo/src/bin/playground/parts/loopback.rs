//! A control plane, the platform simulator, two controllers, the webhook and the aggregated API as processes
//! of this host.

use futures::future::{join_all, try_join_all};
use vmpool_installation::installation::{
    cluster_options, connect_services, feature_definitions, install_without_simulator, kubevirt_definitions,
};
use vmpool_installation::metrics_api::MetricsApi;
use vmpool_installation::programs::{
    Chart, ComponentService, ControllerOptions, ControllerProgram, RestartableProgram, Simulator,
};
use vmpool_test_cluster::control_plane::{AuditLog, ControlPlane, ControlPlaneOptions};

use crate::directory::{Part, PlaygroundDirectory};
use crate::output::PROGRESS;

/// As in the chart: a leader and a standby.
const CONTROLLERS: usize = 2;

/// The index of the only replica of the webhook and of the aggregated API. If it exits, it is restarted
/// within a second.
const ONLY: usize = 0;

/// Flags of the controllers if the playground has KubeVirt: it then also has disk images and instance types.
const FLAGS_WITH_KUBEVIRT: [&str; 3] = [
    "--platforms=dvp,kubevirt",
    "--feature-gates=VirtualMachinePool=true,DiskImages=true,MachineWrapper=true",
    "--instancetype-mode=Standalone",
];

/// All running programs. Dropping this kills them, the API server before etcd.
pub(crate) struct Loopback {
    // Fields are dropped in this order.
    programs: Programs,
    cluster: ControlPlane,
}

/// The programs besides the control plane.
struct Programs {
    controllers: Vec<ControllerProgram>,
    /// The webhook and the aggregated API.
    services: Vec<ComponentService>,
    simulator: Simulator,
    /// Metrics for autoscalers, which this process serves until it is dropped.
    metrics: MetricsApi,
}

impl Loopback {
    /// Starts all programs, and prints a line for each step.
    ///
    /// # Errors
    /// The error of the first program that does not start.
    pub(super) async fn start(place: &PlaygroundDirectory) -> anyhow::Result<Self> {
        println!("{PROGRESS}etcd, kube-apiserver, kube-controller-manager");
        let mut options = ControlPlaneOptions {
            directory: Some(place.cluster()),
            // It is not read, and would grow for weeks.
            audit: AuditLog::Off,
            ..cluster_options("playground")
        };
        if has_kubevirt() {
            options.manifests.extend(kubevirt_definitions());
            options.manifests.extend(feature_definitions());
        }
        let cluster = ControlPlane::start(options).await?;
        // If a program does not start, its log contains the reason.
        let programs = Programs::start(&cluster).await.inspect_err(|_| cluster.keep_directory())?;
        Ok(Self { programs, cluster })
    }

    /// The control plane.
    pub(super) fn cluster(&self) -> &ControlPlane {
        &self.cluster
    }

    /// The programs that [`Loopback::restart_exited`] restarts.
    pub(super) fn list(&self) -> Vec<Part> {
        let Programs { controllers, services, simulator, .. } = &self.programs;
        let part =
            |name: &str, program: &RestartableProgram| Part { name: name.to_owned(), pid: program.pid() };
        let services = services.iter().map(|service| part(short(service), &service.replicas()[ONLY]));
        let controllers = controllers.iter().map(|controller| part(controller.identity(), controller));
        std::iter::once(part("simulator", simulator)).chain(services).chain(controllers).collect()
    }

    /// Restarts the programs that have exited, as a kubelet would.
    ///
    /// # Errors
    /// A component of the control plane has exited. A program that does not start is restarted at the next
    /// call.
    pub(super) async fn restart_exited(&mut self) -> anyhow::Result<()> {
        self.cluster.check().inspect_err(|_| self.cluster.keep_directory())?;
        let Programs { controllers, services, simulator, .. } = &mut self.programs;
        if let Err(error) = simulator.check() {
            tracing::warn!("restarting the simulator: {error}");
            match start_simulator(&self.cluster).await {
                Ok(started) => *simulator = started,
                Err(error) => tracing::warn!("the restart failed: {error}"),
            }
        }
        for service in services {
            if let Some(status) = service.replicas()[ONLY].exit_status() {
                tracing::warn!("restarting the {} after {status}", short(service));
                if let Err(error) = service.restart(ONLY).await {
                    tracing::warn!("the restart failed: {error}");
                }
            }
        }
        for controller in controllers {
            if let Some(status) = controller.exit_status() {
                tracing::warn!("restarting {} after {status}", controller.identity());
                if let Err(error) = controller.restart().await {
                    tracing::warn!("the restart failed: {error}");
                }
            }
        }
        Ok(())
    }

    /// Stops all programs: controllers finish their pass and release the lease, and the API server stops
    /// before etcd.
    ///
    /// # Errors
    /// A program had to be killed. Even then nothing is left running.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        let Self { programs: Programs { controllers, services, simulator, metrics }, cluster } = self;
        // The controllers stop first, because their last writes may need the webhook.
        let stopped: Result<Vec<_>, _> =
            join_all(controllers.iter().map(|controller| controller.stop())).await.into_iter().collect();
        drop((services, simulator, metrics));
        cluster.stop().await?;
        stopped?;
        Ok(())
    }
}

impl Programs {
    async fn start(cluster: &ControlPlane) -> anyhow::Result<Self> {
        println!("{PROGRESS}roles, an image, a machine class");
        let chart = if has_kubevirt() { Chart::stored_with_all_features()? } else { Chart::stored()? };
        install_without_simulator(&chart, cluster).await?;
        println!(
            "{PROGRESS}the platform simulator, the webhook, the aggregated API, {CONTROLLERS} controllers"
        );
        let services = ComponentService::prepare_all(cluster, &chart).await?;
        let controllers = (0..CONTROLLERS).map(|number| {
            let mut options = ControllerOptions::everywhere(format!("controller-{number}"));
            if has_kubevirt() {
                options.extra.extend(FLAGS_WITH_KUBEVIRT.map(str::to_owned));
            }
            ControllerProgram::start(cluster, options)
        });
        let (metrics, simulator, (), controllers) = tokio::try_join!(
            MetricsApi::start_with_config_maps(cluster),
            start_simulator(cluster),
            connect_services(cluster, &chart, &services, |_| {}),
            try_join_all(controllers),
        )?;
        Ok(Self { controllers, services, simulator, metrics })
    }
}

/// Whether `PLATFORM=all` asks for KubeVirt, too. It is not the default, because kubectl's short names `vm`
/// and `vmpool` would be ambiguous.
pub(super) fn has_kubevirt() -> bool {
    std::env::var("PLATFORM").is_ok_and(|platform| platform == "all")
}

async fn start_simulator(cluster: &ControlPlane) -> vmpool_test_cluster::error::Result<Simulator> {
    let platform = if has_kubevirt() { "--platform=all" } else { "--platform=dvp" };
    Simulator::start_with(cluster, &[platform]).await
}

/// The name of a service without the prefix of the product.
fn short(service: &ComponentService) -> &'static str {
    let name = service.component().name();
    name.strip_prefix("vmpool-").unwrap_or(name)
}
