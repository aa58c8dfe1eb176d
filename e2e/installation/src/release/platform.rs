//! Installs what the chart requires of a cluster: the platform's CRDs, an image, a class, and the platform
//! simulator.

use std::path::PathBuf;

use serde_json::{Value, json};
use vmpool_test_cluster::access::Access;
use vmpool_test_cluster::control_plane::{apply_manifests, read_yaml_documents};
use vmpool_test_cluster::error::{Error, Result};

use crate::installation::platform_objects;
use crate::workspace_root;

/// The namespace of the simulator. It is not the chart's, so that uninstalling the chart does not affect the
/// platform.
pub const NAMESPACE: &str = "vmpool-platform";

/// The name of the simulator's account, Deployment and image.
pub const SIMULATOR: &str = "vmpool-simulator";

/// The CRD that the chart installs.
const POOLS: &str = "virtualmachinepools.virtualization.deckhouse.io.yaml";

/// The port of the simulator's health endpoints.
const HEALTH_PORT: u16 = 8081;

/// The files with the platform's CRDs.
///
/// # Errors
/// [`Error::File`].
pub fn platform_crd_files() -> Result<Vec<PathBuf>> {
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

/// Installs the CRDs, an image, a class, and the simulator as a Deployment with this image.
///
/// # Errors
/// [`Error::File`] and [`Error::Manifest`] for the project's files, [`Error::Api`], [`Error::Deadline`].
pub async fn install_platform(access: &Access, image: &str) -> Result<()> {
    let mut objects = Vec::new();
    for file in platform_crd_files()? {
        objects.extend(read_yaml_documents(&file)?);
    }
    objects.extend(platform_objects());
    objects.extend(roles()?);
    objects.push(deployment(image));
    apply_manifests(&access.client, &objects, Some(NAMESPACE)).await
}

/// The simulator's roles, in its namespace.
fn roles() -> Result<Vec<Value>> {
    let file = workspace_root().join("e2e/simulator/rbac.yaml");
    let mut roles = read_yaml_documents(&file)?;
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
            // Two simulators would both handle every machine.
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
                            // On this cluster a kubelet manages the node.
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
    fn the_pool_crd_is_installed_by_the_chart() {
        let files = platform_crd_files().unwrap();
        assert!(files.len() > 5, "{files:?}");
        assert!(files.iter().all(|file| !file.ends_with(POOLS)));
        assert!(
            workspace_root().join("api/crds").join(POOLS).is_file(),
            "otherwise the assertion above is meaningless"
        );
    }

    #[test]
    fn the_simulator_has_its_own_namespace() {
        let roles = roles().unwrap();
        let text = serde_json::to_string(&roles).unwrap();
        assert!(!text.contains("vmpool-system"), "{text}");
        assert!(text.contains(NAMESPACE));
    }
}
