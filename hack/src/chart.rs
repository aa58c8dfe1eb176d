//! The Helm chart: lints it, renders it in all its variants and checks what comes out.
//!
//! The rules are in [`rules`], over plain objects; this module only runs helm.

mod objects;
mod rules;
#[cfg(test)]
mod tests;
mod variants;

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_yaml_ng::Value;

use self::variants::{VARIANTS, Variant};
use crate::workspace::{Workspace, built};

/// Values that `values.schema.json` must refuse: a misspelt one, a wrong type, a wrong unit, an empty name.
const REFUSED: &[&str] = &[
    "controller.replica=3",
    "controller.replicas=0",
    "controller.lease.duration=15",
    "featureGates.VirtualMachinePool=maybe",
    "watchNamespace=Not_A_Name",
    "image.repository=",
    "controller.metrics.podMonitor.interval=often",
];

/// Lints and renders the chart and applies every rule. Needs helm and the controller, both built.
///
/// # Errors
/// One error that lists everything that was found.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let help = controller_help()?;
    let mut found = Vec::new();
    let lint = helm(workspace)
        .args(["lint", "--strict", "--quiet", "charts/vmpool"])
        .output()
        .context("starting helm")?;
    if !lint.status.success() {
        found.push(format!("helm lint: {}", String::from_utf8_lossy(&lint.stdout).trim()));
    }
    for variant in VARIANTS {
        match render(workspace, variant.values) {
            Ok(objects) => {
                found.extend(
                    rules::violations(variant, &objects)
                        .into_iter()
                        .map(|text| format!("{}: {text}", variant.name)),
                );
                found.extend(
                    rules::unknown_flags(&objects, &help)
                        .into_iter()
                        .map(|text| format!("{}: {text}", variant.name)),
                );
            }
            Err(error) => found.push(format!("{}: {error:#}", variant.name)),
        }
    }
    for value in REFUSED {
        if render(workspace, &[value]).is_ok() {
            found.push(format!("values.schema.json lets {value} pass"));
        }
    }
    found.extend(undocumented(workspace)?);
    if found.is_empty() {
        return Ok(());
    }
    for line in &found {
        eprintln!("  charts/vmpool: {line}");
    }
    bail!("the chart breaks {} rules", found.len())
}

/// What the controller says of its flags.
fn controller_help() -> Result<String> {
    let output = Command::new(built("vmpool-controller")?)
        .arg("--help")
        .output()
        .context("starting the controller")?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn helm(workspace: &Workspace) -> Command {
    let mut command = Command::new(workspace.tools().join("helm/bin/helm"));
    command.current_dir(workspace.root());
    command
}

fn render(workspace: &Workspace, values: &[&str]) -> Result<Vec<Value>> {
    let mut command = helm(workspace);
    command.args(["template", Variant::RELEASE, "charts/vmpool", "--namespace", Variant::NAMESPACE]);
    for value in values {
        command.args(["--set", value]);
    }
    let output = command.output().context("starting helm")?;
    if !output.status.success() {
        bail!("helm template: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    objects::parse(&String::from_utf8_lossy(&output.stdout))
}

/// Values that the chart's README does not list.
fn undocumented(workspace: &Workspace) -> Result<Vec<String>> {
    let read = |file: &str| {
        let path = workspace.path("charts/vmpool").join(file);
        fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    };
    let values = serde_yaml_ng::from_str(&read("values.yaml")?).context("reading the chart's values.yaml")?;
    Ok(rules::undocumented(&values, &read("README.md")?))
}
