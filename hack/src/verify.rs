//! The checks of CI: runs them one after another, prints the duration of each, and lists all failures at the
//! end.
//!
//! Fast steps come first. Clippy and the docs share compiled dependencies, and the programs for later steps
//! come from the same build as the tests. The tests come last, so that their output is the last one if all
//! checks pass.

mod book;
mod checks;
mod crate_boundaries;
mod dependencies;
mod documented_lists;
mod foreign_text;
mod hygiene;
mod import_cycles;
mod junit;
mod output;
mod packages;
mod paragraphs;
mod prose;
mod report;
mod runner;
mod signatures;
mod sources;
mod stall;
mod steps;
#[cfg(test)]
mod tests;

use std::time::Instant;

use anyhow::{Result, bail};

pub(crate) use self::checks::{verify_dependencies, verify_hygiene};
use self::report::VerificationReport;
use self::steps::STEPS;
use crate::workspace::Workspace;

/// The names of all steps, in their order.
pub(crate) fn step_names() -> impl Iterator<Item = &'static str> {
    STEPS.iter().map(|step| step.name)
}

/// Runs the named steps and those that they need, or all steps if `names` is empty.
///
/// # Errors
/// A step failed. All failures were listed, each with the command that repeats it.
pub(crate) fn run_verification_steps(workspace: &Workspace, names: &[String]) -> Result<()> {
    let steps = steps::select_steps(names);
    let mut report = VerificationReport::default();
    for step in &steps {
        if let Some(failed) = step.needs.iter().find(|name| !report.passed(name)) {
            report.skipped(step, &format!("needs {failed}"));
            continue;
        }
        eprintln!("\n==> {}: {}", step.name, step.command);
        let begun = Instant::now();
        match (step.run)(workspace) {
            Ok(()) => report.succeeded(step, begun.elapsed()),
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
