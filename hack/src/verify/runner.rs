//! The test runner. It runs the tests in phases, repeats the output of failed tests at the end of the log, repeats a
//! few failed tests alone, and kills tests that hang.
//!
//! Hundreds of tests use real servers on hosts that may be busy with other work. A failed test is either broken or
//! flaky, and repeating it alone is the quickest way to find out. A flaky test is a defect, too, so the runner lists
//! it, but the current change did not cause it. A test that reports a starved machine gave no reliable result and is
//! repeated likewise.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use super::stall;

/// If more tests fail than this, the change is broken, and no test is repeated.
pub(super) const MOST_REPEATED: usize = 2;

/// The same limit for tests that failed because the CPUs were busy with other work.
pub(super) const MOST_STARVED: usize = 8;

/// The text in the report of such a failure (`vmpool_test_cluster::deadline::STARVED`).
pub(super) const STARVED: &str = "the machine was starved";

/// How long a test binary may print nothing. Every test ends long before.
pub(super) const PATIENCE: Duration = Duration::from_mins(10);

/// If more binaries than this hang, the runner fails.
const MOST_STALLED: usize = 3;

/// Test binaries that run one after another. The arguments, passed to the binaries, select tests.
pub(super) type Track = Box<dyn Fn(&[&str]) -> Command + Sync>;

/// Runs the phases one after another, and the tracks of each in parallel. Then it repeats a few failed tests alone. The
/// output of a phase's first track is copied to `out` at once, and that of the others after they have ended. A binary
/// that prints nothing for longer than `patience` is killed.
///
/// # Errors
/// The tests cannot be run, or fail and are not repeated, or fail twice.
pub(super) fn run(phases: &[Vec<Track>], patience: Duration, out: &mut dyn Write) -> Result<()> {
    let mut outcomes = Vec::new();
    for tracks in phases {
        outcomes.extend(run_phase(tracks, patience, out)?);
    }
    judge(&phases.iter().flatten().collect::<Vec<_>>(), outcomes, patience, out)
}

/// Runs tracks in parallel.
fn run_phase(
    tracks: &[Track],
    patience: Duration,
    out: &mut dyn Write,
) -> Result<Vec<(ExitStatus, Failures)>> {
    let Some((first, others)) = tracks.split_first() else { return Ok(Vec::new()) };
    thread::scope(|scope| {
        let beside: Vec<_> = others
            .iter()
            .map(|track| {
                scope.spawn(move || {
                    let mut said = Vec::new();
                    watch(track(&[]), true, patience, &mut said).map(|outcome| (outcome, said))
                })
            })
            .collect();
        let mut outcomes = vec![watch(first(&[]), false, patience, out)?];
        for thread in beside {
            let (outcome, said) =
                thread.join().map_err(|_| anyhow!("a thread that reads from a test runner panicked"))??;
            out.write_all(&said).context("repeating the output")?;
            outcomes.push(outcome);
        }
        Ok(outcomes)
    })
}

/// Whether all tests passed, on the first or the second run. Repeated tests are listed before the last output.
fn judge(
    tracks: &[&Track],
    outcomes: Vec<(ExitStatus, Failures)>,
    patience: Duration,
    out: &mut dyn Write,
) -> Result<()> {
    let failed: Vec<_> = tracks.iter().zip(outcomes).filter(|(_, (status, _))| !status.success()).collect();
    for (_, (_, failures)) in failed.iter().filter(|(_, (_, failures))| !failures.told.is_empty()) {
        writeln!(out, "\n==> Output of the failed tests, repeated:\n{}", failures.told)?;
    }
    let starved: BTreeSet<String> = failed.iter().flat_map(|(_, (_, failures))| failures.starved()).collect();
    let count = failed.iter().map(|(_, (_, failures))| failures.failed.len()).sum::<usize>() - starved.len();
    let (mut repeated, mut last) = (Vec::new(), Vec::new());
    for (track, (status, failures)) in failed {
        let names: Vec<&str> = failures.failed.iter().map(String::as_str).collect();
        // After a binary has crashed, the names of its other tests are unknown.
        if names.is_empty() || count > MOST_REPEATED || starved.len() > MOST_STARVED || failures.has_unknown()
        {
            bail!("the test runner ended with {status}");
        }
        writeln!(out, "\n==> Repeated alone: {}", names.join(", "))?;
        let again = track(&[&["--exact", "--test-threads=1"], names.as_slice()].concat());
        let mut said = Vec::new();
        let (status, second) = watch(again, false, patience, &mut said)?;
        if !status.success() || !failures.failed.is_subset(&second.passed) {
            out.write_all(&said).context("repeating the output")?;
            bail!("failed twice: {}", names.join(", "));
        }
        repeated.extend(failures.failed);
        last = said;
    }
    if !repeated.is_empty() {
        writeln!(out, "\n==> Failed at first, and passed when they were repeated alone:")?;
        for name in repeated {
            let why = if starved.contains(&name) { "the machine was starved" } else { "flaky: fix it" };
            writeln!(out, "  {name} ({why})")?;
        }
        out.write_all(&last).context("repeating the output")?;
    }
    Ok(())
}

