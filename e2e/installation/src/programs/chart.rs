//! The parts of the Helm chart that programs outside of Pods need: accounts, roles, arguments, and the
//! registrations with the API server.
//!
//! The programs run as local processes, so the chart's workloads are not applied. Their permissions,
//! arguments and registrations come only from the chart.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use vmpool_test_cluster::control_plane::{
    ControlPlane, apply_manifests, parse_yaml_documents, read_yaml_documents,
};
use vmpool_test_cluster::error::{Error, Result};
use vmpool_test_cluster::process;

use crate::release::helm_program;
use crate::{SYSTEM_NAMESPACE, workspace_root};

#[cfg(test)]
mod tests;

/// The controller's service account in [`SYSTEM_NAMESPACE`].
pub const CONTROLLER_ACCOUNT: &str = "vmpool-controller";

/// Rendering takes a fraction of a second, but the host may be busy.
const HELM_DEADLINE: Duration = Duration::from_mins(1);

/// The part of the rendered chart that local processes need, in the working tree. `cargo xtask chart` keeps
/// it equal to the chart.
const STORED: &str = "e2e/manifests/chart.yaml";

/// The chart requires a registry. Nothing is pulled from this one.
const REGISTRY: &str = "image.registry=vmpool.local";

/// The same with disk images, wrappers and instance types.
const STORED_WITH_ALL: &str = "e2e/manifests/chart-all.yaml";

/// Values of the chart for a cluster with DVP only. Helm does not read the cluster when it only renders.
pub const DVP_ONLY: [&str; 2] = ["platforms.dvp.enabled=true", "platforms.kubevirt.enabled=false"];

/// The kinds of the chart's objects that grant or limit rights.
const KINDS: [&str; 7] = [
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// The rendered chart.
#[derive(Debug, Clone)]
pub struct Chart {
    documents: Vec<Value>,
}

impl Chart {
    /// Renders the chart with values such as `featureGates.VirtualMachinePool=false`.
    ///
    /// # Errors
    /// [`Error::MissingTool`] without helm, [`Error::Command`] if the chart cannot be rendered.
    pub async fn render(values: &[String]) -> Result<Self> {
        let mut command = Command::new(helm_program()?);
        command
            .args(["template", "vmpool"])
            .arg(workspace_root().join("charts/vmpool"))
            .args(["--namespace", SYSTEM_NAMESPACE, "--set", REGISTRY])
            .args(values.iter().map(|value| format!("--set={value}")));
        let output = process::command_output("helm", command, HELM_DEADLINE).await?;
        if !output.status.success() {
            return Err(Error::Command {
                command: "helm template vmpool charts/vmpool".to_owned(),
                status: output.status,
                stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            });
        }
        Ok(Self {
            documents: parse_yaml_documents("charts/vmpool", &String::from_utf8_lossy(&output.stdout))?,
        })
    }

    /// The chart with its default values and the platform's group, as it was rendered for the demo and the
    /// playground: they do not need helm. Tests render the chart itself, so that they see a change of it at
    /// once.
    ///
    /// # Errors
    /// [`Error::File`] if the working tree has no such file, [`Error::Manifest`] if it is not YAML.
    pub fn stored() -> Result<Self> {
        read_yaml_documents(&workspace_root().join(STORED)).map(|documents| Self { documents })
    }

    /// As [`Chart::stored`], with disk images, wrappers and instance types. The cluster needs their
    /// definitions ([`crate::installation::feature_definitions`]).
    ///
    /// # Errors
    /// As [`Chart::stored`].
    pub fn stored_with_all_features() -> Result<Self> {
        read_yaml_documents(&workspace_root().join(STORED_WITH_ALL)).map(|documents| Self { documents })
    }

    /// The documents of this kind.
    pub fn all<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.documents.iter().filter(move |document| document["kind"] == kind)
    }

    /// The arguments of a Deployment's only container, with environment variables expanded.
    ///
    /// # Errors
    /// [`Error::Unexpected`] if there is no such Deployment.
    pub fn arguments(&self, deployment: &str) -> Result<Vec<String>> {
        let found = self.all("Deployment").find(|document| document["metadata"]["name"] == deployment);
        let container = found.and_then(|found| found.pointer("/spec/template/spec/containers/0"));
        let container = container.ok_or_else(|| Error::Unexpected {
            what: format!("the chart has a Deployment {deployment}"),
            last: self.names().join("\n"),
        })?;
        let list = |field: &str| container[field].as_array().cloned().unwrap_or_default();
        let environment: Vec<(String, String)> =
            list("env").iter().filter_map(|variable| environment(variable, deployment)).collect();
        let expand = |argument: &str| {
            environment
                .iter()
                .fold(argument.to_owned(), |text, (name, value)| text.replace(&format!("$({name})"), value))
        };
        Ok(list("args").iter().filter_map(Value::as_str).map(expand).collect())
    }

    /// The registrations for programs that listen on loopback ports. `ports` maps the names of Services to
    /// ports.
    ///
    /// Each Service becomes an ExternalName: the API server connects to that name at the port in the webhook
    /// or APIService, but verifies the Service's name in the certificate. Several references to one Service
    /// use its ports in turn.
    pub fn wiring(&self, ports: &BTreeMap<&str, &[u16]>) -> Vec<Value> {
        let mut objects: Vec<Value> = ports
            .keys()
            .map(|name| {
                json!({
                    "apiVersion": "v1",
                    "kind": "Service",
                    "metadata": { "name": name, "namespace": SYSTEM_NAMESPACE },
                    "spec": { "type": "ExternalName", "externalName": "localhost" },
                })
            })
            .collect();
        let configurations = ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"];
        for configuration in configurations.into_iter().flat_map(|kind| self.all(kind)) {
            let mut configuration = configuration.clone();
            let webhooks = configuration["webhooks"].as_array_mut().into_iter().flatten();
            for (turn, webhook) in webhooks.enumerate() {
                redirect(&mut webhook["clientConfig"]["service"], ports, turn);
            }
            objects.push(configuration);
        }
        for (turn, service) in self.all("APIService").enumerate() {
            let mut service = service.clone();
            redirect(&mut service["spec"]["service"], ports, turn);
            objects.push(service);
        }
        objects
    }

    /// `kind/name` of every document.
    fn names(&self) -> Vec<String> {
        let name = |document: &Value| {
            format!(
                "{}/{}",
                document["kind"].as_str().unwrap_or_default(),
                document["metadata"]["name"].as_str().unwrap_or_default()
            )
        };
        self.documents.iter().map(name).collect()
    }
}

