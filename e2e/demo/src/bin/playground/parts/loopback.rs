//! A control plane, the simulator, two controllers, the webhook and the aggregated API as processes of this machine.

use futures::future::{join_all, try_join_all};
use vmpool_installation::installation::{cluster_options, connect, install_without_simulator};
use vmpool_installation::programs::{
    Chart, Component, Controller, ControllerOptions, Program, Service, ServiceOptions, Simulator,
};
use vmpool_test_cluster::control_plane::{AuditLog, ControlPlane, Options};

use crate::place::{Part, Place};
use crate::supervisor::PROGRESS;

/// As the chart runs it: one leads, the other takes over.
const CONTROLLERS: usize = 2;

/// The only replica of the webhook and of the aggregated API: one that ends is started again within a second.
const ONLY: usize = 0;

/// Everything that runs. Dropping it kills all of it, the API server before etcd.
pub(crate) struct Loopback {
    // Fields are dropped in this order.
    programs: Programs,
    cluster: ControlPlane,
}

/// What runs beside the control plane.
struct Programs {
    controllers: Vec<Controller>,
    /// The webhook and the aggregated API.
    services: Vec<Service>,
    simulator: Simulator,
}

impl Loopback {
    /// Starts everything and says so line by line.
    ///
    /// # Errors
    /// The first part that does not start.
    pub(super) async fn start(place: &Place) -> anyhow::Result<Self> {
        println!("{PROGRESS}etcd, kube-apiserver, kube-controller-manager");
        let cluster = ControlPlane::start(Options {
            directory: Some(place.cluster()),
            // Nobody reads it, and a playground may stay for weeks.
            audit: AuditLog::Off,
            ..cluster_options("playground")
        })
        .await?;
        // If a program does not start, its log tells why.
        let programs = Programs::start(&cluster).await.inspect_err(|_| cluster.keep_directory())?;
        Ok(Self { programs, cluster })
    }

    /// The control plane.
    pub(super) fn cluster(&self) -> &ControlPlane {
        &self.cluster
    }

    /// The programs that [`Loopback::revive`] looks after.
    pub(super) fn list(&self) -> Vec<Part> {
        let Programs { controllers, services, simulator } = &self.programs;
        let part = |name: &str, program: &Program| Part { name: name.to_owned(), pid: program.pid() };
        let services = services.iter().map(|service| part(short(service), &service.replicas()[ONLY]));
        let controllers = controllers.iter().map(|controller| part(controller.identity(), controller));
        std::iter::once(part("simulator", simulator)).chain(services).chain(controllers).collect()
    }

    /// Starts those programs of ours again that ended, as a kubelet would.
    ///
    /// # Errors
    /// The part of the control plane that ended. A program that does not start again is tried again next time.
    pub(super) async fn revive(&mut self) -> anyhow::Result<()> {
        self.cluster.check().inspect_err(|_| self.cluster.keep_directory())?;
        let Programs { controllers, services, simulator } = &mut self.programs;
        if let Err(error) = simulator.check() {
            tracing::warn!("the simulator is started again: {error}");
            match Simulator::start(&self.cluster).await {
                Ok(started) => *simulator = started,
                Err(error) => tracing::warn!("it does not start: {error}"),
            }
        }
        for service in services {
            if let Some(status) = service.replicas()[ONLY].exit_status() {
                tracing::warn!("the {} is started again after {status}", short(service));
                if let Err(error) = service.restart(ONLY).await {
                    tracing::warn!("it does not start: {error}");
                }
            }
        }
        for controller in controllers {
            if let Some(status) = controller.exit_status() {
                tracing::warn!("{} is started again after {status}", controller.identity());
                if let Err(error) = controller.restart().await {
                    tracing::warn!("it does not start: {error}");
                }
            }
        }
        Ok(())
    }

    /// Stops everything: controllers finish their pass and give up the lease, and the API server goes before etcd.
    ///
    /// # Errors
    /// A part that had to be killed; nothing is left running even then.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        let Self { programs: Programs { controllers, services, simulator }, cluster } = self;
        // The controllers first: their last writes may need the webhook.
        let stopped: Result<Vec<_>, _> =
            join_all(controllers.iter().map(|controller| controller.stop())).await.into_iter().collect();
        drop((services, simulator));
        cluster.stop().await?;
        stopped?;
        Ok(())
    }
}

impl Programs {
    async fn start(cluster: &ControlPlane) -> anyhow::Result<Self> {
        println!("{PROGRESS}roles, an image, a machine class");
        let chart = Chart::stored()?;
        install_without_simulator(&chart, cluster).await?;
        println!(
            "{PROGRESS}the platform simulator, the webhook, the aggregated API, {CONTROLLERS} controllers"
        );
        let services = Component::ALL.map(|component| {
            let options = ServiceOptions { replicas: 1, ..ServiceOptions::default() };
            Service::prepare(cluster, &chart, component, options)
        });
        let services = try_join_all(services).await?;
        let controllers = (0..CONTROLLERS).map(|number| {
            let options = ControllerOptions::everywhere(format!("controller-{number}"));
            Controller::start(cluster, options)
        });
        let (simulator, (), controllers) = tokio::try_join!(
            Simulator::start(cluster),
            connect(cluster, &chart, &services, |_| {}),
            try_join_all(controllers),
        )?;
        Ok(Self { controllers, services, simulator })
    }
}

/// The name of a service beside those of the other programs, without the product's.
fn short(service: &Service) -> &'static str {
    let name = service.component().name();
    name.strip_prefix("vmpool-").unwrap_or(name)
}
