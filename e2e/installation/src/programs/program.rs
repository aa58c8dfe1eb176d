//! Common functions for the project's programs as child processes: a health port, one log across restarts,
//! signals.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use parking_lot::Mutex;
use vmpool_test_cluster::control_plane::{free_ports, port_was_taken};
use vmpool_test_cluster::deadline::Deadline;
use vmpool_test_cluster::error::Result;
use vmpool_test_cluster::http_probe;
use vmpool_test_cluster::process::ChildProcess;

/// How long a program may take until it is live, on a busy host.
const START_DEADLINE: Duration = Duration::from_secs(30);

/// Timeout of a graceful shutdown, in which the program completes its current work.
const STOP_DEADLINE: Duration = Duration::from_secs(15);

/// Poll interval of the health endpoint during the start.
const POLL: Duration = Duration::from_millis(20);

/// How often the start is retried if another process takes a selected port.
const PORT_ATTEMPTS: usize = 3;

/// A program that can be killed and restarted. Dropping it kills it.
#[derive(Debug)]
pub struct RestartableProgram {
    name: String,
    log: PathBuf,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    process: ChildProcess,
    health_port: u16,
}

/// The state to wait for after the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AwaitedHealth {
    /// `/livez` returns 200.
    Live,
    /// `/readyz` returns 200.
    Ready,
}

impl AwaitedHealth {
    fn path(self) -> &'static str {
        match self {
            Self::Live => "/livez",
            Self::Ready => "/readyz",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Ready => "ready",
        }
    }
}

impl RestartableProgram {
    /// A program that is not running yet.
    pub(super) fn new(name: impl Into<String>, log: PathBuf) -> Self {
        Self { name: name.into(), log, running: Mutex::new(None) }
    }

    /// Starts the program and waits until it is in `state`, or until another task kills or stops it. If it is
    /// running, it is killed first. `command` gets `N` unused ports; the first one is for the health
    /// endpoints.
    ///
    /// # Errors
    /// [`vmpool_test_cluster::Error::Exited`] and [`vmpool_test_cluster::Error::NotInTime`] with the end of
    /// its log, [`vmpool_test_cluster::Error::Port`].
    pub(super) async fn start<const N: usize>(
        &self,
        state: AwaitedHealth,
        command: impl Fn([u16; N]) -> Command,
    ) -> Result<[u16; N]> {
        for attempt in 1.. {
            let ports = free_ports()?;
            // Otherwise the new process would conflict with the old one.
            self.kill();
            let process = ChildProcess::spawn(&self.name, command(ports), &self.log)?;
            *self.running.lock() = Some(Running { process, health_port: ports[0] });
            match self.until(state).await {
                Err(error) if attempt < PORT_ATTEMPTS && port_was_taken(&error) => {}
                result => return result.map(|()| ports),
            }
        }
        unreachable!("the loop ends with its last attempt")
    }

    async fn until(&self, state: AwaitedHealth) -> Result<()> {
        let deadline = Deadline::after(START_DEADLINE);
        loop {
            let last = match self.probe(state.path()).await {
                (200, _) => return Ok(()),
                (0, reason) => reason,
                (code, body) => format!("{} returned {code} {body}", state.path()),
            };
            match &*self.running.lock() {
                // A trap of the scenario may have killed the program meanwhile. The scenario knows about
                // that.
                None => return Ok(()),
                Some(running) => {
                    running.process.check()?;
                    if deadline.is_over() {
                        return Err(running.process.not_in_time(state.word(), deadline.elapsed(), last));
                    }
                }
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// The status code and body of a health endpoint, such as `/readyz`; code 0 and the error if there is no
    /// response.
    pub async fn probe(&self, path: &str) -> (u16, String) {
        let port = self.running.lock().as_ref().map(|running| running.health_port);
        match port {
            Some(port) => http_probe::get_from_port(port, path).await.unwrap_or_else(|reason| (0, reason)),
            None => (0, "the program is not running".to_owned()),
        }
    }

    /// As [`RestartableProgram::probe`], with a bearer token.
    pub async fn probe_with_token(&self, path: &str, token: &str) -> (u16, String) {
        let port = self.running.lock().as_ref().map(|running| running.health_port);
        match port {
            Some(port) => {
                http_probe::get_with_token(port, path, token).await.unwrap_or_else(|reason| (0, reason))
            }
            None => (0, "the program is not running".to_owned()),
        }
    }

    /// Kills the program (SIGKILL). Its open requests may still be handled.
    pub fn kill(&self) {
        let running = self.running.lock().take();
        drop(running);
    }

    /// Pauses the program (SIGSTOP).
    ///
    /// # Errors
    /// [`vmpool_test_cluster::Error::Signal`].
    pub fn pause(&self) -> Result<()> {
        self.with_process(ChildProcess::pause)
    }

    /// Resumes the program (SIGCONT).
    ///
    /// # Errors
    /// [`vmpool_test_cluster::Error::Signal`].
    pub fn resume(&self) -> Result<()> {
        self.with_process(ChildProcess::resume)
    }

    /// Requests the program to exit, and returns its exit status; `None` if it was not running.
    ///
    /// # Errors
    /// [`vmpool_test_cluster::Error::NotInTime`] if it had to be killed.
    pub async fn stop(&self) -> Result<Option<ExitStatus>> {
        let running = self.running.lock().take();
        match running {
            Some(running) => {
                // A paused process does not handle signals.
                running.process.resume()?;
                running.process.stop(STOP_DEADLINE).await.map(Some)
            }
            None => Ok(None),
        }
    }

    /// The exit status if the program exited on its own.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.running.lock().as_ref().and_then(|running| running.process.exit_status())
    }

    /// Fails if the program exited on its own.
    ///
    /// # Errors
    /// [`vmpool_test_cluster::Error::Exited`] with the end of its log.
    pub fn check(&self) -> Result<()> {
        self.running.lock().as_ref().map_or(Ok(()), |running| running.process.check())
    }

    /// The process id while the program runs.
    pub fn pid(&self) -> Option<u32> {
        self.running.lock().as_ref().map(|running| running.process.pid())
    }

    /// The last lines of its log, across restarts.
    pub fn log_tail(&self, lines: usize) -> String {
        vmpool_test_cluster::process::last_lines(&self.log, lines)
    }

    /// The log file, across restarts.
    pub fn log(&self) -> &Path {
        &self.log
    }

    fn with_process(&self, act: impl FnOnce(&ChildProcess) -> Result<()>) -> Result<()> {
        self.running.lock().as_ref().map_or(Ok(()), |running| act(&running.process))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmpool_test_cluster::deadline::Stopwatch;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn start_returns_if_the_program_is_killed_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let program = std::sync::Arc::new(RestartableProgram::new("deaf", folder.path().join("log")));
        let killer = program.clone();
        tokio::spawn(async move {
            while killer.pid().is_none() {
                tokio::time::sleep(POLL).await;
            }
            tokio::time::sleep(POLL * 5).await;
            killer.kill();
        });
        let watch = Stopwatch::start();
        let started = program.start(AwaitedHealth::Live, |[_]: [u16; 1]| {
            let mut command = Command::new("sleep");
            command.arg("600");
            command
        });
        started.await.unwrap();
        assert!(watch.elapsed().time < START_DEADLINE, "{}", watch.elapsed());
        assert_eq!(program.pid(), None);
    }
}
