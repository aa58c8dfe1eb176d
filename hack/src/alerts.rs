//! Evaluates the alerts of the chart, with the tests in `hack/tools/promtool`.
//!
//! promtool takes minutes to build, so only this command builds it, and not `cargo xtask tools`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_yaml_ng::Value;

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
    run_alert_tests(workspace, &workspace.tools().join("promtool/bin/promtool"))
}

/// Runs the tests of the alerts with this promtool.
///
/// # Errors
/// promtool does not start, or an alert does not fire as a test says.
pub(crate) fn run_alert_tests(workspace: &Workspace, promtool: &Path) -> Result<()> {
    run_command(Command::new(promtool).args(["test", "rules"]).args(list_alert_tests(workspace)?))
}

/// The contents of the files with tests.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn read_alert_tests(workspace: &Workspace) -> Result<Vec<Value>> {
    list_alert_tests(workspace)?.iter().map(|file| read_yaml(file)).collect()
}

fn read_yaml(file: &Path) -> Result<Value> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    serde_yaml_ng::from_str(&text).with_context(|| format!("reading {}", file.display()))
}

/// The files with tests, which lie beside the go.mod of promtool.
fn list_alert_tests(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    let folder = workspace.path(FOLDER);
    let listing = fs::read_dir(&folder).with_context(|| format!("listing {}", folder.display()))?;
    let mut files: Vec<_> = listing.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.to_string_lossy().ends_with("_test.yaml"));
    files.sort();
    ensure!(!files.is_empty(), "{FOLDER} has no tests");
    Ok(files)
}
