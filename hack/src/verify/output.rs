//! Reads the output of test binaries: results, reports of failures, and tests that have not ended.

use std::collections::BTreeSet;

#[cfg(test)]
mod tests;

/// The text in the report of a test that failed because its machine was busy
/// (`vmpool_test_cluster::deadline::STARVED`).
pub(super) const STARVED: &str = "the machine was starved";

/// The result of one test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TestResult {
    /// The test binary, without the hash in its file name.
    pub(super) suite: String,
    /// The name of the test.
    pub(super) name: String,
    /// Its result.
    pub(super) outcome: CaseOutcome,
}

/// The result of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CaseOutcome {
    /// It passed.
    Passed,
    /// It failed, with this report.
    Failed(String),
    /// It failed with this report, and passed when it was repeated alone.
    Flaky(String),
    /// It was not run, for this reason; may be empty.
    Ignored(String),
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

/// What the test binaries of a track have printed so far.
#[derive(Debug, Default)]
pub(super) struct TestOutput {
    /// Whether the current line belongs to the report of a binary about its failed tests.
    in_report: bool,
    /// The reports about failed tests.
    pub(super) failure_report: String,
    /// The results so far, without the reports of failures.
    cases: Vec<TestResult>,
    /// The name of the running binary, as cargo prints it.
    suite: String,
    running: Option<Binary>,
    /// The test whose line has begun. With one thread, the test binary prints the name first, then the log of
    /// the test, and then the result in a line of its own.
    begun: Option<String>,
    /// The number of binaries that ended without a result, so that the outcome of some tests is unknown.
    crashed: usize,
}

impl TestOutput {
    /// Reads one line, including its newline.
    pub(super) fn read(&mut self, line: &str) {
        let words = line.trim_end();
        if let Some(suite) = suite(words) {
            self.suite = suite;
        } else if let Some(name) = words
            .strip_prefix("test ")
            .and_then(|rest| rest.strip_suffix(" has been running for over 60 seconds"))
        {
            self.running.iter_mut().for_each(|binary| _ = binary.slow.insert(name.to_owned()));
        } else if let Some((name, result)) =
            words.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "))
        {
            self.record(name.trim_end(), result);
        } else if let Some(name) = self.begun.take_if(|_| outcome(words).is_some()) {
            self.record(&name, words);
        }
        if let Some(tests) = announced(words) {
            self.crashed += usize::from(self.running.is_some());
            self.running = Some(Binary { tests, ..Binary::default() });
        }
        if words.starts_with("test result:") {
            self.running = None;
        }
        self.in_report |= words == "failures:";
        if self.in_report {
            self.failure_report.push_str(line);
        }
        self.in_report &= !words.starts_with("test result:");
    }

    fn record(&mut self, name: &str, result: &str) {
        let name = name.strip_suffix(" - should panic").unwrap_or(name);
        let Some(outcome) = outcome(result) else {
            self.begun = Some(name.to_owned());
            return;
        };
        self.begun = None;
        if let Some(binary) = &mut self.running {
            binary.ended += 1;
            binary.slow.remove(name);
        }
        self.cases.push(TestResult { suite: self.suite.clone(), name: name.to_owned(), outcome });
    }

    /// The names of the failed tests.
    pub(super) fn failed(&self) -> BTreeSet<String> {
        self.names(|outcome| matches!(outcome, CaseOutcome::Failed(_)))
    }

    /// The names of the passed tests.
    pub(super) fn passed(&self) -> BTreeSet<String> {
        self.names(|outcome| *outcome == CaseOutcome::Passed)
    }

    fn names(&self, selected: impl Fn(&CaseOutcome) -> bool) -> BTreeSet<String> {
        let cases = self.cases.iter().filter(|case| selected(&case.outcome));
        cases.map(|case| case.name.clone()).collect()
    }

    /// The failed tests that report a starved machine.
    pub(super) fn starved(&self) -> BTreeSet<String> {
        let is_starved = |name: &String| self.report_of(name).contains(STARVED);
        self.failed().into_iter().filter(is_starved).collect()
    }

    /// The part of the reports that concerns one test.
    fn report_of(&self, name: &str) -> String {
        let mut report = String::new();
        let mut concerned = false;
        for line in self.failure_report.lines() {
            if line == "failures:" {
                concerned = false;
            } else if let Some(title) = title(line) {
                concerned = title == name;
            } else if concerned {
                report.push_str(line);
                report.push('\n');
            }
        }
        report.trim().to_owned()
    }

    /// Whether a binary crashed, so that the outcome of some tests is unknown.
    pub(super) fn has_unknown(&self) -> bool {
        self.crashed > 0 || self.running.is_some()
    }

    /// Records that the running binary was killed: its slow tests have failed. Returns their names.
    pub(super) fn stall(&mut self) -> Vec<String> {
        let Some(binary) = self.running.take() else { return Vec::new() };
        // A test that had not started could have any outcome.
        self.crashed += usize::from(binary.ended + binary.slow.len() != binary.tests);
        for name in &binary.slow {
            let outcome = CaseOutcome::Failed("the test did not end, and was killed".to_owned());
            self.cases.push(TestResult { suite: self.suite.clone(), name: name.clone(), outcome });
        }
        binary.slow.into_iter().collect()
    }

    /// Records that these failed tests passed when they were repeated.
    pub(super) fn mark_flaky(&mut self, names: &BTreeSet<String>) {
        for case in self.cases.iter_mut().filter(|case| names.contains(&case.name)) {
            if let CaseOutcome::Failed(report) = &mut case.outcome {
                case.outcome = CaseOutcome::Flaky(std::mem::take(report));
            }
        }
    }

    /// The results of all tests, with the reports of failures.
    pub(super) fn into_cases(mut self) -> Vec<TestResult> {
        let mut cases = std::mem::take(&mut self.cases);
        for case in &mut cases {
            if let CaseOutcome::Failed(report) | CaseOutcome::Flaky(report) = &mut case.outcome
                && report.is_empty()
            {
                *report = self.report_of(&case.name);
            }
        }
        cases
    }
}

/// The result that a test binary prints; `None` for another text.
fn outcome(result: &str) -> Option<CaseOutcome> {
    match result.split_once(", ").unwrap_or((result, "")) {
        ("ok", _) => Some(CaseOutcome::Passed),
        ("FAILED", _) => Some(CaseOutcome::Failed(String::new())),
        ("ignored", reason) => Some(CaseOutcome::Ignored(reason.to_owned())),
        _ => None,
    }
}

/// The name of the binary that cargo runs next: `Running tests/a.rs (target/debug/deps/a-0123)`, or
/// `Doc-tests a`.
fn suite(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(package) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{package} (documentation)"));
    }
    let (_, path) = line.strip_prefix("Running ")?.strip_suffix(')')?.rsplit_once(" (")?;
    let file = path.rsplit('/').next()?;
    Some(file.rsplit_once('-').map_or(file, |(name, _hash)| name).to_owned())
}

/// The test to which the following lines of a report belong. Runners other than the standard one print no
/// `stdout`.
fn title(line: &str) -> Option<&str> {
    let name = line.strip_prefix("---- ")?.strip_suffix(" ----")?;
    Some(name.strip_suffix(" stdout").unwrap_or(name))
}

/// The number of tests in the first line of a binary's output.
fn announced(line: &str) -> Option<usize> {
    let (tests, what) = line.strip_prefix("running ")?.split_once(' ')?;
    tests.parse().ok().filter(|_| ["test", "tests"].contains(&what))
}
