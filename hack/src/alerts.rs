//! Evaluates the alerts of the chart, with the tests in `hack/tools/promtool`.
//!
//! promtool takes minutes to build, so only this command builds it, and not `cargo xtask tools`.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::tools::{self, ToolSelection};
use crate::workspace::{Workspace, run_command};

/// The folder with the tests, and with the go.mod of promtool.
const FOLDER: &str = "hack/tools/promtool";

/// Runs the tests of the alerts.
///
/// # Errors
/// promtool cannot be built, or an alert does not fire as a test says.
pub(crate) fn test_alerts(workspace: &Workspace) -> Result<()> {
    tools::ensure_tools(workspace, ToolSelection::Promtool)?;
    let folder = workspace.path(FOLDER);
    let listing = fs::read_dir(&folder).with_context(|| format!("listing {}", folder.display()))?;
    let mut files: Vec<_> = listing.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.to_string_lossy().ends_with("_test.yaml"));
    files.sort();
    anyhow::ensure!(!files.is_empty(), "{FOLDER} has no tests");
    let promtool = workspace.tools().join("promtool/bin/promtool");
    run_command(Command::new(promtool).args(["test", "rules"]).args(files).current_dir(folder))
}
