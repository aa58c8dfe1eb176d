//! Scenarios of both platforms on the oldest Kubernetes that the chart accepts, and on the newest one of the
//! tests.
//!
//! kube-apiserver, kube-controller-manager and kubectl are of the same release. etcd is that of the tests.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::tools::{CONTROL_PLANE, OLDEST_KUBERNETES, TOOLS_VARIABLE};
use crate::workspace::{Workspace, command_output, run_command};

/// The Go modules with a Kubernetes, the oldest first.
const MODULES: [&str; 2] = [OLDEST_KUBERNETES, CONTROL_PLANE];

/// The programs of a release.
const PROGRAMS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kubectl"];

/// etcd, whose main package is called `server`.
const ETCD: &str = "server";

/// The chart, whose `kubeVersion` names the oldest release.
const CHART: &str = "charts/vmpool/Chart.yaml";

/// Test targets with the scenarios that run: the schemas, the rules of admission, scaling, rollouts, targeted
/// removals, and the policies of the chart.
const SCENARIOS: [TestSelection; 2] = [
    TestSelection { target: "scenarios", filters: &["smoke::", "schemas::", "webhook::"] },
    TestSelection { target: "platforms", filters: &["scaling::", "rollout::", "removal::", "policy::"] },
];

/// Tests of a target of `vmpool-e2e`.
struct TestSelection {
    target: &'static str,
    filters: &'static [&'static str],
}

/// Runs the scenarios on each release.
///
/// # Errors
/// The oldest release is not the one that the chart names, a program does not start, or a scenario fails.
pub(super) fn check_kubernetes_releases(workspace: &Workspace) -> Result<()> {
    for module in MODULES {
        let folder = link_programs(workspace, module)?;
        let release = read_release(&folder)?;
        if module == OLDEST_KUBERNETES {
            ensure_chart_names(workspace, &release)?;
        }
        println!("==> {release}");
        for selection in &SCENARIOS {
            run_scenarios(workspace, &folder, selection).with_context(|| format!("on {release}"))?;
        }
        println!("{release}: all selected scenarios passed");
    }
    Ok(())
}

/// A folder with the programs of this module and etcd.
fn link_programs(workspace: &Workspace, module: &str) -> Result<PathBuf> {
    let folder = workspace.integration().join("kubernetes").join(module);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("deleting {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let built = |module: &str| workspace.tools().join(module).join("bin");
    for program in PROGRAMS {
        link_program(&built(module), &folder, program)?;
    }
    link_program(&built(CONTROL_PLANE), &folder, ETCD)?;
    Ok(folder)
}

fn link_program(from: &Path, to: &Path, program: &str) -> Result<()> {
    let (target, link) = (from.join(program), to.join(program));
    symlink(&target, &link).with_context(|| format!("linking {} to {}", link.display(), target.display()))
}

/// What kube-apiserver reports, for example `Kubernetes v1.30.14`.
fn read_release(folder: &Path) -> Result<String> {
    let mut command = Command::new(folder.join("kube-apiserver"));
    let output = command_output(command.arg("--version"), "kube-apiserver --version")?;
    Ok(String::from_utf8_lossy(&output).trim().to_owned())
}

/// Checks that this is a release of the oldest minor version that the chart accepts.
fn ensure_chart_names(workspace: &Workspace, release: &str) -> Result<()> {
    let chart = fs::read_to_string(workspace.path(CHART)).with_context(|| format!("reading {CHART}"))?;
    let oldest = find_oldest_minor(&chart).with_context(|| format!("{CHART} has no kubeVersion"))?;
    ensure!(
        release.starts_with(&format!("Kubernetes v{oldest}.")),
        "hack/tools/{OLDEST_KUBERNETES} builds {release}, but the oldest one that {CHART} accepts is {oldest}"
    );
    Ok(())
}

/// The minor version in the `kubeVersion` of a chart, for example `1.30` of `>=1.30.0-0`.
fn find_oldest_minor(chart: &str) -> Option<&str> {
    let constraint = chart.lines().find_map(|line| line.strip_prefix("kubeVersion:"))?;
    let version = constraint.trim().trim_matches('"').strip_prefix(">=")?;
    version.rsplit_once(".0-0").map(|(minor, _)| minor)
}

fn run_scenarios(workspace: &Workspace, folder: &Path, selection: &TestSelection) -> Result<()> {
    let mut test = workspace.cargo();
    test.args(["test", "--quiet", "--locked", "--package", "vmpool-e2e", "--test", selection.target, "--"]);
    run_command(test.args(selection.filters).env(TOOLS_VARIABLE, folder))
}

#[cfg(test)]
mod tests {
    use super::find_oldest_minor;

    #[test]
    fn the_chart_names_the_oldest_minor_version() {
        assert_eq!(find_oldest_minor("name: vmpool\nkubeVersion: \">=1.30.0-0\"\n"), Some("1.30"));
        assert_eq!(find_oldest_minor("kubeVersion: '<2'\n"), None);
    }
}
