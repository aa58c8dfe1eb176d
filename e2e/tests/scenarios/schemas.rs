//! The project's CRDs on the real API server.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use vmpool_e2e::wait::eventually;
use vmpool_installation::workspace_root;
use vmpool_test_cluster::control_plane::{ControlPlane, read_yaml_documents};

use crate::with_control_plane;

const POOL_CRD: &str = "virtualmachinepools.virtualization.deckhouse.io";

/// How long the API server may take to publish the OpenAPI document of a definition that it serves.
const OPENAPI_LIMIT: Duration = Duration::from_mins(1);

/// Fields that the API server describes; descriptions in the CRD are ignored.
const STANDARD_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The sample manifests of one kind, with their texts.
fn samples(kind: &str) -> Result<Vec<(PathBuf, String)>> {
    let directory = workspace_root().join("api/tests/samples").join(kind);
    let entries = fs::read_dir(&directory).with_context(|| directory.display().to_string())?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    ensure!(!files.is_empty(), "no samples in {}", directory.display());
    files.into_iter().map(|file| Ok((file.clone(), fs::read_to_string(file)?))).collect()
}

/// A namespace for samples. They are really applied, because a sample may be a change of another one.
struct Samples<'c> {
    cluster: &'c ControlPlane,
    namespace: &'static str,
    scratch: tempfile::TempDir,
}

impl<'c> Samples<'c> {
    async fn in_namespace(cluster: &'c ControlPlane, namespace: &'static str) -> Result<Self> {
        cluster.kubectl(&["create", "namespace", namespace]).await?;
        Ok(Self { cluster, namespace, scratch: tempfile::tempdir()? })
    }

    /// Applies a manifest with strict validation. The inner result is that of the API server.
    async fn apply(&self, text: &str) -> Result<Result<String, String>> {
        let file = self.scratch.path().join("sample.yaml");
        fs::write(&file, text)?;
        let file = file.display().to_string();
        let arguments = ["apply", "--validate=strict", "--namespace", self.namespace, "-f", &file];
        Ok(self.cluster.kubectl(&arguments).await.map_err(|error| error.to_string()))
    }

    async fn delete(self) -> Result<()> {
        self.cluster.kubectl(&["delete", "namespace", self.namespace, "--wait=false"]).await?;
        Ok(())
    }
}

#[test]
fn the_api_server_accepts_the_accepted_samples() {
    with_control_plane(async |cluster| {
        let place = Samples::in_namespace(cluster, "samples-accepted").await?;
        let mut wrong = Vec::new();
        for (file, text) in samples("accepted")? {
            if let Err(error) = place.apply(&text).await? {
                wrong.push(format!("{}: {error}", file.display()));
            }
        }
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        place.delete().await
    });
}

#[test]
fn rejected_samples_are_rejected_for_the_reason_they_name() {
    with_control_plane(async |cluster| {
        let place = Samples::in_namespace(cluster, "samples-rejected").await?;
        let mut wrong = Vec::new();
        for (file, text) in samples("rejected")? {
            let name = file.display();
            let reason = text.lines().next().and_then(|line| line.strip_prefix("# rejected: "));
            let Some(reason) = reason.map(str::trim).filter(|reason| !reason.is_empty()) else {
                bail!("{name} does not begin with `# rejected: <part of the message>`");
            };
            // All documents but the last one prepare the state for the last one.
            let (before, last) = text.rsplit_once("\n---\n").unwrap_or(("", &text));
            if !before.is_empty()
                && let Err(error) = place.apply(before).await?
            {
                wrong.push(format!("{name}: a document before the last one was rejected: {error}"));
                continue;
            }
            match place.apply(last).await? {
                Ok(_) => wrong.push(format!("{name} was accepted")),
                Err(error) if !error.contains(reason) => {
                    wrong.push(format!("{name} was rejected, but not for {reason:?}: {error}"));
                }
                Err(_) => {}
            }
        }
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        place.delete().await
    });
}

/// Every field of a schema, with its description.
fn walk(schema: &Value, path: &str, fields: &mut Vec<(String, String)>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if !STANDARD_FIELDS.contains(&path.as_str()) {
            let description = field["description"].as_str().unwrap_or_default();
            fields.push((path.clone(), description.to_owned()));
        }
        walk(field, &path, fields);
        walk(&field["items"], &path, fields);
        walk(&field["additionalProperties"], &path, fields);
    }
}

#[test]
fn kubectl_explains_every_field_of_a_pool() {
    with_control_plane(async |cluster| {
        // Given the stored schema,
        let stored = cluster.kubectl(&["get", "crd", POOL_CRD, "-o", "json"]).await?;
        let crd: Value = serde_json::from_str(&stored)?;
        let mut fields = Vec::new();
        for version in crd["spec"]["versions"].as_array().context("no versions")? {
            walk(&version["schema"]["openAPIV3Schema"], "", &mut fields);
        }
        ensure!(fields.len() > 100, "only {} fields", fields.len());
        // then every field has a description,
        let silent: Vec<&str> =
            fields.iter().filter(|(_, text)| text.trim().is_empty()).map(|(path, _)| path.as_str()).collect();
        ensure!(silent.is_empty(), "without a description: {silent:#?}");
        // `kubectl explain` shows every field, some time after the API server serves the definition,
        let explained = eventually("pools are explained", OPENAPI_LIMIT, async || {
            let explained = cluster.kubectl(&["explain", "--recursive", POOL_CRD]).await;
            Ok(explained.map_err(|error| error.to_string()))
        })
        .await?;
        for (path, _) in &fields {
            let name = path.rsplit('.').next().unwrap_or(path);
            let known = explained.lines().any(|line| line.split_ascii_whitespace().next() == Some(name));
            ensure!(known, "kubectl explain does not know {path}");
        }
        // and the description of a requested field.
        for (path, description) in fields.iter().step_by(fields.len() / 8) {
            let shown = cluster.kubectl(&["explain", &format!("{POOL_CRD}.{path}")]).await?;
            let flat = |text: &str| text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
            let beginning: String = flat(description).chars().take(40).collect();
            ensure!(flat(&shown).contains(&beginning), "{path}: {shown}");
        }
        Ok(())
    });
}

#[test]
fn every_crd_is_served() {
    with_control_plane(async |cluster| {
        let definitions = read_yaml_documents(&workspace_root().join("api/crds"))?;
        ensure!(definitions.len() == 8, "{} CRDs", definitions.len());
        for definition in definitions {
            let name = definition["metadata"]["name"].as_str().context("a CRD without a name")?;
            cluster.kubectl(&["get", name, "--all-namespaces"]).await?;
        }
        Ok(())
    });
}
