//! Child processes that cannot outlive the harness.
//!
//! Three mechanisms ensure that, the outermost first:
//!
//! * on Linux the kernel kills a child when the harness exits for any reason (`PR_SET_PDEATHSIG`);
//! * dropping a [`ChildProcess`] kills its whole process group and reaps it (processes in the group of a
//!   child that has exited on its own are not killed, but none of the children forks);
//! * every child has its own process group, so that a Ctrl-C for the harness does not reach the children in
//!   an arbitrary order.
//!
//! Caution with the first mechanism: the kernel sends the signal when the *thread* that forked exits, not the
//! process. A test thread or a blocking thread of a runtime would kill its children when it exits. Therefore
//! one thread, which exists as long as the process, forks all children.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal};

use crate::deadline::{Deadline, ElapsedTime};
use crate::error::{Error, LogTail, Result};

#[cfg(test)]
mod tests;

/// Poll interval for the exit of a child. The kernel could report it, but only to one waiter.
const POLL: Duration = Duration::from_millis(10);

/// Number of log lines in an error.
pub const TAIL_LINES: usize = 25;

/// A child process, running or exited. Dropping it kills it.
#[derive(Debug)]
pub struct ChildProcess {
    name: String,
    log: PathBuf,
    pid: u32,
    /// The lock makes "check that it is not reaped, then signal" atomic: a process id is reused only after
    /// the child was reaped.
    child: Mutex<Child>,
}

impl ChildProcess {
    /// Starts `command` under `name`, and appends its output to the file `log`.
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

    /// The name of the process.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The log file.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The last lines of the log.
    pub fn log_tail(&self, lines: usize) -> String {
        last_lines(&self.log, lines)
    }

    /// The exit status; `None` while the process runs or is paused.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.child.lock().try_wait().ok().flatten()
    }

    /// Pauses the process (SIGSTOP).
    ///
    /// # Errors
    /// [`Error::Signal`] if the signal cannot be sent; not for an exited process.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP, "SIGSTOP")
    }

    /// Resumes the process after [`ChildProcess::pause`] (SIGCONT).
    ///
    /// # Errors
    /// [`Error::Signal`] if the signal cannot be sent; not for an exited process.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT, "SIGCONT")
    }

    /// Requests the process to exit (SIGTERM).
    ///
    /// # Errors
    /// [`Error::Signal`] if the signal cannot be sent; not for an exited process.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM, "SIGTERM")
    }

    /// Fails if the process has exited.
    ///
    /// # Errors
    /// [`Error::Exited`] with the end of its log.
    pub fn check(&self) -> Result<()> {
        self.exit_status().map_or(Ok(()), |status| Err(self.exited(status)))
    }

    /// Kills the process (SIGKILL) and waits until the kernel has done so.
    pub fn kill(&self) {
        let mut child = self.child.lock();
        if child.try_wait().ok().flatten().is_none() {
            if let Some(group) = pid(child.id()) {
                // This kills its children, too. An error is ignored, because `wait` below shows the result.
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Waits until the process exits.
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

    /// Requests the process to exit, and kills it after the deadline.
    ///
    /// # Errors
    /// [`Error::NotInTime`] if it had to be killed.
    pub async fn stop(&self, deadline: Duration) -> Result<ExitStatus> {
        self.terminate()?;
        let waited = self.wait(deadline).await;
        self.kill();
        waited
    }

    /// The error for a process that exited although it was needed.
    pub fn exited(&self, status: ExitStatus) -> Error {
        Error::Exited { name: self.name.clone(), status, log: Box::new(self.last_words()) }
    }

    /// The error for a process that is too slow.
    pub fn not_in_time(&self, state: &'static str, after: ElapsedTime, last: String) -> Error {
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

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a short command to its end and returns its output, regardless of its exit status.
///
/// # Errors
/// [`Error::Spawn`] if it cannot be started or read, or was killed after `deadline`.
pub async fn command_output(name: &str, mut command: Command, deadline: Duration) -> Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let spawn_error = |source| Error::Spawn { name: name.to_owned(), source };
    let child = fork(command).map_err(spawn_error)?;
    let target = pid(child.id());
    let finished = tokio::task::spawn_blocking(move || child.wait_with_output());
    match tokio::time::timeout(deadline, finished).await {
        Ok(Ok(output)) => output.map_err(spawn_error),
        Ok(Err(join)) => Err(spawn_error(io::Error::other(join))),
        Err(_elapsed) => {
            // The process is not reaped yet, because the task has not finished. So the process id is valid.
            if let Some(target) = target {
                let _ = rustix::process::kill_process_group(target, Signal::KILL);
            }
            Err(spawn_error(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("still running after {deadline:?}, killed"),
            )))
        }
    }
}

/// The last `lines` lines of a file; empty if it cannot be read.
pub fn last_lines(path: &Path, lines: usize) -> String {
    /// Typical maximum length of a log line.
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

/// A request to the forking thread, with the channel for its response.
type Order = (Command, mpsc::SyncSender<io::Result<Child>>);

/// Forks on a thread that exists as long as the process.
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
    let gone = || io::Error::other("the forking thread has ended");
    forker.send((command, answer)).map_err(|_| gone())?;
    result.recv().map_err(|_| gone())?
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the standard library offers no safe way to run code between fork and exec")]
fn die_with_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    // SAFETY: the closure makes two system calls, which neither allocate nor take locks, as required between
    // fork and exec of a process with threads.
    unsafe {
        command.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have exited between fork and the line above.
            if rustix::process::getppid() == Some(parent) {
                Ok(())
            } else {
                Err(io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error()))
            }
        });
    }
}

/// On other systems only the drop of [`ChildProcess`] kills children.
#[cfg(not(target_os = "linux"))]
fn die_with_parent(_command: &mut Command) {}
