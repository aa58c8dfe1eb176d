//! What our programs have in common as child processes: a health port, one log for all lives, signals.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use parking_lot::Mutex;

use super::probe;
use crate::cluster::{free_ports, port_was_taken};
use crate::deadline::Deadline;
use crate::error::Result;
use crate::process::Process;

/// How long a program may take until it is live, on a busy machine.
const START_DEADLINE: Duration = Duration::from_secs(30);

/// How long a graceful end may take: it finishes what it is in.
const STOP_DEADLINE: Duration = Duration::from_secs(15);

/// How often its health is asked for while it starts.
const POLL: Duration = Duration::from_millis(20);

/// How often somebody else may take the port that we just picked.
const PORT_ATTEMPTS: usize = 3;

/// A program of ours that can be killed and started again. Dropping it kills it.
#[derive(Debug)]
pub struct Program {
    name: String,
    log: PathBuf,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    process: Process,
    health_port: u16,
}

/// What a program that was just started is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// `/livez` answers 200.
    Live,
    /// `/readyz` answers 200.
    Ready,
}

impl State {
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

impl Program {
    /// A program that does not run yet.
    pub(super) fn new(name: impl Into<String>, log: PathBuf) -> Self {
        Self { name: name.into(), log, running: Mutex::new(None) }
    }

    /// Starts it and waits until it is in `state`, or until somebody else kills or stops it. One that still runs is killed
    /// first. `command` gets `N` ports that were free a moment ago; the first one is for its health endpoints.
    ///
    /// # Errors
    /// [`crate::Error::Exited`] and [`crate::Error::NotInTime`] with the end of its log, [`crate::Error::Port`].
    pub(super) async fn start<const N: usize>(
        &self,
        state: State,
        command: impl Fn([u16; N]) -> Command,
    ) -> Result<[u16; N]> {
        for attempt in 1.. {
            let ports = free_ports()?;
            // Else the new one would find its former life in its way.
            self.kill();
            let process = Process::spawn(&self.name, command(ports), &self.log)?;
            *self.running.lock() = Some(Running { process, health_port: ports[0] });
            match self.until(state).await {
                Err(error) if attempt < PORT_ATTEMPTS && port_was_taken(&error) => {}
                result => return result.map(|()| ports),
            }
        }
        unreachable!("the loop ends with its last attempt")
    }

    async fn until(&self, state: State) -> Result<()> {
        let deadline = Deadline::after(START_DEADLINE);
        loop {
            let last = match self.probe(state.path()).await {
                (200, _) => return Ok(()),
                (0, reason) => reason,
                (code, body) => format!("{} answered {code} {body}", state.path()),
            };
            match &*self.running.lock() {
                // A trap of the scenario may be quicker than our question. Who takes a program away knows of it.
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
        let running = self.running.lock().take();
        drop(running);
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

    /// Fails if it ended by itself.
    ///
    /// # Errors
    /// [`crate::Error::Exited`] with the end of its log.
    pub fn check(&self) -> Result<()> {
        self.running.lock().as_ref().map_or(Ok(()), |running| running.process.check())
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
    pub fn log(&self) -> &Path {
        &self.log
    }

    fn with_process(&self, act: impl FnOnce(&Process) -> Result<()>) -> Result<()> {
        self.running.lock().as_ref().map_or(Ok(()), |running| act(&running.process))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deadline::Stopwatch;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nobody_waits_for_one_that_is_killed_while_it_starts() {
        let folder = tempfile::tempdir().unwrap();
        let program = std::sync::Arc::new(Program::new("deaf", folder.path().join("log")));
        let killer = program.clone();
        tokio::spawn(async move {
            while killer.pid().is_none() {
                tokio::time::sleep(POLL).await;
            }
            tokio::time::sleep(POLL * 5).await;
            killer.kill();
        });
        let watch = Stopwatch::start();
        let started = program.start(State::Live, |[_]: [u16; 1]| {
            let mut command = Command::new("sleep");
            command.arg("600");
            command
        });
        started.await.unwrap();
        assert!(watch.elapsed().time < START_DEADLINE, "{}", watch.elapsed());
        assert_eq!(program.pid(), None);
    }
}
