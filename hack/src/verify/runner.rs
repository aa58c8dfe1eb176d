//! The test runner, and what its failures said once more at the end, where whoever reads a long log looks first.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs the command, repeats its output as it comes, and tells its failures again when it is done.
///
/// # Errors
/// If the command cannot be run or fails.
pub(super) fn run(command: &mut Command) -> Result<()> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("starting the test runner")?;
    let output = child.stdout.take().context("the test runner has no output")?;
    let mut failures = Failures::default();
    let mut lines = BufReader::new(output);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).context("reading from the test runner")? > 0 {
        std::io::stdout().write_all(&line).context("repeating the output")?;
        failures.read(&String::from_utf8_lossy(&line));
        line.clear();
    }
    let status = child.wait().context("waiting for the test runner")?;
    if status.success() {
        return Ok(());
    }
    if !failures.told.is_empty() {
        println!("\n==> What the failed tests said, once more:\n{}", failures.told);
    }
    bail!("the test runner ended with {status}")
}

/// Picks what a test binary says of its failed tests out of everything else.
#[derive(Debug, Default)]
pub(super) struct Failures {
    inside: bool,
    /// What was picked so far.
    pub(super) told: String,
}

impl Failures {
    /// Reads one line, with its end.
    pub(super) fn read(&mut self, line: &str) {
        self.inside |= line.trim_end() == "failures:";
        if self.inside {
            self.told.push_str(line);
        }
        self.inside &= !line.starts_with("test result:");
    }
}
