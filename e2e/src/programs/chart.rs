//! The accounts and roles that the Helm chart gives to our programs.
//!
//! Our programs run as local processes, so the chart's workloads are left out; what they may do comes from the
//! chart and from nowhere else.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::{Cluster, apply, documents, helm, workspace_root};
use crate::error::{Error, Result};
use crate::process;

/// The namespace that the chart is installed into.
pub const SYSTEM_NAMESPACE: &str = "vmpool-system";

/// The controller's service account in [`SYSTEM_NAMESPACE`].
pub const CONTROLLER_ACCOUNT: &str = "vmpool-controller";

/// Rendering takes a fraction of a second; the machine may be busy.
const HELM_DEADLINE: Duration = Duration::from_mins(1);

/// The kinds of the chart's documents that say who may do what.
const KINDS: [&str; 5] = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];

/// What the chart grants, applied to a cluster.
#[derive(Debug, Clone)]
pub struct Accounts {
    /// The chart's namespaced roles and their bindings, which hold for [`SYSTEM_NAMESPACE`] only.
    namespaced: Vec<Value>,
}

impl Accounts {
    /// Renders the chart and applies its accounts and roles.
    ///
    /// # Errors
    /// [`Error::MissingTool`] without helm, [`Error::Command`] if the chart does not render, [`Error::Api`].
    pub async fn install(cluster: &Cluster) -> Result<Self> {
        let mut rendered = render().await?;
        rendered.retain(|document| KINDS.iter().any(|kind| document["kind"] == *kind));
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SYSTEM_NAMESPACE } });
        apply(&cluster.admin(), &[namespace], None).await?;
        apply(&cluster.admin(), &rendered, Some(SYSTEM_NAMESPACE)).await?;
        rendered.retain(|document| document["kind"] == "Role" || document["kind"] == "RoleBinding");
        Ok(Self { namespaced: rendered })
    }

    /// Grants in `namespace` what the chart grants in its own, so that a controller can have its lease there.
    ///
    /// # Errors
    /// [`Error::Api`].
    pub async fn grant_in(&self, cluster: &Cluster, namespace: &str) -> Result<()> {
        let mut moved = self.namespaced.clone();
        for document in &mut moved {
            // The subjects of the bindings stay: they name the account in the chart's own namespace.
            document["metadata"]["namespace"] = Value::Null;
            for subject in document.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
                if subject["namespace"].is_null() {
                    subject["namespace"] = json!(SYSTEM_NAMESPACE);
                }
            }
        }
        apply(&cluster.admin(), &moved, Some(namespace)).await
    }

    /// The controller's name as the API server sees it.
    pub fn controller_user() -> String {
        format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{CONTROLLER_ACCOUNT}")
    }
}

async fn render() -> Result<Vec<Value>> {
    let mut command = Command::new(helm()?);
    command
        .args(["template", "vmpool"])
        .arg(workspace_root().join("charts/vmpool"))
        .args(["--namespace", SYSTEM_NAMESPACE]);
    let output = process::output("helm", command, HELM_DEADLINE).await?;
    if !output.status.success() {
        return Err(Error::Command {
            command: "helm template vmpool charts/vmpool".to_owned(),
            status: output.status,
            stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        });
    }
    documents("charts/vmpool", &String::from_utf8_lossy(&output.stdout))
}
