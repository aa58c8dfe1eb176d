//! The controller as a child process.

use std::ops::Deref;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::program::{Program, State};
use super::{CONTROLLER_ACCOUNT, SYSTEM_NAMESPACE, find};
use crate::cluster::Cluster;
use crate::error::Result;

/// Name of its package and binary.
pub(super) const PROGRAM: &str = "vmpool-controller";

/// Names another binary.
pub(super) const VARIABLE: &str = "VMPOOL_CONTROLLER";

/// How a controller is run. In scenarios every one is restricted to a namespace, so that they do not disturb each
/// other.
#[derive(Debug, Clone)]
pub struct ControllerOptions {
    /// The namespace that it has its lease in.
    pub namespace: String,
    /// The namespace whose pools it serves; `None` for all of them.
    pub watch_namespace: Option<String>,
    /// Its name in the lease and in its log's file name.
    pub identity: String,
    /// How long its lease lasts.
    pub lease_duration: Duration,
    /// How often it renews its lease.
    pub renew_interval: Duration,
    /// Another way to the API server than its account's own, such as [`crate::choke::Choke`].
    pub kubeconfig: Option<PathBuf>,
    /// Further flags, after all others.
    pub extra: Vec<String>,
}

impl ControllerOptions {
    /// The lease of 15 s that the chart has, renewed every 3 s, and a short grace for disks that are collected.
    pub fn new(namespace: impl Into<String>, identity: impl Into<String>) -> Self {
        let namespace = namespace.into();
        Self {
            watch_namespace: Some(namespace.clone()),
            namespace,
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_interval: Duration::from_secs(3),
            kubeconfig: None,
            // What is free for too long shall not keep a scenario waiting.
            extra: vec!["--disk-collection-grace=2s".to_owned()],
        }
    }

    /// As the chart runs it: for the pools of all namespaces, with its lease in [`SYSTEM_NAMESPACE`].
    pub fn everywhere(identity: impl Into<String>) -> Self {
        Self { watch_namespace: None, ..Self::new(SYSTEM_NAMESPACE, identity) }
    }

    /// With a short lease, so that its end is noticed soon, and a deadline of requests that fits it.
    pub fn short_lease(namespace: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            lease_duration: Duration::from_secs(4),
            renew_interval: Duration::from_secs(1),
            extra: vec!["--request-deadline=1500ms".to_owned()],
            ..Self::new(namespace, identity)
        }
    }

    /// Name of the lease that it competes for.
    pub const LEASE: &'static str = PROGRAM;
}

/// A controller, running under the chart's service account. Dropping it kills it.
#[derive(Debug)]
pub struct Controller {
    options: ControllerOptions,
    binary: PathBuf,
    kubeconfig: PathBuf,
    program: Program,
}

impl Controller {
    /// Starts a controller and waits until it is live. Whether it leads, and thus acts, is another matter.
    ///
    /// # Errors
    /// [`crate::Error::MissingProgram`] if it was not built, [`crate::Error::Exited`] and
    /// [`crate::Error::NotInTime`] with the end of its log.
    pub async fn start(cluster: &Cluster, options: ControllerOptions) -> Result<Self> {
        let binary = find(PROGRAM, VARIABLE)?;
        let kubeconfig = match &options.kubeconfig {
            Some(kubeconfig) => kubeconfig.clone(),
            None => cluster.service_account_kubeconfig(SYSTEM_NAMESPACE, CONTROLLER_ACCOUNT).await?,
        };
        let log = cluster.unique_path(&format!("{}-{}", options.namespace, options.identity), "log");
        let program = Program::new(format!("{PROGRAM} {}", options.identity), log);
        let controller = Self { options, binary, kubeconfig, program };
        controller.restart().await?;
        Ok(controller)
    }

    /// Its name in the lease.
    pub fn identity(&self) -> &str {
        &self.options.identity
    }

    /// Whether it leads, as its metrics say; `None` if they do not answer.
    pub async fn leads(&self) -> Option<bool> {
        let (_, page) = self.program.probe("/metrics").await;
        page.lines().find_map(|line| line.strip_prefix("vmpool_leader ")).map(|value| value == "1")
    }

    /// Starts it again under the same identity after it was stopped or killed. One that still runs is killed first.
    ///
    /// # Errors
    /// As [`Controller::start`].
    pub async fn restart(&self) -> Result<()> {
        self.program.start(State::Live, |[health_port]| self.command(health_port)).await.map(drop)
    }

    fn command(&self, health_port: u16) -> Command {
        let ControllerOptions {
            namespace,
            watch_namespace,
            identity,
            lease_duration,
            renew_interval,
            extra,
            ..
        } = &self.options;
        let mut command = Command::new(&self.binary);
        command
            .arg(format!("--kubeconfig={}", self.kubeconfig.display()))
            .args(watch_namespace.as_ref().map(|watched| format!("--watch-namespace={watched}")))
            .arg(format!("--lease-namespace={namespace}"))
            .arg(format!("--lease-name={}", ControllerOptions::LEASE))
            .arg(format!("--lease-duration={}ms", lease_duration.as_millis()))
            .arg(format!("--lease-renew-interval={}ms", renew_interval.as_millis()))
            .arg(format!("--health-address=127.0.0.1:{health_port}"))
            .arg("--feature-gates=VirtualMachinePool=true")
            .arg("--log-format=json")
            .arg(format!("--identity={identity}"))
            .args(extra);
        command
    }
}

/// A controller is a program with options.
impl Deref for Controller {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.program
    }
}
