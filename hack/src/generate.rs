//! Runs all generators.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::chart;
use crate::workspace::{Workspace, built_program_path, command_output, run_command};

/// The metrics page; each program prints its part of it.
const METRICS: &str = "docs/metrics.md";

/// The generators of the parts, in their order on the page: package and example.
const PARTS_OF_METRICS: [(&str, &str); 3] = [
    ("vmpool-controller", "metrics-reference"),
    ("vmpool-webhook", "webhook-metrics-reference"),
    ("vmpool-apiserver", "apiserver-metrics-reference"),
];

/// Writes the generated files, or with `check` compares them with what would be written.
///
/// # Errors
/// A generator fails, or with `check` a file is out of date; the error names it.
pub(crate) fn generate_files(workspace: &Workspace, check: bool) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.args(["run", "--quiet", "--package", "vmpool-codegen", "--"]);
    if check {
        cargo.arg("--check");
    }
    let types = run_command(&mut cargo).context("generating the API types");
    let generators = PARTS_OF_METRICS.map(|(package, example)| {
        let mut cargo = workspace.cargo();
        cargo.args(["run", "--quiet", "--package", package, "--example", example]);
        cargo
    });
    let metrics = metrics(workspace, generators, check);
    types.and(metrics).and(chart::readme::generate_values_table(workspace, check))
}

/// Compares as [`generate_files`] does, with generators that are already built.
///
/// # Errors
/// As [`generate_files`], and when a generator was not built.
pub(crate) fn check_with_built(workspace: &Workspace) -> Result<()> {
    let types = run_command(Command::new(built_program_path("vmpool-codegen")?).arg("--check"));
    let mut generators = Vec::new();
    for (_, example) in PARTS_OF_METRICS {
        generators.push(Command::new(built_program_path(&format!("examples/{example}"))?));
    }
    let metrics = metrics(workspace, generators, true);
    types.and(metrics).and(chart::readme::generate_values_table(workspace, true))
}

fn metrics(workspace: &Workspace, generators: impl IntoIterator<Item = Command>, check: bool) -> Result<()> {
    let mut page = Vec::new();
    for mut generator in generators {
        page.extend(command_output(&mut generator, &format!("a generator of {METRICS}"))?);
    }
    let path = workspace.path(METRICS);
    if !check {
        return fs::write(&path, page).with_context(|| format!("writing {METRICS}"));
    }
    let current = fs::read(&path).with_context(|| format!("reading {METRICS}"))?;
    if current != page {
        bail!("{METRICS} is out of date: run `cargo xtask generate`");
    }
    Ok(())
}
