//! Collects the results of the steps.

use std::time::Duration;

use super::steps::VerificationStep;

/// Collects and prints results. The result of the last step is not printed, because its own output comes
/// last.
#[derive(Debug, Default)]
pub(super) struct VerificationReport {
    passed: Vec<&'static str>,
    failures: Vec<String>,
}

impl VerificationReport {
    /// Whether a step passed.
    pub(super) fn passed(&self, name: &str) -> bool {
        self.passed.contains(&name)
    }

    /// Records that the step passed.
    pub(super) fn succeeded(&mut self, step: &VerificationStep, took: Duration) {
        self.passed.push(step.name);
        if !step.is_last() {
            eprintln!("    {}: passed in {}", step.name, seconds(took));
        }
    }

    /// Records that the step failed.
    pub(super) fn failed(&mut self, step: &VerificationStep, took: Duration, error: &anyhow::Error) {
        eprintln!("    {}: FAILED after {}: {error:#}", step.name, seconds(took));
        self.failures.push(format!("{}: {}", step.name, step.command));
    }

    /// Records that the step was not run because of another failure. This counts as a failure, because
    /// nothing was verified.
    pub(super) fn skipped(&mut self, step: &VerificationStep, reason: &str) {
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
