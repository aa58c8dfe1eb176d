//! The controller as a child process.

use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{CONTROLLER_ACCOUNT, SYSTEM_NAMESPACE, find, probe};
use crate::cluster::{Cluster, free_ports, port_was_taken};
use crate::error::Result;
use crate::process::Process;

/// Name of its package and binary.
pub(super) const PROGRAM: &str = "vmpool-controller";

/// Names another binary.
pub(super) const VARIABLE: &str = "VMPOOL_CONTROLLER";

/// How long it may take until it is live.
const START_DEADLINE: Duration = Duration::from_secs(30);

/// How long a graceful end may take: it finishes the pass it is in.
const STOP_DEADLINE: Duration = Duration::from_secs(15);

/// How often its health is asked for while it starts.
const POLL: Duration = Duration::from_millis(20);

/// How often somebody else may take the port that we just picked.
const PORT_ATTEMPTS: usize = 3;

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
    /// Further flags, after all others.
    pub extra: Vec<String>,
}

impl ControllerOptions {
    /// The lease of 15 s that the chart has, renewed every 3 s.
    pub fn new(namespace: impl Into<String>, identity: impl Into<String>) -> Self {
        let namespace = namespace.into();
        Self {
            watch_namespace: Some(namespace.clone()),
            namespace,
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_interval: Duration::from_secs(3),
            extra: Vec::new(),
        }
    }

    /// As the chart runs it: for the pools of all namespaces, with its lease in [`SYSTEM_NAMESPACE`].
    pub fn everywhere(identity: impl Into<String>) -> Self {
        Self { watch_namespace: None, ..Self::new(SYSTEM_NAMESPACE, identity) }
    }

    /// Name of the lease that it competes for.
    pub const LEASE: &'static str = PROGRAM;
}

/// A controller, running under the chart's service account. Dropping it kills it.
#[derive(Debug)]
pub struct Controller {
    options: ControllerOptions,
    program: PathBuf,
    kubeconfig: PathBuf,
    log: PathBuf,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    process: Process,
    health_port: u16,
}

impl Controller {
    /// Starts a controller and waits until it is live. Whether it leads, and thus acts, is another matter.
    ///
    /// # Errors
    /// [`crate::Error::MissingProgram`] if it was not built, [`crate::Error::Exited`] and
    /// [`crate::Error::NotInTime`] with the end of its log.
    pub async fn start(cluster: &Cluster, options: ControllerOptions) -> Result<Self> {
        let program = find(PROGRAM, VARIABLE)?;
        let kubeconfig = cluster.service_account_kubeconfig(SYSTEM_NAMESPACE, CONTROLLER_ACCOUNT).await?;
        let log = cluster.unique_path(&format!("{}-{}", options.namespace, options.identity), "log");
        let controller = Self { options, program, kubeconfig, log, running: Mutex::new(None) };
        controller.restart().await?;
        Ok(controller)
    }

    /// Its name in the lease.
    pub fn identity(&self) -> &str {
        &self.options.identity
    }

    /// Starts it again under the same identity after it was stopped or killed. One that still runs is killed first.
    ///
    /// # Errors
    /// As [`Controller::start`].
    pub async fn restart(&self) -> Result<()> {
        for attempt in 1.. {
            match self.run_once().await {
                Err(error) if attempt < PORT_ATTEMPTS && port_was_taken(&error) => {}
                result => return result,
            }
        }
        unreachable!("the loop ends with its last attempt")
    }

    async fn run_once(&self) -> Result<()> {
        let [health_port] = free_ports()?;
        let ControllerOptions { namespace, watch_namespace, identity, lease_duration, renew_interval, extra } =
            &self.options;
        let mut command = Command::new(&self.program);
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
        let process = Process::spawn(format!("{PROGRAM} {identity}"), command, &self.log)?;
        *self.running.lock() = Some(Running { process, health_port });
        self.until_live(health_port).await
    }

    async fn until_live(&self, port: u16) -> Result<()> {
        let begin = Instant::now();
        loop {
            let last = match probe::get(port, "/livez").await {
                Ok((200, _)) => return Ok(()),
                Ok((code, body)) => format!("/livez answered {code} {body}"),
                Err(error) => error,
            };
            if let Some(running) = &*self.running.lock() {
                if let Some(status) = running.process.exit_status() {
                    return Err(running.process.exited(status));
                }
                if begin.elapsed() > START_DEADLINE {
                    return Err(running.process.not_in_time("live", START_DEADLINE, last));
                }
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// The HTTP code and body of one of its health endpoints, such as `/readyz`; code 0 and the reason if there is
    /// no answer.
    pub async fn probe(&self, path: &str) -> (u16, String) {
        let port = self.running.lock().as_ref().map(|running| running.health_port);
        match port {
            Some(port) => probe::get(port, path).await.unwrap_or_else(|reason| (0, reason)),
            None => (0, "it does not run".to_owned()),
        }
    }

    /// Kills it at once (SIGKILL): its requests in flight may still be carried out.
    pub fn kill(&self) {
        self.running.lock().take();
    }

    /// Stops it where it stands (SIGSTOP).
    ///
    /// # Errors
    /// [`crate::Error::Signal`].
    pub fn pause(&self) -> Result<()> {
        self.with_process(Process::pause)
    }

    /// Lets it go on (SIGCONT).
    ///
    /// # Errors
    /// [`crate::Error::Signal`].
    pub fn resume(&self) -> Result<()> {
        self.with_process(Process::resume)
    }

    /// Asks it to end, and says how it did; `None` if it did not run.
    ///
    /// # Errors
    /// [`crate::Error::NotInTime`] if it had to be killed.
    pub async fn stop(&self) -> Result<Option<ExitStatus>> {
        let running = self.running.lock().take();
        match running {
            Some(running) => {
                // One that is paused cannot hear.
                running.process.resume()?;
                running.process.stop(STOP_DEADLINE).await.map(Some)
            }
            None => Ok(None),
        }
    }

    /// How it ended by itself, if it did.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.running.lock().as_ref().and_then(|running| running.process.exit_status())
    }

    /// Its process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.running.lock().as_ref().map(|running| running.process.pid())
    }

    /// The last lines of its log, of all its lives.
    pub fn log_tail(&self, lines: usize) -> String {
        crate::process::tail(&self.log, lines)
    }

    /// The file with its log, of all its lives.
    pub fn log(&self) -> &std::path::Path {
        &self.log
    }

    fn with_process(&self, act: impl FnOnce(&Process) -> Result<()>) -> Result<()> {
        self.running.lock().as_ref().map_or(Ok(()), |running| act(&running.process))
    }
}
