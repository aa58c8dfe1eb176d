//! The test runner. It runs the tests in phases, repeats the output of failed tests at the end of the log,
//! repeats a few failed tests alone, and kills tests that hang.
//!
//! Hundreds of tests use real servers on hosts that may be busy with other work. A failed test is either
//! broken or flaky, and repeating it alone is the quickest way to find out. A flaky test is a defect, too, so
//! the runner lists it, but the current change did not cause it. A test that reports a starved machine gave
//! no reliable result and is repeated likewise. The results of all tests are also written as a JUnit file.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use super::output::{STARVED, TestOutput, TestResult};
use super::stall;

#[cfg(test)]
mod tests;

/// If more tests fail than this, the change is broken, and no test is repeated.
pub(super) const MOST_REPEATED: usize = 2;

/// The same limit for tests that failed because the CPUs were busy with other work.
pub(super) const MOST_STARVED: usize = 8;

/// How long a test binary may print nothing. Every test ends long before.
pub(super) const PATIENCE: Duration = Duration::from_mins(10);

/// If more binaries than this hang, the runner fails.
const MOST_STALLED: usize = 3;

/// Test binaries that run one after another. The arguments, passed to the binaries, select tests.
pub(super) type Track = Box<dyn Fn(&[&str]) -> Command + Sync>;

/// Runs the phases one after another, and the tracks of each in parallel. Then it repeats a few failed tests
/// alone. The output of a phase's first track is copied to `out` at once, and that of the others after they
/// have ended. A binary that prints nothing for longer than `patience` is killed. `cases` receives the
/// results of all tests, even if some fail.
///
/// # Errors
/// The tests cannot be run, or fail and are not repeated, or fail twice.
pub(super) fn run_test_phases(
    phases: &[Vec<Track>],
    patience: Duration,
    out: &mut dyn Write,
    cases: &mut Vec<TestResult>,
) -> Result<()> {
    let mut outcomes = Vec::new();
    for tracks in phases {
        outcomes.extend(run_phase(tracks, patience, out)?);
    }
    let repeated = repeat_failed(&phases.iter().flatten().collect::<Vec<_>>(), &mut outcomes, patience, out);
    cases.extend(outcomes.into_iter().flat_map(|(_, output)| output.into_cases()));
    repeated
}

/// Runs tracks in parallel.
fn run_phase(
    tracks: &[Track],
    patience: Duration,
    out: &mut dyn Write,
) -> Result<Vec<(ExitStatus, TestOutput)>> {
    let Some((first, others)) = tracks.split_first() else { return Ok(Vec::new()) };
    thread::scope(|scope| {
        let beside: Vec<_> = others
            .iter()
            .map(|track| {
                scope.spawn(move || {
                    let mut printed = Vec::new();
                    watch(track(&[]), patience, &mut printed).map(|outcome| (outcome, printed))
                })
            })
            .collect();
        let mut outcomes = vec![watch(first(&[]), patience, out)?];
        for thread in beside {
            let (outcome, printed) =
                thread.join().map_err(|_| anyhow!("a thread that reads from a test runner panicked"))??;
            out.write_all(&printed).context("repeating the output")?;
            outcomes.push(outcome);
        }
        Ok(outcomes)
    })
}

/// Repeats a few failed tests alone, and marks those that pass as flaky. Repeated tests are listed before the
/// last output.
///
/// # Errors
/// A test failed twice, or too many tests failed to repeat them.
fn repeat_failed(
    tracks: &[&Track],
    outcomes: &mut [(ExitStatus, TestOutput)],
    patience: Duration,
    out: &mut dyn Write,
) -> Result<()> {
    let mut failed: Vec<_> =
        tracks.iter().zip(outcomes).filter(|(_, (status, _))| !status.success()).collect();
    for (_, (_, output)) in failed.iter().filter(|(_, (_, output))| !output.failure_report.is_empty()) {
        writeln!(out, "\n==> Output of the failed tests, repeated:\n{}", output.failure_report)?;
    }
    let starved: BTreeSet<String> = failed.iter().flat_map(|(_, (_, output))| output.starved()).collect();
    let count = failed.iter().map(|(_, (_, output))| output.failed().len()).sum::<usize>() - starved.len();
    let (mut repeated, mut last) = (Vec::new(), Vec::new());
    for (track, (status, output)) in &mut failed {
        let names = output.failed();
        let listed: Vec<&str> = names.iter().map(String::as_str).collect();
        // After a binary has crashed, the names of its other tests are unknown.
        if names.is_empty() || count > MOST_REPEATED || starved.len() > MOST_STARVED || output.has_unknown() {
            bail!("the test runner ended with {status}");
        }
        writeln!(out, "\n==> Repeated alone: {}", listed.join(", "))?;
        let again = track(&[&["--exact", "--test-threads=1"], listed.as_slice()].concat());
        let mut printed = Vec::new();
        let (status, second) = watch(again, patience, &mut printed)?;
        if !status.success() || !names.is_subset(&second.passed()) {
            out.write_all(&printed).context("repeating the output")?;
            bail!("failed twice: {}", listed.join(", "));
        }
        output.mark_flaky(&names);
        repeated.extend(names);
        last = printed;
    }
    if !repeated.is_empty() {
        writeln!(out, "\n==> Failed at first, and passed when they were repeated alone:")?;
        for name in repeated {
            let reason = if starved.contains(&name) { STARVED } else { "flaky: fix it" };
            writeln!(out, "  {name} ({reason})")?;
        }
        out.write_all(&last).context("repeating the output")?;
    }
    Ok(())
}

/// Runs a command to its end, and copies its output. Standard error is included: there cargo prints which
/// binary runs.
fn watch(mut command: Command, patience: Duration, out: &mut dyn Write) -> Result<(ExitStatus, TestOutput)> {
    let (output, input) = std::io::pipe().context("opening a pipe")?;
    command.stderr(input.try_clone().context("opening a pipe")?);
    let mut child = command.stdout(input).spawn().context("starting the test runner")?;
    // The command holds write ends of the pipe; without this drop the pipe would never close.
    drop(command);
    let (sender, lines) = mpsc::channel();
    // The thread is not joined: a leftover child process may keep the pipe open forever.
    thread::spawn(move || read_lines(output, &sender));
    let mut tests = TestOutput::default();
    let mut stalls = 0;
    loop {
        match lines.recv_timeout(patience) {
            Ok(line) => {
                let line = line.context("reading from the test runner")?;
                out.write_all(&line).context("repeating the output")?;
                tests.read(&String::from_utf8_lossy(&line));
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
                let names = tests.stall();
                let names = if names.is_empty() { "unknown".to_owned() } else { names.join(", ") };
                writeln!(
                    out,
                    "\n==> No output for {patience:?}, killed. Tests that did not end: {names}\n{doing}"
                )?;
            }
        }
    }
    let status = child.wait().context("waiting for the test runner")?;
    Ok((status, tests))
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
