//! The manifests that are rendered from the chart and stored: what the demo and the playground install, so
//! that they do not need helm, and the whole chart for users without helm.
//!
//! The programs of demo and playground run as local processes. They need the accounts, roles and arguments of
//! the chart, and the objects that register webhook and aggregated API; the other kinds are left out, so that
//! a change of them does not change this file.

use std::fs;

use anyhow::{Context, Result, bail};
use serde_yaml_ng::Value;

use super::objects::{text_at, value_at};
use crate::workspace::Workspace;

/// A manifest in the working tree.
pub(super) struct StoredManifest {
    /// Where it is stored.
    file: &'static str,
    /// The values of the chart with which it is rendered.
    pub(super) values: &'static [&'static str],
    /// Which objects of the chart it has.
    content: Content,
}

/// Which objects of the chart a manifest has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// Those that local processes need.
    LocalProcesses,
    /// All, after their namespace.
    All,
}

/// The manifest of an installation without helm.
pub(crate) const INSTALL_MANIFEST: &str = "deploy/vmpool.yaml";

/// The registry of its images, which a release replaces.
pub(crate) const INSTALL_REGISTRY: &str = "vmpool.local";

/// Helm cannot see, while it only renders, which platforms a cluster has, and that no API server of DVP holds
/// its group. Both platforms can be tried out. A playground with KubeVirt also has disk images and instance
/// types.
pub(super) const MANIFESTS: [StoredManifest; 3] = [
    StoredManifest {
        file: "e2e/manifests/chart.yaml",
        values: &[
            "image.registry=vmpool.local",
            "apiserver.platformGroup=true",
            "platforms.dvp.enabled=true",
            "platforms.kubevirt.enabled=true",
        ],
        content: Content::LocalProcesses,
    },
    StoredManifest {
        file: "e2e/manifests/chart-all.yaml",
        values: &[
            "image.registry=vmpool.local",
            "apiserver.platformGroup=true",
            "platforms.dvp.enabled=true",
            "platforms.kubevirt.enabled=true",
            "featureGates.DiskImages=true",
            "featureGates.MachineWrapper=true",
            "instancetype.mode=Standalone",
        ],
        content: Content::LocalProcesses,
    },
    StoredManifest {
        file: INSTALL_MANIFEST,
        values: &[
            "image.registry=vmpool.local",
            "platforms.dvp.enabled=true",
            "platforms.kubevirt.enabled=false",
        ],
        content: Content::All,
    },
];

/// What the file begins with.
const HEADER: &str = "\
# Rendered from charts/vmpool by `cargo xtask chart --write`; do not edit. `cargo xtask chart` compares the two.
# The demo and the playground install it, so that they do not need helm.
";

/// What the manifest of an installation without helm begins with.
const INSTALL_HEADER: &str = "\
# Rendered from charts/vmpool by `cargo xtask chart --write`; do not edit. `cargo xtask chart` compares the two.
# For pools of DVP. Apply it with `kubectl apply --server-side -f vmpool.yaml`.
---
apiVersion: v1
kind: Namespace
metadata:
  name: vmpool-system
  labels:
    pod-security.kubernetes.io/enforce: restricted
";

/// The kinds that local processes need.
const KINDS: [&str; 11] = [
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "Deployment",
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "APIService",
];

impl StoredManifest {
    /// Stores these rendered objects.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn write(&self, workspace: &Workspace, rendered: &[Value]) -> Result<()> {
        let path = workspace.path(self.file);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        }
        let text = self.text(rendered)?;
        fs::write(path, text).with_context(|| format!("writing {}", self.file))
    }

    fn text(&self, rendered: &[Value]) -> Result<String> {
        match self.content {
            Content::LocalProcesses => manifest_text(rendered),
            Content::All => install_manifest_text(rendered),
        }
    }

    /// Compares the stored manifest with these rendered objects.
    ///
    /// # Errors
    /// When the file cannot be read, or is out of date.
    pub(super) fn check(&self, workspace: &Workspace, rendered: &[Value]) -> Result<()> {
        let file = self.file;
        let stored = fs::read_to_string(workspace.path(file)).with_context(|| format!("reading {file}"))?;
        if stored != self.text(rendered)? {
            bail!("{file} is out of date: run `cargo xtask chart --write`");
        }
        Ok(())
    }
}

/// The text of the manifest of an installation without helm, which runs no hooks.
pub(super) fn install_manifest_text(rendered: &[Value]) -> Result<String> {
    write_objects(INSTALL_HEADER, rendered.iter().filter(|object| !is_hook(object)))
}

/// The text of the manifest: the objects that local processes need, in the order of the chart. Only helm runs
/// hooks.
pub(super) fn manifest_text(rendered: &[Value]) -> Result<String> {
    let needed = rendered.iter().filter(|object| KINDS.contains(&text_at(object, "kind")));
    write_objects(HEADER, needed.filter(|object| !is_hook(object)))
}

fn is_hook(object: &Value) -> bool {
    !value_at(object, "metadata.annotations")["helm.sh/hook"].is_null()
}

fn write_objects<'a>(header: &str, objects: impl Iterator<Item = &'a Value>) -> Result<String> {
    let mut manifest = header.to_owned();
    for object in objects {
        manifest.push_str("---\n");
        manifest.push_str(&serde_yaml_ng::to_string(object).context("writing an object of the chart")?);
    }
    Ok(manifest)
}
