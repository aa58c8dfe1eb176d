//! `up`, `down` and `status`.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal};
use vmpool_installation::{programs, release};
use vmpool_test_cluster::{control_plane, node, process};

use super::place::{Found, Kind, POLL, Place, Ready, Record};
use super::talk::{self, Progress, say};

/// How long a start may take on a busy machine. It only bounds a failure.
const START_PATIENCE: Duration = Duration::from_mins(5);

/// How long an orderly stop may take: a quarter of a minute for each part that does not listen.
const STOP_PATIENCE: Duration = Duration::from_secs(90);

/// How long an API server that does not answer may be busy rather than broken: a slow disk makes it unready for a moment.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);

/// How long the kernel may take to carry out a SIGKILL.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// Starts a playground, unless there is one that works.
///
/// # Errors
/// A missing program in one line, or what kept the playground from starting.
pub(crate) fn up(place: &Place) -> anyhow::Result<()> {
    let _turn = place.take_turns()?;
    check(place.kind())?;
    let begin = Instant::now();
    match place.look()? {
        Found::Alive(record) => {
            let ready = if let Some(ready) = record.ready.clone() {
                ready
            } else {
                say!("It is starting already.");
                until_ready(place, None)?
            };
            let Err(reason) = answers(place, &ready) else {
                say!("The playground is up already, since {}.", talk::time(ready.since));
                talk::what_to_try(place, &ready);
                return Ok(());
            };
            say!("There is a playground, but it is half dead: {reason}");
            say!("Stopping it, which may take a minute, and starting anew. What was in it is lost.");
            stop(place, &record)?;
            place.remove()?;
        }
        Found::Remains => {
            say!("An earlier playground ended by itself. The last it said:");
            say!("{}", talk::indented(&process::tail(&place.log(), 3)));
            say!("Removing what is left of it, and starting anew.");
            place.remove()?;
        }
        Found::Nothing => {}
    }
    place.create()?;
    let supervisor = spawn(place).inspect_err(|_| {
        // Nothing was started, so nothing is to be read here.
        let _ = place.remove();
    })?;
    let ready = until_ready(place, Some(supervisor))?;
    say!("The playground is up after {:.1} s.", begin.elapsed().as_secs_f32());
    talk::what_to_try(place, &ready);
    Ok(())
}

/// Stops the playground and removes all traces of it.
///
/// # Errors
/// If it cannot be stopped or its directory cannot be removed.
pub(crate) fn down(place: &Place) -> anyhow::Result<()> {
    let _turn = place.take_turns()?;
    match place.look()? {
        Found::Nothing => say!("Nothing is up."),
        Found::Remains => {
            place.remove()?;
            say!("Nothing is up; removed what an earlier playground had left.");
        }
        Found::Alive(record) => {
            say!("Stopping the playground ...");
            let begin = Instant::now();
            stop(place, &record)?;
            place.remove()?;
            say!("Everything is stopped and removed after {:.1} s.", begin.elapsed().as_secs_f32());
        }
    }
    Ok(())
}

/// Says what is up.
///
/// # Errors
/// If what should be up does not work, so that scripts can tell.
pub(crate) fn status(place: &Place) -> anyhow::Result<()> {
    match place.look()? {
        Found::Nothing => say!("Nothing is up."),
        Found::Remains => {
            bail!("the playground has ended by itself; `{}` starts a new one", place.kind().target("up"))
        }
        Found::Alive(Record { ready: None, .. }) => say!("The playground is starting."),
        Found::Alive(Record { pid, ready: Some(ready) }) => {
            answers(place, &ready)
                .map_err(|reason| anyhow::anyhow!("the playground is half dead: {reason}"))?;
            say!("The playground is up since {}.\n", talk::time(ready.since));
            say!("  {:<16} pid {pid}", "supervisor");
            for part in &ready.parts {
                let pid = part.pid.map_or_else(|| "ended".to_owned(), |pid| format!("pid {pid}"));
                say!("  {:<16} {pid}", part.name);
            }
            talk::what_to_try(place, &ready);
        }
    }
    Ok(())
}

/// Looks for what a start would miss.
fn check(kind: Kind) -> anyhow::Result<()> {
    if kind == Kind::Node {
        if let Some(missing) = node::missing() {
            bail!(missing);
        }
        release::check_helm()?;
    }
    control_plane::check_tools()?;
    programs::check()?;
    Ok(())
}

