//! The chart as a user installs it: with helm, on the cluster of [`Access`].
//!
//! [`platform`] installs what the chart requires: the platform's CRDs and the platform simulator.

mod helm;
pub mod platform;

use std::path::{Path, PathBuf};

use serde_json::json;

pub use self::helm::{check_helm_built as check_helm, find_helm as helm_program};

use vmpool_test_cluster::access::Access;
use vmpool_test_cluster::control_plane::apply_manifests;
use vmpool_test_cluster::error::{Error, Result};

use self::helm::Helm;
use crate::api_service::until_available;
use crate::installation::until_pools_are_validated;
use crate::programs::SYSTEM_NAMESPACE;
use crate::workspace_root;

/// Name of the release.
pub const RELEASE: &str = "vmpool";

/// The APIServices that the chart registers in a cluster with DVP that does not serve its own group, and
/// perhaps with KubeVirt.
pub const API_SERVICES: [&str; 3] = [
    "v1alpha1.subresources.vmpool.dev",
    "v1alpha2.subresources.virtualization.deckhouse.io",
    "v1alpha1.kubevirt.subresources.vmpool.dev",
];

/// The webhook configuration of the chart.
pub const WEBHOOK: &str = "vmpool-webhook";

/// The installed chart. Dropping this does not uninstall it.
#[derive(Clone)]
pub struct HelmRelease {
    access: Access,
    helm: Helm,
    values: PathBuf,
}

impl HelmRelease {
    /// Installs the chart into a namespace that enforces the restricted Pod Security Standard. Waits for the
    /// Pods as helm does, then until the API server reaches the webhook and the aggregated API.
    ///
    /// `values` is a values file; the cluster must have the images that it names.
    ///
    /// # Errors
    /// [`Error::MissingTool`] without helm, [`Error::Command`] with helm's error, [`Error::Deadline`].
    pub async fn install(access: &Access, values: &Path) -> Result<Self> {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": SYSTEM_NAMESPACE,
                "labels": { "pod-security.kubernetes.io/enforce": "restricted" },
            },
        });
        apply_manifests(&access.client, &[namespace], None).await?;
        let helm = Helm::new(access.clone())?;
        let release = Self { access: access.clone(), helm, values: values.to_owned() };
        let chart = chart();
        release.helm.run(&["install", RELEASE, &chart, "--values", &text(values), "--wait"]).await?;
        release.until_at_work().await?;
        Ok(release)
    }

    /// The access to its cluster.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Installs the chart again with the same values.
    ///
    /// # Errors
    /// As [`HelmRelease::install`].
    pub async fn reinstall(&self) -> Result<()> {
        Self::install(&self.access, &self.values).await.map(drop)
    }

    /// Upgrades the release with changed values, such as `webhook.log.level=debug`, and waits as helm does.
    ///
    /// # Errors
    /// [`Error::Command`] with helm's error.
    pub async fn upgrade(&self, changes: &[&str]) -> Result<()> {
        let chart = chart();
        let mut arguments = vec!["upgrade", RELEASE, &chart, "--reset-then-reuse-values", "--wait"];
        for change in changes {
            arguments.extend(["--set", change]);
        }
        self.helm.run(&arguments).await.map(drop)
    }

    /// Runs the test of the release, and returns its log.
    ///
    /// # Errors
    /// [`Error::Command`] with helm's error, also if the test fails.
    pub async fn test(&self) -> Result<String> {
        self.helm.run(&["test", RELEASE, "--logs"]).await
    }

    /// Rolls back to the previous revision, and waits as helm does.
    ///
    /// # Errors
    /// [`Error::Command`] with helm's error.
    pub async fn rollback(&self) -> Result<()> {
        self.helm.run(&["rollback", RELEASE, "--wait"]).await.map(drop)
    }

    /// Uninstalls the release, without waiting for its Pods.
    ///
    /// # Errors
    /// [`Error::Command`] with helm's error.
    pub async fn uninstall(&self) -> Result<()> {
        self.helm.run(&["uninstall", RELEASE]).await.map(drop)
    }

    /// The release history: number and status (`deployed`, `superseded`) of each revision, oldest first.
    ///
    /// # Errors
    /// [`Error::Command`] with helm's error, [`Error::Unexpected`] if its output is no list.
    pub async fn history(&self) -> Result<Vec<(u64, String)>> {
        let text = self.helm.run(&["history", RELEASE, "--output=json"]).await?;
        let listed: serde_json::Value =
            serde_json::from_str(&text).map_err(Error::json("reading the history of the release"))?;
        let revisions = listed.as_array().ok_or_else(|| Error::Unexpected {
            what: "helm lists the revisions of the release".to_owned(),
            last: text.clone(),
        })?;
        let read = |revision: &serde_json::Value| {
            let status = revision["status"].as_str().unwrap_or_default().to_owned();
            (revision["revision"].as_u64().unwrap_or_default(), status)
        };
        Ok(revisions.iter().map(read).collect())
    }

    /// Waits until the API server reaches the webhook and the aggregated API.
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Deadline`] with the reason in the condition.
    pub async fn until_at_work(&self) -> Result<()> {
        until_pools_are_validated(&self.access.client, || Ok(())).await?;
        for name in API_SERVICES {
            until_available(&self.access.client, name).await?;
        }
        Ok(())
    }
}

fn chart() -> String {
    text(&workspace_root().join("charts/vmpool"))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
