//! What CI runs: every check, one after another, with its time, and all failures at the end.
//!
//! The order is for people first (what takes a second comes first), then for the compiler: clippy and the docs
//! share what they know of the dependencies, and the programs that the later steps run come out of the same build
//! as the tests. The tests come last, so that the test runner has the last word when all is well.

mod hygiene;
mod packages;
mod report;
mod runner;
mod stall;
mod steps;
#[cfg(test)]
mod tests;
mod walls;

use std::time::Instant;

use anyhow::{Result, bail};

use self::report::Report;
use self::steps::{Outcome, STEPS};
use crate::workspace::Workspace;

/// Looks for what the compiler does not mind: tests that prove nothing, and dependencies that cross a wall.
///
/// # Errors
/// For the first kind of which something was found, after listing all of that kind.
pub(crate) fn hygiene(workspace: &Workspace) -> Result<()> {
    hygiene::check(workspace)?;
    walls::check(workspace)
}

/// The names of all steps, in their order.
pub(crate) fn step_names() -> impl Iterator<Item = &'static str> {
    STEPS.iter().map(|step| step.name)
}

/// Runs the steps of these names and those that they need, or all of them if there are no names.
///
/// # Errors
/// When a step failed; all of them were listed, each with the command that repeats it.
pub(crate) fn run(workspace: &Workspace, names: &[String]) -> Result<()> {
    let steps = steps::chosen(names);
    let mut report = Report::default();
    for step in &steps {
        if let Some(failed) = step.needs.iter().find(|name| !report.passed(name)) {
            report.skipped(step, &format!("needs {failed}"));
            continue;
        }
        eprintln!("\n==> {}: {}", step.name, step.command);
        let begun = Instant::now();
        match (step.run)(workspace) {
            Ok(Outcome::Passed) => report.succeeded(step, begun.elapsed()),
            Ok(Outcome::Left(reason)) => report.left_out(step, reason),
            Err(error) => report.failed(step, begun.elapsed(), &error),
        }
    }
    let failures = report.failures();
    if failures.is_empty() {
        return Ok(());
    }
    eprintln!("\nFailed, with the commands that repeat them:");
    for line in &failures {
        eprintln!("  {line}");
    }
    bail!("{} of {} steps failed", failures.len(), steps.len())
}
