//! The test runner, what its failures said once more where whoever reads a long log looks first, and a second chance
//! for few.
//!
//! Hundreds of tests talk to real servers on machines that are busy with something else. One of them failing says
//! either that it is broken or that it is flaky, and the quickest way to know is to run it again, alone. A flaky test is
//! a flaw too, which is why it is named; but it is not the fault of the change at hand.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitStatus};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};

/// With more failures than this nobody speaks of flaky tests.
pub(super) const MOST_REPEATED: usize = 2;

/// Tests that run one binary after another: what runs those that the arguments for the test binaries select.
pub(super) type Track = Box<dyn Fn(&[&str]) -> Command + Sync>;

/// Runs the tracks side by side, and few failed tests once more, alone. What the first says is repeated to `out` as it
/// comes, and what the others say when it has ended.
///
/// # Errors
/// If the tests cannot be run, or fail for good.
pub(super) fn run(tracks: &[Track], out: &mut dyn Write) -> Result<()> {
    let Some((first, others)) = tracks.split_first() else { return Ok(()) };
    let outcomes = thread::scope(|scope| {
        let beside: Vec<_> = others
            .iter()
            .map(|track| {
                scope.spawn(move || {
                    let mut said = Vec::new();
                    watch(track(&[]), true, &mut said).map(|outcome| (outcome, said))
                })
            })
            .collect();
        let mut outcomes = vec![watch(first(&[]), false, out)?];
        for thread in beside {
            let (outcome, said) =
                thread.join().map_err(|_| anyhow!("a thread that reads from a test runner died"))??;
            out.write_all(&said).context("repeating the output")?;
            outcomes.push(outcome);
        }
        anyhow::Ok(outcomes)
    })?;
    judge(tracks, outcomes, out)
}

/// Whether all passed, at the first or at the second time.
fn judge(tracks: &[Track], outcomes: Vec<(ExitStatus, Failures)>, out: &mut dyn Write) -> Result<()> {
    let failed: Vec<_> = tracks.iter().zip(outcomes).filter(|(_, (status, _))| !status.success()).collect();
    for (_, (_, failures)) in failed.iter().filter(|(_, (_, failures))| !failures.told.is_empty()) {
        writeln!(out, "\n==> What the failed tests said, once more:\n{}", failures.told)?;
    }
    let count: usize = failed.iter().map(|(_, (_, failures))| failures.failed.len()).sum();
    for (track, (status, failures)) in failed {
        let names: Vec<&str> = failures.failed.iter().map(String::as_str).collect();
        // A binary that died has names that nobody knows.
        if names.is_empty() || count > MOST_REPEATED || failures.unfinished != 0 {
            bail!("the test runner ended with {status}");
        }
        writeln!(out, "\n==> Flaky, or broken? Once more, alone: {}", names.join(", "))?;
        let again = track(&[&["--exact", "--test-threads=1"], names.as_slice()].concat());
        let (status, second) = watch(again, false, out)?;
        if !status.success() || !failures.failed.is_subset(&second.passed) {
            bail!("failed twice: {}", names.join(", "));
        }
    }
    Ok(())
}

/// Runs a command to its end. With `all`, what cargo says on the way is repeated, too: it tells which binary a line is of.
fn watch(mut command: Command, all: bool, out: &mut dyn Write) -> Result<(ExitStatus, Failures)> {
    let (output, input) = std::io::pipe().context("opening a pipe")?;
    if all {
        command.stderr(input.try_clone().context("opening a pipe")?);
    }
    let mut child = command.stdout(input).spawn().context("starting the test runner")?;
    // It holds ends of the pipe, which would never end otherwise.
    drop(command);
    let mut failures = Failures::default();
    let mut lines = BufReader::new(output);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).context("reading from the test runner")? > 0 {
        out.write_all(&line).context("repeating the output")?;
        failures.read(&String::from_utf8_lossy(&line));
        line.clear();
    }
    let status = child.wait().context("waiting for the test runner")?;
    Ok((status, failures))
}

/// Picks what a test binary says of its failed tests out of everything else.
#[derive(Debug, Default)]
pub(super) struct Failures {
    inside: bool,
    /// What was picked so far.
    pub(super) told: String,
    /// The names of the failed tests.
    pub(super) failed: BTreeSet<String>,
    /// The names of the others.
    pub(super) passed: BTreeSet<String>,
    /// Binaries that began and have not ended.
    pub(super) unfinished: usize,
}

impl Failures {
    /// Reads one line, with its end.
    pub(super) fn read(&mut self, line: &str) {
        if let Some((name, verdict)) =
            line.trim_end().strip_prefix("test ").and_then(|rest| rest.split_once(" ... "))
        {
            match verdict {
                "FAILED" => drop(self.failed.insert(name.to_owned())),
                "ok" => drop(self.passed.insert(name.to_owned())),
                _ => {}
            }
        }
        let begins = line
            .strip_prefix("running ")
            .is_some_and(|rest| rest.trim_end().ends_with(" tests") || rest.trim_end() == "1 test");
        self.unfinished += usize::from(begins);
        self.unfinished = self.unfinished.saturating_sub(usize::from(line.starts_with("test result:")));
        self.inside |= line.trim_end() == "failures:";
        if self.inside {
            self.told.push_str(line);
        }
        self.inside &= !line.starts_with("test result:");
    }
}