/// Replaces the port in a reference to a Service by a port of its processes.
fn redirect(reference: &mut Value, ports: &BTreeMap<&str, &[u16]>, turn: usize) {
    let ports = reference["name"].as_str().and_then(|name| ports.get(name)).copied().unwrap_or_default();
    if let Some(port) = ports.iter().cycle().nth(turn) {
        reference["port"] = json!(port);
    }
}

/// An environment variable of a container; `None` for values that only a Pod has.
fn environment(variable: &Value, pod: &str) -> Option<(String, String)> {
    let name = variable["name"].as_str()?.to_owned();
    let value = match variable.pointer("/valueFrom/fieldRef/fieldPath").and_then(Value::as_str) {
        Some("metadata.name") => pod,
        Some("metadata.namespace") => SYSTEM_NAMESPACE,
        _ => variable["value"].as_str()?,
    };
    Some((name, value.to_owned()))
}

/// The chart's accounts and roles, applied to a cluster.
#[derive(Debug, Clone)]
pub struct Accounts {
    /// The controller's namespaced roles and bindings, which apply only in [`SYSTEM_NAMESPACE`].
    namespaced: Vec<Value>,
}

impl Accounts {
    /// Renders the chart for DVP only and applies its accounts and roles.
    ///
    /// # Errors
    /// As [`Chart::render`] and [`Accounts::of`].
    pub async fn install(cluster: &ControlPlane) -> Result<Self> {
        Self::of(&Chart::render(&DVP_ONLY.map(str::to_owned)).await?, cluster).await
    }

    /// Applies the accounts and roles of a chart.
    ///
    /// # Errors
    /// [`Error::Api`].
    pub async fn of(chart: &Chart, cluster: &ControlPlane) -> Result<Self> {
        let mut rendered = chart.documents.clone();
        // Helm creates hooks while it runs them.
        let is_hook = |document: &Value| !document["metadata"]["annotations"]["helm.sh/hook"].is_null();
        rendered.retain(|document| KINDS.iter().any(|kind| document["kind"] == *kind) && !is_hook(document));
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SYSTEM_NAMESPACE } });
        apply_manifests(&cluster.admin(), &[namespace], None).await?;
        apply_manifests(&cluster.admin(), &rendered, Some(SYSTEM_NAMESPACE)).await?;
        Ok(Self { namespaced: controllers_own(&rendered) })
    }

    /// Grants the controller's namespaced roles also in `namespace`, so that a controller can have its lease
    /// there.
    ///
    /// # Errors
    /// [`Error::Api`].
    pub async fn grant_in(&self, cluster: &ControlPlane, namespace: &str) -> Result<()> {
        let mut moved = self.namespaced.clone();
        for document in &mut moved {
            // The subjects of the bindings are not changed: they refer to the account in the chart's
            // namespace.
            document["metadata"]["namespace"] = Value::Null;
            for subject in document.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
                if subject["namespace"].is_null() {
                    subject["namespace"] = json!(SYSTEM_NAMESPACE);
                }
            }
        }
        apply_manifests(&cluster.admin(), &moved, Some(namespace)).await
    }

    /// The controller's user name.
    pub fn controller_user() -> String {
        format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{CONTROLLER_ACCOUNT}")
    }
}

/// The namespaced roles that are bound to the controller, and their bindings.
fn controllers_own(documents: &[Value]) -> Vec<Value> {
    let here = |document: &&Value| {
        document["metadata"]["namespace"].as_str().is_none_or(|namespace| namespace == SYSTEM_NAMESPACE)
    };
    let of_controller = |document: &&Value| {
        document["kind"] == "RoleBinding"
            && document["subjects"]
                .as_array()
                .is_some_and(|subjects| subjects.iter().any(|subject| subject["name"] == CONTROLLER_ACCOUNT))
    };
    let bindings: Vec<&Value> = documents.iter().filter(here).filter(of_controller).collect();
    let is_bound = |role: &&Value| {
        role["kind"] == "Role"
            && bindings.iter().any(|binding| binding["roleRef"]["name"] == role["metadata"]["name"])
    };
    documents.iter().filter(here).filter(is_bound).chain(bindings.iter().copied()).cloned().collect()
}
