//! The check of the installed programs.

use k8s_openapi::api::apps::v1::Deployment;

use crate::commands::doctor::finding::{CheckFinding, CheckVerdict};
use crate::installation::labeled_version;

/// The Deployment of the aggregated API server.
const APISERVER: &str = "vmpool-apiserver";

/// Whether the chart is installed without its aggregated API server.
pub(super) fn lacks_aggregated_api(deployments: &[Deployment]) -> bool {
    let is_named = |deployment: &Deployment| deployment.metadata.name.as_deref() == Some(APISERVER);
    !deployments.is_empty() && !deployments.iter().any(is_named)
}

/// Whether the programs run, all with the version of the plugin.
pub(super) fn check_programs(system: &str, deployments: &kube::Result<Vec<Deployment>>) -> CheckFinding {
    const CHECK: &str = "programs";
    let deployments = match deployments {
        Ok(deployments) => deployments,
        Err(error) => {
            return CheckFinding::unknown(
                CHECK,
                &format!("listing deployments in namespace {system}"),
                error,
            );
        }
    };
    if deployments.is_empty() {
        return CheckFinding::new(
            CHECK,
            CheckVerdict::Warning,
            format!("namespace {system} has no deployments of the chart"),
            "set --system-namespace to the namespace of the release",
        );
    }
    let own = env!("CARGO_PKG_VERSION");
    let (mut down, mut versions) = (Vec::new(), Vec::new());
    for deployment in deployments {
        let name = deployment.metadata.name.clone().unwrap_or_default();
        let available =
            deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or_default();
        if available == 0 {
            down.push(name.clone());
        }
        let version = labeled_version(&deployment.metadata);
        if version != own {
            versions.push(format!("{name} {version}"));
        }
    }
    if !down.is_empty() {
        let what = format!("without an available replica: {}", down.join(", "));
        return CheckFinding::new(
            CHECK,
            CheckVerdict::Failed,
            what,
            format!("run `kubectl get pods -n {system}`"),
        );
    }
    if !versions.is_empty() {
        let what = format!("the plugin has version {own}, and other versions run: {}", versions.join(", "));
        return CheckFinding::new(
            CHECK,
            CheckVerdict::Warning,
            what,
            "use the plugin of the installed release",
        );
    }
    CheckFinding::new(
        CHECK,
        CheckVerdict::Ok,
        format!("{} deployments of version {own} are available", deployments.len()),
        "",
    )
}

#[cfg(test)]
mod tests;
