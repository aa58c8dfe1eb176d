//! Everything that is generated, in one command.

use anyhow::{Context, Result};

use crate::workspace::{Workspace, succeed};

/// Writes the generated files, or with `check` compares them with what would be written.
///
/// # Errors
/// When a generator fails, or with `check` when a file is out of date; the generator has then named it.
pub(crate) fn run(workspace: &Workspace, check: bool) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.args(["run", "--quiet", "--package", "vmpool-codegen", "--"]);
    if check {
        cargo.arg("--check");
    }
    succeed(&mut cargo).context("generating the API types")
}
