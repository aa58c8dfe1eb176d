//! Writes the results of all tests as a JUnit file, which CI systems and editors read.
//!
//! The format has no schema of its own. This file uses the elements that the widespread readers know:
//! `failure`, `skipped`, and `flakyFailure` for a test that failed and then passed, as Maven's Surefire
//! plugin writes it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::output::{CaseOutcome, TestResult};

#[cfg(test)]
mod tests;

/// Writes the file, and its directory if it does not exist.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn write_junit_report(path: &Path, cases: &[TestResult]) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    fs::write(path, xml(cases)).with_context(|| format!("writing {}", path.display()))
}

/// The content of the file: one suite for each test binary.
fn xml(cases: &[TestResult]) -> String {
    let mut suites: BTreeMap<&str, Vec<&TestResult>> = BTreeMap::new();
    for case in cases {
        suites.entry(&case.suite).or_default().push(case);
    }
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites{}>\n",
        totals(cases.iter().collect::<Vec<_>>().as_slice())
    );
    for (suite, cases) in suites {
        let _ = writeln!(text, "  <testsuite name=\"{}\"{}>", escaped(suite), totals(&cases));
        for case in cases {
            let _ = write!(
                text,
                "    <testcase classname=\"{}\" name=\"{}\"",
                escaped(suite),
                escaped(&case.name)
            );
            text.push_str(&match &case.outcome {
                CaseOutcome::Passed => "/>\n".to_owned(),
                CaseOutcome::Failed(report) => element("failure", "the test failed", report),
                CaseOutcome::Flaky(report) => {
                    element("flakyFailure", "the test failed, and passed when it was repeated alone", report)
                }
                CaseOutcome::Ignored(reason) => element("skipped", reason, ""),
            });
        }
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

/// The counts of a suite as attributes.
fn totals(cases: &[&TestResult]) -> String {
    let count =
        |selected: fn(&CaseOutcome) -> bool| cases.iter().filter(|case| selected(&case.outcome)).count();
    let failures = count(|outcome| matches!(outcome, CaseOutcome::Failed(_)));
    let skipped = count(|outcome| matches!(outcome, CaseOutcome::Ignored(_)));
    let flakes = count(|outcome| matches!(outcome, CaseOutcome::Flaky(_)));
    format!(" tests=\"{}\" failures=\"{failures}\" skipped=\"{skipped}\" flakes=\"{flakes}\"", cases.len())
}

/// The rest of a test case that contains one element.
fn element(name: &str, message: &str, text: &str) -> String {
    let (message, text) = (escaped(message), escaped(text));
    format!(">\n      <{name} message=\"{message}\">{text}</{name}>\n    </testcase>\n")
}

/// Text for an attribute or an element. Control characters that XML does not allow are replaced.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(letter),
            letter if letter.is_control() => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}
