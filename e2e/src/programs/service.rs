//! The programs that the API server calls: replicas of a component behind one address.
//!
//! They run with the arguments that the chart gives them; only what a process needs instead of a Pod (addresses, a
//! kubeconfig) is put after those.

use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use super::forwarder::Forwarder;
use super::program::{Program, State};
use super::{Chart, SYSTEM_NAMESPACE, find};
use crate::cluster::Cluster;
use crate::error::Result;

/// A component of the chart that answers calls of the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// Admission of pools.
    Webhook,
    /// The aggregated API.
    Apiserver,
}

impl Component {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Webhook, Self::Apiserver];

    /// What the chart calls its Deployment, Service and ServiceAccount; also the name of its package and binary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Webhook => "vmpool-webhook",
            Self::Apiserver => "vmpool-apiserver",
        }
    }

    /// The Secret that its certificate is kept in.
    pub fn secret(self) -> &'static str {
        match self {
            Self::Webhook => "vmpool-webhook-tls",
            Self::Apiserver => "vmpool-apiserver-tls",
        }
    }

    /// The environment variable that names another binary.
    fn variable(self) -> &'static str {
        match self {
            Self::Webhook => "VMPOOL_WEBHOOK",
            Self::Apiserver => "VMPOOL_APISERVER",
        }
    }

    /// Its name as the API server sees it.
    pub fn user(self) -> String {
        format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{}", self.name())
    }

    /// Its binary.
    ///
    /// # Errors
    /// [`crate::Error::MissingProgram`] if it was not built.
    pub(super) fn find(self) -> Result<PathBuf> {
        find(self.name(), self.variable())
    }
}

/// How a component is run.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// How many replicas there may be.
    pub replicas: usize,
    /// Another way to the API server than its account's own, such as [`crate::choke::Choke`].
    pub kubeconfig: Option<PathBuf>,
    /// Further flags, after all others.
    pub extra: Vec<String>,
}

impl Default for ServiceOptions {
    /// Two replicas, as the chart has them.
    fn default() -> Self {
        Self { replicas: 2, kubeconfig: None, extra: Vec::new() }
    }
}

/// A component at work. Dropping it kills all replicas.
#[derive(Debug)]
pub struct Service {
    component: Component,
    binary: PathBuf,
    arguments: Vec<String>,
    forwarder: Forwarder,
    replicas: Vec<Replica>,
}

/// One replica of a component.
#[derive(Debug)]
pub struct Replica {
    place: usize,
    program: Program,
}

impl std::ops::Deref for Replica {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.program
    }
}

impl Service {
    /// Picks the address and prepares the replicas; none runs until [`Service::start`].
    ///
    /// # Errors
    /// [`crate::Error::MissingProgram`] if the component was not built, [`crate::Error::Unexpected`] if the chart has
    /// no Deployment for it, [`crate::Error::Api`] if it has no account.
    pub async fn prepare(
        cluster: &Cluster,
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
        arguments.extend(options.extra);
        let forwarder = Forwarder::start(options.replicas).await?;
        let replica = |place| {
            let name = format!("{name}-{place}");
            let log = cluster.unique_path(&name, "log");
            Replica { place, program: Program::new(name, log) }
        };
        let replicas = (0..options.replicas).map(replica).collect();
        Ok(Self { component, binary, arguments, forwarder, replicas })
    }

    /// The ports that the API server has to call: one for each replica, where the others stand in for it.
    pub fn ports(&self) -> &[u16] {
        self.forwarder.ports()
    }

    /// Which component it is.
    pub fn component(&self) -> Component {
        self.component
    }

    /// The replicas, in the order of their places.
    pub fn replicas(&self) -> &[Replica] {
        &self.replicas
    }

    /// Starts every replica and waits until all of them are ready.
    ///
    /// # Errors
    /// [`crate::Error::Exited`] and [`crate::Error::NotInTime`] with the end of the log.
    pub async fn start(&self) -> Result<()> {
        let launched = (0..self.replicas.len()).map(|place| self.launch(place));
        let ports = futures::future::try_join_all(launched).await?;
        // Together: a client that came before them all would stay with the one that it found.
        for (place, port) in ports.into_iter().enumerate() {
            self.forwarder.set(place, Some(port));
        }
        Ok(())
    }

    /// Starts a replica again after it was stopped or killed, and sends connections to it once it is ready. One that
    /// still runs is killed first.
    ///
    /// # Errors
    /// As [`Service::start`].
    pub async fn restart(&self, place: usize) -> Result<()> {
        let port = self.launch(place).await?;
        self.forwarder.set(place, Some(port));
        Ok(())
    }

    /// Starts a replica, and returns the port that it is ready on.
    async fn launch(&self, place: usize) -> Result<u16> {
        self.forwarder.set(place, None);
        let command = |[health_port, port]: [u16; 2]| {
            let mut command = Command::new(&self.binary);
            command
                .args(&self.arguments)
                .arg(format!("--health-address=127.0.0.1:{health_port}"))
                .arg(format!("--listen-address=127.0.0.1:{port}"));
            command
        };
        let [_, port] = self.replicas[place].program.start(State::Ready, command).await?;
        Ok(port)
    }

    /// Kills a replica at once (SIGKILL): its connections break.
    pub fn kill(&self, place: usize) {
        self.forwarder.set(place, None);
        self.replicas[place].program.kill();
    }

    /// Kills every replica at once.
    pub fn kill_all(&self) {
        for replica in &self.replicas {
            self.kill(replica.place);
        }
    }

    /// Takes a replica out of service and asks it to end, as the deletion of a Pod does.
    ///
    /// # Errors
    /// [`crate::Error::NotInTime`] if it had to be killed.
    pub async fn stop(&self, place: usize) -> Result<Option<ExitStatus>> {
        self.forwarder.set(place, None);
        self.replicas[place].program.stop().await
    }

    /// Whether no replica ended by itself.
    ///
    /// # Errors
    /// [`crate::Error::Exited`] with the end of the log of the first one that did.
    pub fn check(&self) -> Result<()> {
        self.replicas.iter().try_for_each(|replica| replica.program.check())
    }
}
