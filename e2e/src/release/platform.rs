//! What the chart expects of a cluster: the platform's definitions, an image and a class, and somebody who plays the
//! platform.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::access::Access;
use crate::cluster::{apply, documents_in, workspace_root};
use crate::error::{Error, Result};
use crate::installation::platform_objects;

/// The namespace of the simulator, which is not the chart's: an uninstalled chart leaves the platform at work.
pub const NAMESPACE: &str = "vmpool-platform";

/// The simulator's name, as an account, a Deployment and an image.
pub const SIMULATOR: &str = "vmpool-simulator";

/// The definition that the chart brings itself.
const POOLS: &str = "virtualmachinepools.virtualization.deckhouse.io.yaml";

/// Where the simulator shows that it lives.
const HEALTH_PORT: u16 = 8081;

/// The files with the platform's own definitions.
///
/// # Errors
/// [`Error::File`].
pub fn definitions() -> Result<Vec<PathBuf>> {
    let directory = workspace_root().join("api/crds");
    let entries = std::fs::read_dir(&directory).map_err(Error::file("listing", &directory))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| {
        file.extension().is_some_and(|extension| extension == "yaml")
            && file.file_name().is_some_and(|name| name != POOLS)
    });
    files.sort();
    Ok(files)
}

/// Installs the definitions, an image, a class, and the simulator as a Deployment from this image.
///
/// # Errors
/// [`Error::File`] and [`Error::Manifest`] for files of ours, [`Error::Api`], [`Error::Deadline`].
pub async fn install(access: &Access, image: &str) -> Result<()> {
    let mut objects = Vec::new();
    for file in definitions()? {
        objects.extend(documents_in(&file)?);
    }
    objects.extend(platform_objects());
    objects.extend(roles()?);
    objects.push(deployment(image));
    apply(&access.client, &objects, Some(NAMESPACE)).await
}

/// The simulator's own roles, in its own namespace.
fn roles() -> Result<Vec<Value>> {
    let file = workspace_root().join("e2e/simulator/rbac.yaml");
    let mut roles = documents_in(&file)?;
    for object in &mut roles {
        match object["kind"].as_str() {
            Some("Namespace") => {
                object["metadata"] = json!({
                    "name": NAMESPACE,
                    "labels": { "pod-security.kubernetes.io/enforce": "restricted" },
                });
            }
            Some("ServiceAccount") => object["metadata"]["namespace"] = json!(NAMESPACE),
            _ => {}
        }
        for subject in object.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
            subject["namespace"] = json!(NAMESPACE);
        }
    }
    Ok(roles)
}

fn deployment(image: &str) -> Value {
    let labels = json!({ "app.kubernetes.io/name": SIMULATOR });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": SIMULATOR, "namespace": NAMESPACE, "labels": labels },
        "spec": {
            "replicas": 1,
            // Two of them would both play every machine.
            "strategy": { "type": "Recreate" },
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "serviceAccountName": SIMULATOR,
                    "securityContext": {
                        "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532,
                        "seccompProfile": { "type": "RuntimeDefault" },
                    },
                    "containers": [{
                        "name": "simulator",
                        "image": image,
                        "imagePullPolicy": "Never",
                        "args": [
                            format!("--health-address=0.0.0.0:{HEALTH_PORT}"),
                            // Here somebody looks after nodes.
                            "--node-heartbeat=10s",
                        ],
                        "ports": [{ "name": "health", "containerPort": HEALTH_PORT }],
                        "livenessProbe": { "httpGet": { "path": "/livez", "port": "health" } },
                        "readinessProbe": {
                            "httpGet": { "path": "/readyz", "port": "health" }, "periodSeconds": 2 },
                        "resources": { "requests": { "cpu": "20m", "memory": "32Mi" } },
                        "securityContext": {
                            "allowPrivilegeEscalation": false,
                            "readOnlyRootFilesystem": true,
                            "capabilities": { "drop": ["ALL"] },
                        },
                    }],
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pools_definition_is_left_to_the_chart() {
        let files = definitions().unwrap();
        assert!(files.len() > 5, "{files:?}");
        assert!(files.iter().all(|file| !file.ends_with(POOLS)));
        assert!(workspace_root().join("api/crds").join(POOLS).is_file(), "or the line above says nothing");
    }

    #[test]
    fn the_simulator_has_a_namespace_of_its_own() {
        let roles = roles().unwrap();
        let text = serde_json::to_string(&roles).unwrap();
        assert!(!text.contains("vmpool-system"), "{text}");
        assert!(text.contains(NAMESPACE));
    }
}
