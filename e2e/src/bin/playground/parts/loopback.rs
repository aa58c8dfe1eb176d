//! A control plane, the simulator and two controllers as processes of this machine.

use vmpool_e2e::cluster::{AuditLog, Cluster, Options};
use vmpool_e2e::installation::{cluster_options, install_without_simulator};
use vmpool_e2e::programs::{Controller, ControllerOptions, Simulator};

use crate::place::{Part, Place};
use crate::supervisor::PROGRESS;

/// As the chart runs it: one leads, the other takes over.
const CONTROLLERS: usize = 2;

/// Everything that runs. Dropping it kills all of it, the API server before etcd.
pub(crate) struct Loopback {
    // Fields are dropped in this order.
    controllers: Vec<Controller>,
    simulator: Simulator,
    cluster: Cluster,
}

impl Loopback {
    /// Starts everything and says so line by line.
    ///
    /// # Errors
    /// The first part that does not start.
    pub(super) async fn start(place: &Place) -> anyhow::Result<Self> {
        println!("{PROGRESS}etcd, kube-apiserver, kube-controller-manager");
        let cluster = Cluster::start(Options {
            directory: Some(place.cluster()),
            // Nobody reads it, and a playground may stay for weeks.
            audit: AuditLog::Off,
            ..cluster_options("playground")
        })
        .await?;
        println!("{PROGRESS}roles, an image, a machine class");
        let installed = install_without_simulator(&cluster).await;
        // Whoever fails to start wants the logs.
        installed.inspect_err(|_| cluster.keep_directory())?;
        println!("{PROGRESS}the platform simulator");
        let simulator = Simulator::start(&cluster).await.inspect_err(|_| cluster.keep_directory())?;
        println!("{PROGRESS}{CONTROLLERS} controllers");
        let mut controllers = Vec::new();
        for number in 0..CONTROLLERS {
            let options = ControllerOptions::everywhere(format!("controller-{number}"));
            let controller = Controller::start(&cluster, options).await;
            controllers.push(controller.inspect_err(|_| cluster.keep_directory())?);
        }
        Ok(Self { controllers, simulator, cluster })
    }

    /// The control plane.
    pub(super) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The programs that [`Loopback::revive`] looks after.
    pub(super) fn list(&self) -> Vec<Part> {
        let simulator = Part { name: "simulator".to_owned(), pid: self.simulator.pid() };
        let controllers = self.controllers.iter();
        let controllers = controllers
            .map(|controller| Part { name: controller.identity().to_owned(), pid: controller.pid() });
        std::iter::once(simulator).chain(controllers).collect()
    }

    /// Starts those programs of ours again that ended, as a kubelet would.
    ///
    /// # Errors
    /// The part of the control plane that ended. A program that does not start again is tried again next time.
    pub(super) async fn revive(&mut self) -> anyhow::Result<()> {
        self.cluster.check().inspect_err(|_| self.cluster.keep_directory())?;
        if let Err(error) = self.simulator.check() {
            tracing::warn!("the simulator is started again: {error}");
            match Simulator::start(&self.cluster).await {
                Ok(simulator) => self.simulator = simulator,
                Err(error) => tracing::warn!("it does not start: {error}"),
            }
        }
        for controller in &self.controllers {
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
        let Self { controllers, simulator, cluster } = self;
        let stops = controllers.iter().map(|controller| controller.stop());
        let stopped: Result<Vec<_>, _> = futures::future::join_all(stops).await.into_iter().collect();
        drop(simulator);
        cluster.stop().await?;
        stopped?;
        Ok(())
    }
}
