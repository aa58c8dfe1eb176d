//! `up`, `down` and `status`.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal};
use vmpool_installation::{programs, release};
use vmpool_test_cluster::{binaries, control_plane, node, process};

use super::directory::{
    PLUGIN, PLUGIN_VARIABLE, POLL, PlaygroundDirectory, PlaygroundKind, PlaygroundState, Ready,
    SupervisorRecord,
};
use super::messages::{self, ProgressLog};
use super::output::say;

/// How long a start may take on a busy host. It only limits failures.
const START_PATIENCE: Duration = Duration::from_mins(5);

/// How long a graceful stop may take: 15 s for each program that ignores SIGTERM.
const STOP_PATIENCE: Duration = Duration::from_secs(90);

/// How long an API server may be unready before it counts as broken. A slow disk makes it unready for a
/// moment.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);

/// How long the kernel may take to end a process after SIGKILL.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// Starts a playground, unless one is up and responds.
///
/// # Errors
/// A missing program on one line, or the reason why the playground did not start.
pub(crate) fn start_playground(place: &PlaygroundDirectory) -> anyhow::Result<()> {
    let _turn = place.lock_commands()?;
    check(place.kind())?;
    let begin = Instant::now();
    match place.look()? {
        PlaygroundState::Running(record) => {
            let ready = if let Some(ready) = record.ready.clone() {
                ready
            } else {
                say!("It is starting already.");
                until_ready(place, None)?
            };
            let Err(reason) = answers(place, &ready) else {
                say!("The playground is up already, since {}.", messages::format_timestamp(ready.since));
                messages::what_to_try(place, &ready);
                return Ok(());
            };
            say!("There is a playground, but it does not respond: {reason}");
            say!("Stopping it, which may take a minute, and starting a new one. Its data is lost.");
            stop(place, &record)?;
            place.remove()?;
        }
        PlaygroundState::Remains => {
            say!("An earlier playground has exited. The end of its log:");
            say!("{}", messages::indent_program_output(&process::last_lines(&place.log(), 3)));
            say!("Removing its files, and starting a new one.");
            place.remove()?;
        }
        PlaygroundState::Nothing => {}
    }
    place.create()?;
    let supervisor = spawn(place).inspect_err(|_| {
        // No program was started, so there is no log to keep.
        let _ = place.remove();
    })?;
    let ready = until_ready(place, Some(supervisor))?;
    say!("The playground is up after {:.1} s.", begin.elapsed().as_secs_f32());
    messages::what_to_try(place, &ready);
    Ok(())
}

/// Stops the playground and removes its files.
///
/// # Errors
/// If it cannot be stopped or its directory cannot be removed.
pub(crate) fn stop_playground(place: &PlaygroundDirectory) -> anyhow::Result<()> {
    let _turn = place.lock_commands()?;
    match place.look()? {
        PlaygroundState::Nothing => say!("Nothing is up."),
        PlaygroundState::Remains => {
            place.remove()?;
            say!("Nothing is up; removed the files of an earlier playground.");
        }
        PlaygroundState::Running(record) => {
            say!("Stopping the playground ...");
            let begin = Instant::now();
            stop(place, &record)?;
            place.remove()?;
            say!("Everything is stopped and removed after {:.1} s.", begin.elapsed().as_secs_f32());
        }
    }
    Ok(())
}

/// Prints the state of the playground.
///
/// # Errors
/// If the playground has exited or does not respond, so that scripts can detect it.
pub(crate) fn print_playground_status(place: &PlaygroundDirectory) -> anyhow::Result<()> {
    match place.look()? {
        PlaygroundState::Nothing => say!("Nothing is up."),
        PlaygroundState::Remains => {
            bail!("the playground has exited; `{}` starts a new one", place.kind().target("up"))
        }
        PlaygroundState::Running(SupervisorRecord { ready: None, .. }) => say!("The playground is starting."),
        PlaygroundState::Running(SupervisorRecord { pid, ready: Some(ready) }) => {
            answers(place, &ready)
                .map_err(|reason| anyhow::anyhow!("the playground does not respond: {reason}"))?;
            say!("The playground is up since {}.\n", messages::format_timestamp(ready.since));
            say!("  {:<16} pid {pid}", "supervisor");
            for part in &ready.parts {
                let pid = part.pid.map_or_else(|| "ended".to_owned(), |pid| format!("pid {pid}"));
                say!("  {:<16} {pid}", part.name);
            }
            messages::what_to_try(place, &ready);
        }
    }
    Ok(())
}

/// Checks that all programs for a start exist.
fn check(kind: PlaygroundKind) -> anyhow::Result<()> {
    if kind == PlaygroundKind::Node {
        if let Some(missing) = node::missing_host_requirement() {
            bail!(missing);
        }
        release::check_helm()?;
    }
    control_plane::check_tools()?;
    programs::check_programs_built()?;
    binaries::find_program(PLUGIN, PLUGIN_VARIABLE)?;
    Ok(())
}

