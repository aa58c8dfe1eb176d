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

/// Where it is stored.
const FILE: &str = "e2e/manifests/chart.yaml";

/// The values it is rendered with: helm cannot see, while it only renders, that no API server of the platform
/// holds its group. Both platforms can be tried out.
pub(super) const VALUES: [&str; 2] = ["apiserver.platformGroup=true", "platforms.kubevirt.enabled=true"];

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

/// Stores the manifest of these rendered objects.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn write_stored_manifest(workspace: &Workspace, rendered: &[Value]) -> Result<()> {
    fs::write(workspace.path(FILE), manifest_text(rendered)?).with_context(|| format!("writing {FILE}"))
}

/// Compares the stored manifest with these rendered objects.
///
/// # Errors
/// When the file cannot be read, or is out of date.
pub(super) fn check_stored_manifest(workspace: &Workspace, rendered: &[Value]) -> Result<()> {
    let stored = fs::read_to_string(workspace.path(FILE)).with_context(|| format!("reading {FILE}"))?;
    if stored != manifest_text(rendered)? {
        bail!("{FILE} is out of date: run `cargo xtask chart --write`");
    }
    Ok(())
}

/// The text of the manifest: the objects that local processes need, in the order of the chart. Only helm runs
/// hooks.
pub(super) fn manifest_text(rendered: &[Value]) -> Result<String> {
    let mut manifest = HEADER.to_owned();
    let is_hook = |object: &&Value| !value_at(object, "metadata.annotations")["helm.sh/hook"].is_null();
    let needed = rendered.iter().filter(|object| KINDS.contains(&text_at(object, "kind")));
    for object in needed.filter(|object| !is_hook(object)) {
        manifest.push_str("---\n");
        manifest.push_str(&serde_yaml_ng::to_string(object).with_context(|| format!("writing {FILE}"))?);
    }
    Ok(manifest)
}
