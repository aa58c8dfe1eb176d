//! The part of the rendered chart that the demo and the playground install, so that they do not need helm.
//!
//! Their programs run as local processes. They need the accounts, roles and arguments of the chart, and the
//! objects that register webhook and aggregated API; the other kinds are left out, so that a change of them
//! does not change this file.

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
}

/// Helm cannot see, while it only renders, that no API server of the platform holds its group. Both platforms
/// can be tried out. A playground with KubeVirt also has disk images and instance types.
pub(super) const MANIFESTS: [StoredManifest; 2] = [
    StoredManifest {
        file: "e2e/manifests/chart.yaml",
        values: &[
            "image.registry=vmpool.local",
            "apiserver.platformGroup=true",
            "platforms.kubevirt.enabled=true",
        ],
    },
    StoredManifest {
        file: "e2e/manifests/chart-all.yaml",
        values: &[
            "image.registry=vmpool.local",
            "apiserver.platformGroup=true",
            "platforms.kubevirt.enabled=true",
            "featureGates.DiskImages=true",
            "featureGates.MachineWrapper=true",
            "instancetype.mode=Standalone",
        ],
    },
];

/// What the file begins with.
const HEADER: &str = "\
# Rendered from charts/vmpool by `cargo xtask chart --write`; do not edit. `cargo xtask chart` compares the two.
# The demo and the playground install it, so that they do not need helm.
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
        let text = manifest_text(rendered)?;
        fs::write(workspace.path(self.file), text).with_context(|| format!("writing {}", self.file))
    }

    /// Compares the stored manifest with these rendered objects.
    ///
    /// # Errors
    /// When the file cannot be read, or is out of date.
    pub(super) fn check(&self, workspace: &Workspace, rendered: &[Value]) -> Result<()> {
        let file = self.file;
        let stored = fs::read_to_string(workspace.path(file)).with_context(|| format!("reading {file}"))?;
        if stored != manifest_text(rendered)? {
            bail!("{file} is out of date: run `cargo xtask chart --write`");
        }
        Ok(())
    }
}

/// The text of the manifest: the objects that local processes need, in the order of the chart. Only helm runs
/// hooks.
pub(super) fn manifest_text(rendered: &[Value]) -> Result<String> {
    let mut manifest = HEADER.to_owned();
    let is_hook = |object: &&Value| !value_at(object, "metadata.annotations")["helm.sh/hook"].is_null();
    let needed = rendered.iter().filter(|object| KINDS.contains(&text_at(object, "kind")));
    for object in needed.filter(|object| !is_hook(object)) {
        manifest.push_str("---\n");
        manifest.push_str(&serde_yaml_ng::to_string(object).context("writing an object of the chart")?);
    }
    Ok(manifest)
}
