//! The controller as a child process.

use std::ops::Deref;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use vmpool_test_cluster::control_plane::ControlPlane;
use vmpool_test_cluster::error::Result;

use super::program::{AwaitedHealth, RestartableProgram};
use super::{CONTROLLER_ACCOUNT, SYSTEM_NAMESPACE, find_program};

/// Name of the package and binary.
pub(super) const PROGRAM: &str = "vmpool-controller";

/// The environment variable with the path of an alternative binary.
pub(super) const VARIABLE: &str = "VMPOOL_CONTROLLER";

/// Options of a controller. In scenarios each controller watches one namespace, so that scenarios do not
/// affect each other.
#[derive(Debug, Clone)]
pub struct ControllerOptions {
    /// The namespace of the lease.
    pub namespace: String,
    /// The watched namespace; `None` for all namespaces.
    pub watch_namespace: Option<String>,
    /// The identity in the lease, also part of the log's file name.
    pub identity: String,
    /// The lease duration.
    pub lease_duration: Duration,
    /// The renew interval of the lease.
    pub renew_interval: Duration,
    /// An alternative kubeconfig, for example that of a fault proxy ([`crate::fault_proxy::FaultProxy`]).
    pub kubeconfig: Option<PathBuf>,
    /// Additional flags, after all others.
    pub extra: Vec<String>,
}

impl ControllerOptions {
    /// The chart's lease of 15 s with a renew interval of 3 s, and a short grace period for disk garbage
    /// collection.
    pub fn new(namespace: impl Into<String>, identity: impl Into<String>) -> Self {
        let namespace = namespace.into();
        Self {
            watch_namespace: Some(namespace.clone()),
            namespace,
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_interval: Duration::from_secs(3),
            kubeconfig: None,
            // Scenarios should not wait long for disk garbage collection.
            extra: vec!["--disk-collection-grace=2s".to_owned()],
        }
    }

    /// The chart's configuration: all namespaces, with the lease in [`SYSTEM_NAMESPACE`].
    pub fn everywhere(identity: impl Into<String>) -> Self {
        Self { watch_namespace: None, ..Self::new(SYSTEM_NAMESPACE, identity) }
    }

    /// A short lease, so that the loss of the leader is noticed soon, and a matching request timeout.
    pub fn short_lease(namespace: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            lease_duration: Duration::from_secs(4),
            renew_interval: Duration::from_secs(1),
            extra: vec!["--request-deadline=1500ms".to_owned()],
            ..Self::new(namespace, identity)
        }
    }

    /// Name of the lease.
    pub const LEASE: &'static str = PROGRAM;
}

/// A controller that runs with the chart's service account. Dropping it kills it.
#[derive(Debug)]
pub struct ControllerProgram {
    options: ControllerOptions,
    binary: PathBuf,
    kubeconfig: PathBuf,
    program: RestartableProgram,
}

impl ControllerProgram {
    /// Starts a controller and waits until it is live. It acts only once it is the leader.
    ///
    /// # Errors
    /// [`vmpool_test_cluster::Error::MissingProgram`] if it was not built,
    /// [`vmpool_test_cluster::Error::Exited`] and [`vmpool_test_cluster::Error::NotInTime`] with the end of
    /// its log.
    pub async fn start(cluster: &ControlPlane, options: ControllerOptions) -> Result<Self> {
        let binary = find_program(PROGRAM, VARIABLE)?;
        let kubeconfig = match &options.kubeconfig {
            Some(kubeconfig) => kubeconfig.clone(),
            None => cluster.service_account_kubeconfig(SYSTEM_NAMESPACE, CONTROLLER_ACCOUNT).await?,
        };
        let log = cluster.unique_path(&format!("{}-{}", options.namespace, options.identity), "log");
        let program = RestartableProgram::new(format!("{PROGRAM} {}", options.identity), log);
        let controller = Self { options, binary, kubeconfig, program };
        controller.restart().await?;
        Ok(controller)
    }

    /// The identity in the lease.
    pub fn identity(&self) -> &str {
        &self.options.identity
    }

    /// Whether it is the leader according to its metrics; `None` if they cannot be read.
    pub async fn leads(&self) -> Option<bool> {
        let (_, page) = self.program.probe("/metrics").await;
        page.lines().find_map(|line| line.strip_prefix("vmpool_leader ")).map(|value| value == "1")
    }

    /// Restarts the controller with the same identity. If it is running, it is killed first.
    ///
    /// # Errors
    /// As [`ControllerProgram::start`].
    pub async fn restart(&self) -> Result<()> {
        self.program.start(AwaitedHealth::Live, |[health_port]| self.command(health_port)).await.map(drop)
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
            // The account may have no rights for other platforms. `extra` can name them.
            .arg("--platforms=dvp")
            .arg("--log-format=json")
            .arg(format!("--identity={identity}"))
            .args(extra);
        command
    }
}

/// A controller is a program with options.
impl Deref for ControllerProgram {
    type Target = RestartableProgram;

    fn deref(&self) -> &RestartableProgram {
        &self.program
    }
}
