//! Counts and logs operations and faults.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use vmpool_test_cluster::control_plane::target_directory;

use crate::operation::OperationResult;

/// The counts, and a log file with one line per event.
#[derive(Debug)]
pub(crate) struct SoakTally {
    begin: Instant,
    file: File,
    path: PathBuf,
    operations: BTreeMap<&'static str, usize>,
    faults: usize,
}

impl SoakTally {
    /// Creates the log file.
    pub(crate) fn new(seed: u64) -> anyhow::Result<Self> {
        let directory = target_directory().join("soak");
        let path = directory.join(format!("{seed}.log"));
        let file = std::fs::create_dir_all(&directory).and_then(|()| File::create(&path));
        let file = file.with_context(|| format!("writing {}", path.display()))?;
        Ok(Self { begin: Instant::now(), file, path, operations: BTreeMap::new(), faults: 0 })
    }

    /// Time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Path of the log file.
    pub(crate) fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Logs a line.
    pub(crate) fn note(&mut self, line: impl fmt::Display) {
        // A failed log write must not end the test.
        let _ = writeln!(self.file, "[{:>7.2}] {line}", self.begin.elapsed().as_secs_f32());
    }

    /// Logs and prints a line.
    pub(crate) fn show(&mut self, line: impl fmt::Display) {
        println!("[{:>6.1} s] {line}", self.begin.elapsed().as_secs_f32());
        self.note(line);
    }

    /// Counts and logs an operation and its result.
    pub(crate) fn operation(&mut self, what: impl fmt::Display, answer: OperationResult) {
        let word = match answer {
            OperationResult::Done => "done",
            OperationResult::Refused => "refused",
            OperationResult::Unconfirmed => "lost",
            OperationResult::NoTarget => return,
        };
        *self.operations.entry(word).or_default() += 1;
        self.note(format_args!("{what}: {word}"));
    }

    /// Counts and logs a fault.
    pub(crate) fn fault(&mut self, what: impl fmt::Display) {
        self.faults += 1;
        self.note(format_args!("-- {what}"));
    }

    /// Number of operations, and how many of them succeeded.
    pub(crate) fn operations(&self) -> (usize, usize) {
        (self.operations.values().sum(), self.operations.get("done").copied().unwrap_or_default())
    }

    /// Number of faults.
    pub(crate) fn faults(&self) -> usize {
        self.faults
    }
}

impl fmt::Display for SoakTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> =
            self.operations.iter().map(|(word, count)| format!("{count} {word}")).collect();
        let (all, _) = self.operations();
        write!(f, "{all} operations ({}), {} faults", words.join(", "), self.faults)
    }
}
