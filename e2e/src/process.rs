//! Child processes that cannot outlive the harness.
//!
//! Three nets, the outermost first:
//!
//! * on Linux the kernel kills a child when the harness dies, however it dies (`PR_SET_PDEATHSIG`);
//! * dropping a [`Process`] kills it with its whole process group and reaps it (what a child that ended by itself left
//!   in its group stays: none of ours forks);
//! * every child has a process group of its own, so that a Ctrl-C for the harness does not reach the children
//!   in an order of the terminal's choosing.
//!
//! The trap in the first net: the signal is sent when the *thread* that forked ends, not the process. A test
//! thread or a blocking thread of a runtime would take its children along, so all children are forked by one
//! thread that lives as long as the process.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal};

use crate::deadline::{Deadline, Elapsed};
use crate::error::{Error, LogTail, Result};

#[cfg(test)]
mod tests;

/// How often a child is asked whether it has ended. The kernel could tell, but only for one waiter.
const POLL: Duration = Duration::from_millis(10);

/// How many lines of a log go into an error.
pub const TAIL_LINES: usize = 25;

/// A child process, alive or ended. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    pid: u32,
    /// The lock makes "still ours, then signal" one step: a process id is only reused after the child was reaped.
    child: Mutex<Child>,
}

impl Process {
    /// Starts `command` under `name`, with everything it prints appended to the file `log`.
    ///
    /// # Errors
    /// [`Error::File`] if the log cannot be opened, [`Error::Spawn`] if the program cannot be started.
    pub fn spawn(name: impl Into<String>, mut command: Command, log: impl Into<PathBuf>) -> Result<Self> {
        let (name, log) = (name.into(), log.into());
        let output = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(Error::file("opening the log", &log))?;
        let errors = output.try_clone().map_err(Error::file("opening the log", &log))?;
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = fork(command).map_err(|source| Error::Spawn { name: name.clone(), source })?;
        tracing::debug!(name, pid = child.id(), log = %log.display(), "started");
        Ok(Self { name, log, pid: child.id(), child: Mutex::new(child) })
    }

    /// The name that was given to it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The file with everything it printed.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The last lines it printed.
    pub fn log_tail(&self, lines: usize) -> String {
        tail(&self.log, lines)
    }

