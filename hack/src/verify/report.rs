//! What became of the steps.

use std::time::Duration;

use super::steps::Step;

/// Collects outcomes, and says each as it comes; except of the last step, whose own output has the last word.
#[derive(Debug, Default)]
pub(super) struct Report {
    passed: Vec<&'static str>,
    failures: Vec<String>,
}

impl Report {
    /// Whether a step passed. One that was left out counts as passed.
    pub(super) fn passed(&self, name: &str) -> bool {
        self.passed.contains(&name)
    }

    /// The step passed.
    pub(super) fn succeeded(&mut self, step: &Step, took: Duration) {
        self.passed.push(step.name);
        if !step.is_last() {
            eprintln!("    {}: passed in {}", step.name, seconds(took));
        }
    }

    /// The step does not apply on this machine.
    pub(super) fn left_out(&mut self, step: &Step, reason: &str) {
        self.passed.push(step.name);
        eprintln!("    {}: left out, {reason}", step.name);
    }

    /// The step failed.
    pub(super) fn failed(&mut self, step: &Step, took: Duration, error: &anyhow::Error) {
        eprintln!("    {}: FAILED after {}: {error:#}", step.name, seconds(took));
        self.failures.push(format!("{}: {}", step.name, step.command));
    }

    /// The step could not be run because of another one. That is a failure too: nothing was shown.
    pub(super) fn skipped(&mut self, step: &Step, reason: &str) {
        eprintln!("\n==> {}: not run, {reason}", step.name);
        self.failures.push(format!("{} (not run, {reason}): {}", step.name, step.command));
    }

    /// One line for each step that failed.
    pub(super) fn failures(&self) -> Vec<String> {
        self.failures.clone()
    }
}

fn seconds(took: Duration) -> String {
    format!("{:.1}s", took.as_secs_f64())
}