/// Runs a command to its end. With `all`, standard error is copied, too: there cargo prints which binary runs.
fn watch(
    mut command: Command,
    all: bool,
    patience: Duration,
    out: &mut dyn Write,
) -> Result<(ExitStatus, Failures)> {
    let (output, input) = std::io::pipe().context("opening a pipe")?;
    if all {
        command.stderr(input.try_clone().context("opening a pipe")?);
    }
    let mut child = command.stdout(input).spawn().context("starting the test runner")?;
    // The command holds write ends of the pipe; without this drop the pipe would never close.
    drop(command);
    let (sender, lines) = mpsc::channel();
    // The thread is not joined: a leftover child process may keep the pipe open forever.
    thread::spawn(move || read_lines(output, &sender));
    let mut failures = Failures::default();
    let mut stalls = 0;
    loop {
        match lines.recv_timeout(patience) {
            Ok(line) => {
                let line = line.context("reading from the test runner")?;
                out.write_all(&line).context("repeating the output")?;
                failures.read(&String::from_utf8_lossy(&line));
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout)
                if child.try_wait().context("looking at the test runner")?.is_some() =>
            {
                writeln!(out, "==> The test runner has ended, but a process that it started still runs")?;
                break;
            }
            Err(RecvTimeoutError::Timeout) => {
                stalls += 1;
                if stalls > MOST_STALLED {
                    let _ = child.kill();
                    bail!("the test runner does not end");
                }
                let doing = stall::end_children(child.id());
                let names = failures.stall();
                let names = if names.is_empty() { "unknown".to_owned() } else { names.join(", ") };
                writeln!(
                    out,
                    "\n==> No output for {patience:?}, killed. Tests that did not end: {names}\n{doing}"
                )?;
            }
        }
    }
    let status = child.wait().context("waiting for the test runner")?;
    Ok((status, failures))
}

fn read_lines(output: impl Read, lines: &mpsc::Sender<std::io::Result<Vec<u8>>>) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        let read = output.read_until(b'\n', &mut line);
        if matches!(read, Ok(0)) {
            return;
        }
        let broken = read.is_err();
        if lines.send(read.map(|_| line)).is_err() || broken {
            return;
        }
    }
}

/// The state of a running test binary.
#[derive(Debug, Default)]
struct Binary {
    /// The number of tests that it announced.
    tests: usize,
    /// The number of tests that have ended.
    ended: usize,
    /// Tests that it reported as slow and that have not ended.
    slow: BTreeSet<String>,
}

/// Extracts the reports of failed tests from the output of test binaries.
#[derive(Debug, Default)]
pub(super) struct Failures {
    inside: bool,
    /// The extracted output.
    pub(super) told: String,
    /// The names of the failed tests.
    pub(super) failed: BTreeSet<String>,
    /// The names of the passed tests.
    pub(super) passed: BTreeSet<String>,
    /// The running binary.
    running: Option<Binary>,
    /// The number of binaries that ended without a result, so that the outcome of some tests is unknown.
    lost: usize,
}

impl Failures {
    /// Reads one line, including its newline.
    pub(super) fn read(&mut self, line: &str) {
        let words = line.trim_end();
        if let Some(name) = words
            .strip_prefix("test ")
            .and_then(|rest| rest.strip_suffix(" has been running for over 60 seconds"))
        {
            self.running.iter_mut().for_each(|binary| _ = binary.slow.insert(name.to_owned()));
        } else if let Some((name, verdict)) =
            words.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "))
        {
            let name = name.strip_suffix(" - should panic").unwrap_or(name);
            if let Some(binary) = &mut self.running {
                binary.ended += 1;
                binary.slow.remove(name);
            }
            match verdict {
                "FAILED" => drop(self.failed.insert(name.to_owned())),
                "ok" => drop(self.passed.insert(name.to_owned())),
                _ => {}
            }
        }
        if let Some(tests) = begins(words) {
            self.lost += usize::from(self.running.is_some());
            self.running = Some(Binary { tests, ..Binary::default() });
        }
        if words.starts_with("test result:") {
            self.running = None;
        }
        self.inside |= words == "failures:";
        if self.inside {
            self.told.push_str(line);
        }
        self.inside &= !words.starts_with("test result:");
    }

    /// The failed tests that report a starved machine.
    pub(super) fn starved(&self) -> BTreeSet<String> {
        let mut starved = BTreeSet::new();
        let mut current = None;
        for line in self.told.lines() {
            if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"))
            {
                current = Some(name);
            } else if line.contains(STARVED) {
                starved.extend(current.filter(|name| self.failed.contains(*name)).map(str::to_owned));
            }
        }
        starved
    }

    /// Whether a binary crashed, so that the outcome of some tests is unknown.
    pub(super) fn has_unknown(&self) -> bool {
        self.lost > 0 || self.running.is_some()
    }

    /// Records that the running binary was killed: its slow tests have failed. Returns their names.
    pub(super) fn stall(&mut self) -> Vec<String> {
        let Some(binary) = self.running.take() else { return Vec::new() };
        // A test that had not started could have any outcome.
        self.lost += usize::from(binary.ended + binary.slow.len() != binary.tests);
        self.failed.extend(binary.slow.iter().cloned());
        binary.slow.into_iter().collect()
    }
}

/// The number of tests in the first line of a binary's output.
fn begins(line: &str) -> Option<usize> {
    let (tests, what) = line.strip_prefix("running ")?.split_once(' ')?;
    tests.parse().ok().filter(|_| ["test", "tests"].contains(&what))
}