    /// How it ended, or `None` while it runs (or is paused).
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.child.lock().try_wait().ok().flatten()
    }

    /// Stops it where it stands (SIGSTOP).
    ///
    /// # Errors
    /// [`Error::Signal`] if the system refuses; an ended process is no error.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP, "SIGSTOP")
    }

    /// Lets it go on after [`Process::pause`] (SIGCONT).
    ///
    /// # Errors
    /// [`Error::Signal`] if the system refuses; an ended process is no error.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT, "SIGCONT")
    }

    /// Asks it to end (SIGTERM).
    ///
    /// # Errors
    /// [`Error::Signal`] if the system refuses; an ended process is no error.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM, "SIGTERM")
    }

    /// Fails if it has ended.
    ///
    /// # Errors
    /// [`Error::Exited`] with the end of its log.
    pub fn check(&self) -> Result<()> {
        self.exit_status().map_or(Ok(()), |status| Err(self.exited(status)))
    }

    /// Ends it at once, without a chance to tidy up (SIGKILL), and waits until the kernel has done so.
    pub fn kill(&self) {
        let mut child = self.child.lock();
        if child.try_wait().ok().flatten().is_none() {
            if let Some(group) = pid(child.id()) {
                // Its own children go with it. Nothing to do about a refusal: `wait` below is the judge.
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Waits until it has ended by itself or after a signal.
    ///
    /// # Errors
    /// [`Error::NotInTime`] after the deadline.
    pub async fn wait(&self, deadline: Duration) -> Result<ExitStatus> {
        let deadline = Deadline::after(deadline);
        loop {
            if let Some(status) = self.exit_status() {
                return Ok(status);
            }
            if deadline.is_over() {
                return Err(self.not_in_time("gone", deadline.elapsed(), String::new()));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Asks it to end, and kills it after the deadline.
    ///
    /// # Errors
    /// [`Error::NotInTime`] if it had to be killed.
    pub async fn stop(&self, deadline: Duration) -> Result<ExitStatus> {
        self.terminate()?;
        let waited = self.wait(deadline).await;
        self.kill();
        waited
    }

    /// The error of a child that ended although it was needed.
    pub fn exited(&self, status: ExitStatus) -> Error {
        Error::Exited { name: self.name.clone(), status, log: Box::new(self.last_words()) }
    }

    /// The error of a child that is too slow.
    pub fn not_in_time(&self, state: &'static str, after: Elapsed, last: String) -> Error {
        Error::NotInTime { name: self.name.clone(), state, after, last, log: Box::new(self.last_words()) }
    }

    fn last_words(&self) -> LogTail {
        LogTail { path: self.log.clone(), lines: self.log_tail(TAIL_LINES) }
    }

    fn signal(&self, signal: Signal, name: &'static str) -> Result<()> {
        let mut child = self.child.lock();
        let ended = child.try_wait().ok().flatten().is_some();
        match pid(child.id()) {
            Some(target) if !ended => rustix::process::kill_process(target, signal).map_err(|source| {
                Error::Signal { name: self.name.clone(), signal: name, source: source.into() }
            }),
            _ => Ok(()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a short command to its end and returns what it printed, whatever its exit status.
///
/// # Errors
/// [`Error::Spawn`] if it cannot be started or read, also when it had to be killed after `deadline`.
pub async fn output(name: &str, mut command: Command, deadline: Duration) -> Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let spawn_error = |source| Error::Spawn { name: name.to_owned(), source };
    let child = fork(command).map_err(spawn_error)?;
    let target = pid(child.id());
    let finished = tokio::task::spawn_blocking(move || child.wait_with_output());
    match tokio::time::timeout(deadline, finished).await {
        Ok(Ok(output)) => output.map_err(spawn_error),
        Ok(Err(join)) => Err(spawn_error(io::Error::other(join))),
        Err(_elapsed) => {
            // Not reaped yet, or the task would have answered: the id is still the child's.
            if let Some(target) = target {
                let _ = rustix::process::kill_process_group(target, Signal::KILL);
            }
            Err(spawn_error(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("no end after {deadline:?}, killed"),
            )))
        }
    }
}

/// The last `lines` lines of a file; empty if it cannot be read.
pub fn tail(path: &Path, lines: usize) -> String {
    /// A line of a log rarely takes more.
    const BYTES_PER_LINE: u64 = 512;
    let read = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let wanted = (lines as u64).saturating_mul(BYTES_PER_LINE).min(length);
        file.seek(SeekFrom::Start(length - wanted))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

fn pid(raw: u32) -> Option<Pid> {
    i32::try_from(raw).ok().and_then(Pid::from_raw)
}

/// One order to the forking thread, and where its answer goes.
type Order = (Command, mpsc::SyncSender<io::Result<Child>>);

/// Forks on the one thread that never ends before the process does.
fn fork(mut command: Command) -> io::Result<Child> {
    static FORKER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    command.process_group(0);
    die_with_parent(&mut command);
    let forker = FORKER.get_or_init(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in inbox {
                let _ = answer.send(command.spawn());
            }
        });
        orders
    });
    let (answer, result) = mpsc::sync_channel(1);
    let gone = || io::Error::other("the forking thread is gone");
    forker.send((command, answer)).map_err(|_| gone())?;
    result.recv().map_err(|_| gone())?
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the standard library offers no safe way to run code between fork and exec")]
fn die_with_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    // SAFETY: the closure makes two system calls and neither allocates nor takes locks, as is required between
    // fork and exec of a process with threads.
    unsafe {
        command.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have died between fork and the line above.
            if rustix::process::getppid() == Some(parent) {
                Ok(())
            } else {
                Err(io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error()))
            }
        });
    }
}

/// Elsewhere the drop of [`Process`] is the only net.
#[cfg(not(target_os = "linux"))]
fn die_with_parent(_command: &mut Command) {}
