//! Everything that is generated, in one command.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::chart;
use crate::workspace::{Workspace, built, succeed};

/// The page about metrics, which the controller itself can print.
const METRICS: &str = "docs/metrics.md";

/// Writes the generated files, or with `check` compares them with what would be written.
///
/// # Errors
/// When a generator fails, or with `check` when a file is out of date; it is then named.
pub(crate) fn run(workspace: &Workspace, check: bool) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.args(["run", "--quiet", "--package", "vmpool-codegen", "--"]);
    if check {
        cargo.arg("--check");
    }
    let types = succeed(&mut cargo).context("generating the API types");
    let mut cargo = workspace.cargo();
    cargo.args(["run", "--quiet", "--package", "vmpool-controller", "--example", "metrics-reference"]);
    let metrics = metrics(workspace, &mut cargo, check);
    types.and(metrics).and(chart::readme::generate(workspace, check))
}

/// Compares as [`run`] does, with generators that are built already.
///
/// # Errors
/// As [`run`], and when a generator was not built.
pub(crate) fn check_with_built(workspace: &Workspace) -> Result<()> {
    let types = succeed(Command::new(built("vmpool-codegen")?).arg("--check"));
    let metrics = metrics(workspace, &mut Command::new(built("examples/metrics-reference")?), true);
    types.and(metrics).and(chart::readme::generate(workspace, true))
}

fn metrics(workspace: &Workspace, generator: &mut Command, check: bool) -> Result<()> {
    let output = generator.output().context("starting the generator of the page about metrics")?;
    if !output.status.success() {
        bail!("generating {METRICS}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let path = workspace.path(METRICS);
    if !check {
        return fs::write(&path, output.stdout).with_context(|| format!("writing {METRICS}"));
    }
    let current = fs::read(&path).with_context(|| format!("reading {METRICS}"))?;
    if current != output.stdout {
        bail!("{METRICS} is out of date: run `cargo xtask generate`");
    }
    Ok(())
}
