//! The platform simulator as a child process. One serves all namespaces of a cluster.

use std::process::Command;
use std::time::{Duration, Instant};

use super::{SYSTEM_NAMESPACE, find, probe};
use crate::cluster::{Cluster, free_ports, port_was_taken, workspace_root};
use crate::error::Result;
use crate::process::Process;

/// Name of its package and binary.
pub(super) const PROGRAM: &str = "vmpool-simulator";

/// Names another binary.
pub(super) const VARIABLE: &str = "VMPOOL_SIMULATOR";

/// Name of its account.
const ACCOUNT: &str = "vmpool-simulator";

/// How long it may take until it is ready.
const START_DEADLINE: Duration = Duration::from_secs(30);

/// How often its health is asked for while it starts.
const POLL: Duration = Duration::from_millis(20);

/// How often somebody else may take the port that we just picked.
const PORT_ATTEMPTS: usize = 3;

/// The simulator, running under an account of its own. Dropping it kills it.
#[derive(Debug)]
pub struct Simulator {
    process: Process,
}

impl Simulator {
    /// Applies its roles, starts it, and waits until it is ready.
    ///
    /// # Errors
    /// [`crate::Error::MissingProgram`] if it was not built, [`crate::Error::Exited`] and
    /// [`crate::Error::NotInTime`] with the end of its log.
    pub async fn start(cluster: &Cluster) -> Result<Self> {
        let program = find(PROGRAM, VARIABLE)?;
        cluster.apply_path(&workspace_root().join("e2e/simulator/rbac.yaml"), None).await?;
        let kubeconfig = cluster.service_account_kubeconfig(SYSTEM_NAMESPACE, ACCOUNT).await?;
        for attempt in 1.. {
            let [port] = free_ports()?;
            let mut command = Command::new(&program);
            command
                .arg(format!("--kubeconfig={}", kubeconfig.display()))
                .arg(format!("--health-address=127.0.0.1:{port}"));
            let log = cluster.directory().join("simulator.log");
            let simulator = Self { process: Process::spawn(PROGRAM, command, log)? };
            match simulator.until_ready(port).await {
                Err(error) if attempt < PORT_ATTEMPTS && port_was_taken(&error) => {}
                result => return result.map(|()| simulator),
            }
        }
        unreachable!("the loop ends with its last attempt")
    }

    async fn until_ready(&self, port: u16) -> Result<()> {
        let begin = Instant::now();
        loop {
            let last = match probe::get(port, "/readyz").await {
                Ok((200, _)) => return Ok(()),
                Ok((code, body)) => format!("/readyz answered {code} {body}"),
                Err(error) => error,
            };
            if let Some(status) = self.process.exit_status() {
                return Err(self.process.exited(status));
            }
            if begin.elapsed() > START_DEADLINE {
                return Err(self.process.not_in_time("ready", START_DEADLINE, last));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// How it ended by itself, if it did: then nothing moves any more, and scenarios fail for that reason.
    ///
    /// # Errors
    /// [`crate::Error::Exited`].
    pub fn check(&self) -> Result<()> {
        self.process.exit_status().map_or(Ok(()), |status| Err(self.process.exited(status)))
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Kills it at once.
    pub(crate) fn kill(&self) {
        self.process.kill();
    }

    /// The last lines of its log.
    pub fn log_tail(&self, lines: usize) -> String {
        self.process.log_tail(lines)
    }

    /// Stops it where it stands: the platform does nothing until [`Simulator::resume`].
    ///
    /// # Errors
    /// [`crate::Error::Signal`].
    pub fn pause(&self) -> Result<()> {
        self.process.pause()
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// [`crate::Error::Signal`].
    pub fn resume(&self) -> Result<()> {
        self.process.resume()
    }
}
