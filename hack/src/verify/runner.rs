//! The test runner, what its failures said once more where whoever reads a long log looks first, and a second chance
//! for few.
//!
//! Hundreds of tests talk to real servers on machines that are busy with something else. One of them failing says
//! either that it is broken or that it is flaky, and the quickest way to know is to run it again, alone. A flaky test is
//! a flaw too, which is why it is named; but it is not the fault of the change at hand.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

/// With more failures than this nobody speaks of flaky tests.
pub(super) const MOST_REPEATED: usize = 2;

/// Runs the tests that `command` makes of the arguments for the test binaries, and those that failed once more, if they
/// are few. Repeats all output to `out` as it comes.
///
/// # Errors
/// If the tests cannot be run, or fail for good.
pub(super) fn run(command: impl Fn(&[&str]) -> Command, out: &mut dyn Write) -> Result<()> {
    let (status, failures) = watch(command(&[]), out)?;
    if status.success() {
        return Ok(());
    }
    if !failures.told.is_empty() {
        writeln!(out, "\n==> What the failed tests said, once more:\n{}", failures.told)?;
    }
    let names: Vec<&str> = failures.failed.iter().map(String::as_str).collect();
    // A binary that died has names that nobody knows.
    if names.is_empty() || names.len() > MOST_REPEATED || failures.unfinished != 0 {
        bail!("the test runner ended with {status}");
    }
    writeln!(out, "\n==> Flaky, or broken? Once more, alone: {}", names.join(", "))?;
    let again = command(&[&["--exact", "--test-threads=1"], names.as_slice()].concat());
    let (status, second) = watch(again, out)?;
    if !status.success() || !failures.failed.is_subset(&second.passed) {
        bail!("failed twice: {}", names.join(", "));
    }
    Ok(())
}

fn watch(mut command: Command, out: &mut dyn Write) -> Result<(ExitStatus, Failures)> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("starting the test runner")?;
    let output = child.stdout.take().context("the test runner has no output")?;
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
