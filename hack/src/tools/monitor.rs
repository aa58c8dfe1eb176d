//! Runs a long command quietly, reports its progress every few seconds, and prints the end of its log if it
//! fails.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Interval of progress reports.
const INTERVAL: Duration = Duration::from_secs(5);

/// Number of log lines that are printed after a failure.
const TAIL: usize = 20;

/// Counters over the standard error of `go`.
#[derive(Debug, Default)]
pub(super) struct BuildProgress {
    /// Modules whose download started.
    pub(super) downloaded: usize,
    /// Packages whose compilation started.
    pub(super) compiled: usize,
    /// All other lines: warnings and errors.
    pub(super) messages: Vec<String>,
}

impl BuildProgress {
    /// Reads one line of `go build -v` or `go list`.
    pub(super) fn count_line(&mut self, line: &str) {
        if line.starts_with("go: downloading ") {
            self.downloaded += 1;
        } else if line.is_empty() || line.contains([' ', '\t', ':', '#']) {
            self.messages.push(line.to_owned());
        } else {
            // `-v` prints one compiled package per line; import paths contain none of those characters.
            self.compiled += 1;
        }
    }
}

/// Runs `command`, writes its standard error to `log`, and prints `describe` every few seconds. Returns its
/// output.
///
/// # Errors
/// The command cannot be started or fails. After a failure the end of the log has been printed.
pub(super) fn run_with_progress(
    command: &mut Command,
    title: &str,
    log: &Path,
    describe: impl Fn(&BuildProgress) -> String,
) -> Result<String> {
    let begun = Instant::now();
    let mut file = File::create(log).with_context(|| format!("creating {}", log.display()))?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {}", command.get_program().to_string_lossy()))?;
    let (sender, lines) = channel();
    let stderr = child.stderr.take().context("a piped standard error is missing")?;
    let reader = thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    // A second thread reads the output, because a full pipe would block the child.
    let stdout = child.stdout.take().context("a piped standard output is missing")?;
    let output = thread::spawn(move || std::io::read_to_string(stdout));

    let mut progress = BuildProgress::default();
    let mut next = begun + INTERVAL;
    loop {
        match lines.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                writeln!(file, "{line}").with_context(|| format!("writing {}", log.display()))?;
                progress.count_line(&line);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if Instant::now() >= next {
            eprintln!("  {title}: {}, {}", describe(&progress), format_elapsed_time(begun));
            next = Instant::now() + INTERVAL;
        }
    }
    let status = child.wait().with_context(|| format!("waiting for {title}"))?;
    reader.join().ok().with_context(|| format!("reading the log of {title}"))?;
    let output = output.join().ok().with_context(|| format!("reading the output of {title}"))?;
    if !status.success() {
        for line in &progress.messages[progress.messages.len().saturating_sub(TAIL)..] {
            eprintln!("  | {line}");
        }
        bail!("{title} failed ({status}); the whole log is {}", log.display());
    }
    output.with_context(|| format!("reading the output of {title}"))
}

/// The elapsed time: `42s`, `3m07s`.
pub(crate) fn format_elapsed_time(since: Instant) -> String {
    let seconds = since.elapsed().as_secs();
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m{:02}s", seconds / 60, seconds % 60) }
}
