//! The programs that the API server calls: replicas of a component behind one address.
//!
//! They run with the arguments from the chart. Only what differs between a process and a Pod (addresses, a
//! kubeconfig) is appended.

use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use vmpool_test_cluster::control_plane::ControlPlane;
use vmpool_test_cluster::error::Result;

use super::forwarder::ReplicaForwarder;
use super::program::{AwaitedHealth, RestartableProgram};
use super::{Chart, SYSTEM_NAMESPACE, find_program};

/// A component of the chart that the API server calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// The validating webhook for pools.
    Webhook,
    /// The aggregated API.
    Apiserver,
}

impl Component {
    /// All components.
    pub const ALL: [Self; 2] = [Self::Webhook, Self::Apiserver];

    /// The name of its Deployment, Service and ServiceAccount, and of its package and binary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Webhook => "vmpool-webhook",
            Self::Apiserver => "vmpool-apiserver",
        }
    }

    /// The Secret of its certificate.
    pub fn secret(self) -> &'static str {
        match self {
            Self::Webhook => "vmpool-webhook-tls",
            Self::Apiserver => "vmpool-apiserver-tls",
        }
    }

    /// The environment variable with the path of an alternative binary.
    fn variable(self) -> &'static str {
        match self {
            Self::Webhook => "VMPOOL_WEBHOOK",
            Self::Apiserver => "VMPOOL_APISERVER",
        }
    }

    /// Its user name.
    pub fn user(self) -> String {
        format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{}", self.name())
    }

    /// The path of its binary.
    ///
    /// # Errors
    /// [`vmpool_test_cluster::Error::MissingProgram`] if it was not built.
    pub(super) fn find(self) -> Result<PathBuf> {
        find_program(self.name(), self.variable())
    }
}

/// Options of a component.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// The maximum number of replicas.
    pub replicas: usize,
    /// An alternative kubeconfig, for example that of a fault proxy ([`crate::fault_proxy::FaultProxy`]).
    pub kubeconfig: Option<PathBuf>,
    /// Additional flags, after all others.
    pub extra: Vec<String>,
}

impl Default for ServiceOptions {
    /// Two replicas, as in the chart.
    fn default() -> Self {
        Self { replicas: 2, kubeconfig: None, extra: Vec::new() }
    }
}

/// A running component. Dropping it kills all replicas.
#[derive(Debug)]
pub struct ComponentService {
    component: Component,
    binary: PathBuf,
    arguments: Vec<String>,
    forwarder: ReplicaForwarder,
    replicas: Vec<ComponentReplica>,
}

/// One replica of a component.
#[derive(Debug)]
pub struct ComponentReplica {
    place: usize,
    program: RestartableProgram,
}

impl std::ops::Deref for ComponentReplica {
    type Target = RestartableProgram;

    fn deref(&self) -> &RestartableProgram {
        &self.program
    }
}

impl ComponentService {
    /// Prepares one replica of each component, as [`ComponentService::prepare`].
    ///
    /// # Errors
    /// As [`ComponentService::prepare`].
    pub async fn prepare_all(cluster: &ControlPlane, chart: &Chart) -> Result<Vec<Self>> {
        let services = Component::ALL.map(|component| {
            let options = ServiceOptions { replicas: 1, ..ServiceOptions::default() };
            Self::prepare(cluster, chart, component, options)
        });
        futures::future::try_join_all(services).await
    }