/// Starts the supervisor, which outlives this process: it has no pipe, no terminal, and creates a session of
/// its own.
fn spawn(place: &PlaygroundDirectory) -> anyhow::Result<Child> {
    // A build may have replaced the program's file meanwhile; the link leads to the running program.
    let link = PathBuf::from("/proc/self/exe");
    let own =
        if link.exists() { link } else { std::env::current_exe().context("finding the running program")? };
    let log = File::create(place.log()).with_context(|| format!("creating {}", place.log().display()))?;
    let errors = log.try_clone().context("sharing the log")?;
    let mut command = Command::new(own);
    command.arg0("playground");
    if place.kind() == PlaygroundKind::Node {
        command.arg("--node");
    }
    command
        .arg("run")
        .arg(place.directory())
        .current_dir(vmpool_installation::workspace_root())
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .spawn()
        .context("starting the supervisor")
}

/// Prints the supervisor's progress until it is ready.
fn until_ready(place: &PlaygroundDirectory, mut supervisor: Option<Child>) -> anyhow::Result<Ready> {
    let begin = Instant::now();
    let mut progress = ProgressLog::of(place);
    loop {
        // This is checked first, so that the lines that it wrote before its exit are read below.
        let ended = match &mut supervisor {
            Some(child) => child.try_wait().context("waiting for the supervisor")?.is_some(),
            None => !place.is_held()?,
        };
        progress.show();
        if let Ok(SupervisorRecord { ready: Some(ready), .. }) = place.read() {
            return Ok(ready);
        }
        if ended {
            let last = process::last_lines(&place.log(), process::TAIL_LINES);
            bail!(
                "the playground did not start; the end of {}:\n{}",
                place.log().display(),
                messages::indent_program_output(&last)
            );
        }
        if begin.elapsed() > START_PATIENCE {
            bail!(
                "not ready after {START_PATIENCE:?}; `{}` stops it, and {} contains the reason",
                place.kind().target("down"),
                place.log().display()
            );
        }
        std::thread::sleep(POLL);
    }
}

/// Whether the API server responds. The supervisor restarts the other programs.
fn answers(place: &PlaygroundDirectory, ready: &Ready) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        match answers_now(place, ready) {
            Err(_) if begin.elapsed() < ANSWER_PATIENCE => std::thread::sleep(POLL),
            result => return result,
        }
    }
}

fn answers_now(place: &PlaygroundDirectory, ready: &Ready) -> Result<(), String> {
    let output = Command::new(&ready.kubectl)
        .arg(format!("--kubeconfig={}", place.kubeconfig().display()))
        .args(["--request-timeout=10s", "get", "--raw", "/readyz"])
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("kubectl cannot be run: {error}"))?;
    let words = String::from_utf8_lossy(&output.stderr);
    let last = words.lines().last().unwrap_or_default();
    if output.status.success() { Ok(()) } else { Err(format!("its API server does not respond ({last})")) }
}

/// Requests the supervisor to exit, and kills it with all its children if it does not.
fn stop(place: &PlaygroundDirectory, record: &SupervisorRecord) -> anyhow::Result<()> {
    // A paused supervisor handles SIGTERM after SIGCONT.
    for request in [Signal::TERM, Signal::CONT] {
        signal(place, record.pid, request)?;
    }
    if until_released(place, STOP_PATIENCE)? {
        return Ok(());
    }
    say!("It has not stopped after {STOP_PATIENCE:?}: killing it.");
    signal(place, record.pid, Signal::KILL)?;
    if until_released(place, KILL_PATIENCE)? {
        return Ok(());
    }
    bail!("the supervisor, process {}, does not exit", record.pid)
}

fn until_released(place: &PlaygroundDirectory, patience: Duration) -> anyhow::Result<bool> {
    let begin = Instant::now();
    while place.is_held()? {
        if begin.elapsed() > patience {
            return Ok(false);
        }
        std::thread::sleep(POLL);
    }
    Ok(true)
}

/// Signals the supervisor, and never another process that has got its process id.
#[cfg(target_os = "linux")]
fn signal(place: &PlaygroundDirectory, pid: u32, signal: Signal) -> anyhow::Result<()> {
    use rustix::io::Errno;
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

    let doing = || format!("sending a signal to the supervisor, process {pid}");
    let handle = match pidfd_open(raw(pid)?, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(Errno::SRCH) if !place.is_held()? => return Ok(()),
        Err(error) => return Err(error).with_context(doing),
    };
    // The handle always refers to the same process. If the lock is still held now, its holder has not exited
    // since it wrote its id, so the handle refers to the holder.
    if !place.is_held()? {
        return Ok(());
    }
    // The check above is wrong only for a playground that several containers share, because their process ids
    // differ.
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let directory = place.directory().as_os_str().as_encoded_bytes();
    if !command.split(|byte| *byte == 0).any(|word| word == directory) {
        bail!("process {pid} is not the supervisor; was the playground started in another container?");
    }
    match pidfd_send_signal(handle, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error).with_context(doing),
    }
}

/// Signals the supervisor if it holds its lock.
#[cfg(not(target_os = "linux"))]
fn signal(place: &PlaygroundDirectory, pid: u32, signal: Signal) -> anyhow::Result<()> {
    if !place.is_held()? {
        return Ok(());
    }
    rustix::process::kill_process(raw(pid)?, signal)
        .with_context(|| format!("sending a signal to the supervisor, process {pid}"))
}

fn raw(pid: u32) -> anyhow::Result<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw).context("the record has no process id")
}