/// Starts the supervisor, which outlives us: no pipe, no terminal and, by its own doing, no session of ours.
fn spawn(place: &Place) -> anyhow::Result<Child> {
    // A build may have replaced our file meanwhile; the link leads to the program that runs.
    let link = PathBuf::from("/proc/self/exe");
    let own =
        if link.exists() { link } else { std::env::current_exe().context("finding the running program")? };
    let log = File::create(place.log()).with_context(|| format!("creating {}", place.log().display()))?;
    let errors = log.try_clone().context("sharing the log")?;
    let mut command = Command::new(own);
    command.arg0("playground");
    if place.kind() == Kind::Node {
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

/// Repeats the supervisor's progress until it is ready.
fn until_ready(place: &Place, mut supervisor: Option<Child>) -> anyhow::Result<Ready> {
    let begin = Instant::now();
    let mut progress = Progress::of(place);
    loop {
        // Asked first: what it wrote before its end is read below.
        let ended = match &mut supervisor {
            Some(child) => child.try_wait().context("waiting for the supervisor")?.is_some(),
            None => !place.is_held()?,
        };
        progress.show();
        if let Ok(Record { ready: Some(ready), .. }) = place.read() {
            return Ok(ready);
        }
        if ended {
            let last = process::tail(&place.log(), process::TAIL_LINES);
            bail!("it did not start; the end of {}:\n{}", place.log().display(), talk::indented(&last));
        }
        if begin.elapsed() > START_PATIENCE {
            bail!(
                "not ready after {START_PATIENCE:?}; `{}` stops it, {} tells why",
                place.kind().target("down"),
                place.log().display()
            );
        }
        std::thread::sleep(POLL);
    }
}

/// Whether the API server answers; the simulator and the controllers are the supervisor's concern.
fn answers(place: &Place, ready: &Ready) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        match answers_now(place, ready) {
            Err(_) if begin.elapsed() < ANSWER_PATIENCE => std::thread::sleep(POLL),
            result => return result,
        }
    }
}

fn answers_now(place: &Place, ready: &Ready) -> Result<(), String> {
    let output = Command::new(&ready.kubectl)
        .arg(format!("--kubeconfig={}", place.kubeconfig().display()))
        .args(["--request-timeout=10s", "get", "--raw", "/readyz"])
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("kubectl cannot be run: {error}"))?;
    let words = String::from_utf8_lossy(&output.stderr);
    let last = words.lines().last().unwrap_or_default();
    if output.status.success() { Ok(()) } else { Err(format!("its API server does not answer ({last})")) }
}

/// Asks the supervisor to end, and kills it, and with it everything that it started, if it does not.
fn stop(place: &Place, record: &Record) -> anyhow::Result<()> {
    // One that was stopped with SIGSTOP hears after SIGCONT.
    for wish in [Signal::TERM, Signal::CONT] {
        signal(place, record.pid, wish)?;
    }
    if until_released(place, STOP_PATIENCE)? {
        return Ok(());
    }
    say!("It does not stop by itself after {STOP_PATIENCE:?}: killing it.");
    signal(place, record.pid, Signal::KILL)?;
    if until_released(place, KILL_PATIENCE)? {
        return Ok(());
    }
    bail!("the supervisor, process {}, does not end", record.pid)
}

fn until_released(place: &Place, patience: Duration) -> anyhow::Result<bool> {
    let begin = Instant::now();
    while place.is_held()? {
        if begin.elapsed() > patience {
            return Ok(false);
        }
        std::thread::sleep(POLL);
    }
    Ok(true)
}

/// Signals the supervisor, and never a process that has its id by now.
#[cfg(target_os = "linux")]
fn signal(place: &Place, pid: u32, signal: Signal) -> anyhow::Result<()> {
    use rustix::io::Errno;
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

    let doing = || format!("sending a signal to the supervisor, process {pid}");
    let handle = match pidfd_open(raw(pid)?, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(Errno::SRCH) if !place.is_held()? => return Ok(()),
        Err(error) => return Err(error).with_context(doing),
    };
    // The handle stands for one process for ever. If the lock is still held now, its holder has not ended since it
    // wrote the id down, so the handle is the holder's.
    if !place.is_held()? {
        return Ok(());
    }
    // Only a playground shared between containers, which count processes apart, gets past the line above wrongly.
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
fn signal(place: &Place, pid: u32, signal: Signal) -> anyhow::Result<()> {
    if !place.is_held()? {
        return Ok(());
    }
    rustix::process::kill_process(raw(pid)?, signal)
        .with_context(|| format!("sending a signal to the supervisor, process {pid}"))
}

fn raw(pid: u32) -> anyhow::Result<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw).context("the record has no process id")
}