    /// Selects the ports and prepares the replicas; none runs until [`ComponentService::start`].
    ///
    /// # Errors
    /// [`vmpool_test_cluster::Error::MissingProgram`] if the component was not built,
    /// [`vmpool_test_cluster::Error::Unexpected`] if the chart has no Deployment for it,
    /// [`vmpool_test_cluster::Error::Api`] if it has no account.
    pub async fn prepare(
        cluster: &ControlPlane,
        chart: &Chart,
        component: Component,
        options: ServiceOptions,
    ) -> Result<Self> {
        let binary = component.find()?;
        let name = component.name();
        let kubeconfig = match options.kubeconfig {
            Some(kubeconfig) => kubeconfig,
            None => cluster.service_account_kubeconfig(SYSTEM_NAMESPACE, name).await?,
        };
        let mut arguments = chart.arguments(name)?;
        arguments.push(format!("--kubeconfig={}", kubeconfig.display()));
        if component == Component::Webhook {
            // By it the webhook knows the API server.
            let authority = cluster.pki().certificate("front-proxy-ca");
            arguments.push(format!("--client-ca-file={}", authority.display()));
            arguments.push("--client-names=front-proxy-client".to_owned());
        }
        arguments.extend(options.extra);
        let forwarder = ReplicaForwarder::start(options.replicas).await?;
        let replica = |place| {
            let name = format!("{name}-{place}");
            let log = cluster.unique_path(&name, "log");
            ComponentReplica { place, program: RestartableProgram::new(name, log) }
        };
        let replicas = (0..options.replicas).map(replica).collect();
        Ok(Self { component, binary, arguments, forwarder, replicas })
    }

    /// The ports for the API server: one for each replica. If a replica is not running, its port leads to the
    /// others.
    pub fn ports(&self) -> &[u16] {
        self.forwarder.ports()
    }

    /// The component.
    pub fn component(&self) -> Component {
        self.component
    }

    /// The replicas, ordered by place.
    pub fn replicas(&self) -> &[ComponentReplica] {
        &self.replicas
    }

    /// Starts every replica and waits until all of them are ready.
    ///
    /// # Errors
    /// [`vmpool_test_cluster::Error::Exited`] and [`vmpool_test_cluster::Error::NotInTime`] with the end of
    /// the log.
    pub async fn start(&self) -> Result<()> {
        let launched = (0..self.replicas.len()).map(|place| self.launch(place));
        let ports = futures::future::try_join_all(launched).await?;
        // All are added at the same time; otherwise the API server would keep its connection to the first
        // one.
        for (place, port) in ports.into_iter().enumerate() {
            self.forwarder.set(place, Some(port));
        }
        Ok(())
    }

    /// Restarts a replica, and sends connections to it once it is ready. If it is running, it is killed
    /// first.
    ///
    /// # Errors
    /// As [`ComponentService::start`].
    pub async fn restart(&self, place: usize) -> Result<()> {
        let port = self.launch(place).await?;
        self.forwarder.set(place, Some(port));
        Ok(())
    }

    /// Starts a replica, and returns its port once it is ready.
    async fn launch(&self, place: usize) -> Result<u16> {
        self.forwarder.set(place, None);
        let command = |[health_port, port]: [u16; 2]| {
            let mut command = Command::new(&self.binary);
            command
                .args(&self.arguments)
                // The harness reads the metrics without a token.
                .arg("--metrics-authorization=false")
                .arg(format!("--health-address=127.0.0.1:{health_port}"))
                .arg(format!("--listen-address=127.0.0.1:{port}"));
            command
        };
        let [_, port] = self.replicas[place].program.start(AwaitedHealth::Ready, command).await?;
        Ok(port)
    }

    /// Kills a replica (SIGKILL): its connections break.
    pub fn kill(&self, place: usize) {
        self.forwarder.set(place, None);
        self.replicas[place].program.kill();
    }

    /// Kills every replica.
    pub fn kill_all(&self) {
        for replica in &self.replicas {
            self.kill(replica.place);
        }
    }

    /// Removes a replica from the service and requests it to exit, as the deletion of a Pod does.
    ///
    /// # Errors
    /// [`vmpool_test_cluster::Error::NotInTime`] if it had to be killed.
    pub async fn stop(&self, place: usize) -> Result<Option<ExitStatus>> {
        self.forwarder.set(place, None);
        self.replicas[place].program.stop().await
    }

    /// Checks that no replica has exited on its own.
    ///
    /// # Errors
    /// [`vmpool_test_cluster::Error::Exited`] with the end of the log of the first one that has.
    pub fn check(&self) -> Result<()> {
        self.replicas.iter().try_for_each(|replica| replica.program.check())
    }
}
