//! The platform simulator as a child process. One simulator serves all namespaces of a cluster.

use std::ops::Deref;
use std::process::Command;

use vmpool_test_cluster::control_plane::ControlPlane;
use vmpool_test_cluster::error::Result;

use super::program::{AwaitedHealth, RestartableProgram};
use super::{SYSTEM_NAMESPACE, find_program};
use crate::workspace_root;

/// Name of the package and binary.
pub(super) const PROGRAM: &str = "vmpool-simulator";

/// The environment variable with the path of an alternative binary.
pub(super) const VARIABLE: &str = "VMPOOL_SIMULATOR";

/// Name of the service account.
const ACCOUNT: &str = "vmpool-simulator";

/// The simulator, running with its own service account. Dropping it kills it.
///
/// If it exits, machines and disks do not change anymore, and scenarios fail for that reason: see
/// [`RestartableProgram::check`].
#[derive(Debug)]
pub struct Simulator {
    program: RestartableProgram,
}

impl Simulator {
    /// Applies its roles, starts it, and waits until it is ready.
    ///
    /// # Errors
    /// [`vmpool_test_cluster::Error::MissingProgram`] if it was not built,
    /// [`vmpool_test_cluster::Error::Exited`] and [`vmpool_test_cluster::Error::NotInTime`] with the end of
    /// its log.
    pub async fn start(cluster: &ControlPlane) -> Result<Self> {
        Self::start_with(cluster, &[]).await
    }

    /// As [`Simulator::start`], with additional flags.
    ///
    /// # Errors
    /// As [`Simulator::start`].
    pub async fn start_with(cluster: &ControlPlane, flags: &[&str]) -> Result<Self> {
        let binary = find_program(PROGRAM, VARIABLE)?;
        cluster.apply_path(&workspace_root().join("e2e/simulator/rbac.yaml"), None).await?;
        let kubeconfig = cluster.service_account_kubeconfig(SYSTEM_NAMESPACE, ACCOUNT).await?;
        let program = RestartableProgram::new(PROGRAM, cluster.directory().join("simulator.log"));
        let command = |[health_port]: [u16; 1]| {
            let mut command = Command::new(&binary);
            command
                .arg(format!("--kubeconfig={}", kubeconfig.display()))
                .arg(format!("--health-address=127.0.0.1:{health_port}"))
                .args(flags);
            command
        };
        program.start(AwaitedHealth::Ready, command).await?;
        Ok(Self { program })
    }
}

/// A simulator is a program without options.
impl Deref for Simulator {
    type Target = RestartableProgram;

    fn deref(&self) -> &RestartableProgram {
        &self.program
    }
}
