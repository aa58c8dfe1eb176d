//! The chart as a user installs it: with helm, on whatever cluster [`Access`] leads to.
//!
//! [`platform`] brings what the chart expects: the platform's definitions, and somebody who plays the platform.

mod helm;
pub mod platform;

use std::path::{Path, PathBuf};

use serde_json::json;

use self::helm::Helm;
use crate::access::Access;
use crate::cluster::{apply, workspace_root};
use crate::error::{Error, Result};
use crate::installation::{until_available, until_judged};
use crate::programs::SYSTEM_NAMESPACE;

/// Name of the release.
pub const RELEASE: &str = "vmpool";

/// The APIServices that the chart registers, where nobody else holds the platform's group.
pub const API_SERVICES: [&str; 2] =
    ["v1alpha1.subresources.vmpool.dev", "v1alpha2.subresources.virtualization.deckhouse.io"];

/// The webhook configuration that the chart makes.
pub const WEBHOOK: &str = "vmpool-webhook";

/// The chart, installed. It stays when this is dropped.
#[derive(Clone)]
pub struct Release {
    access: Access,
    helm: Helm,
    values: PathBuf,
}

impl Release {
    /// Installs the chart into a namespace that enforces the restricted Pod Security Standard, and waits until its programs
    /// are at work: for the Pods as helm does, then until the API server reaches webhook and aggregated API.
    ///
    /// `values` is a file of values as a user has one; whatever it names as images the cluster must have.
    ///
    /// # Errors
    /// [`Error::MissingTool`] without helm, [`Error::Command`] with what helm says, [`Error::Deadline`].
    pub async fn install(access: &Access, values: &Path) -> Result<Self> {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": SYSTEM_NAMESPACE,
                "labels": { "pod-security.kubernetes.io/enforce": "restricted" },
            },
        });
        apply(&access.client, &[namespace], None).await?;
        let helm = Helm::new(access.clone())?;
        let release = Self { access: access.clone(), helm, values: values.to_owned() };
        let chart = chart();
        release.helm.run(&["install", RELEASE, &chart, "--values", &text(values), "--wait"]).await?;
        release.until_at_work().await?;
        Ok(release)
    }

    /// The way into its cluster.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Installs it again, with the same values.
    ///
    /// # Errors
    /// As [`Release::install`].
    pub async fn reinstall(&self) -> Result<()> {
        Self::install(&self.access, &self.values).await.map(drop)
    }

    /// Upgrades it with changed values, such as `webhook.log.level=debug`, and waits as helm does.
    ///
    /// # Errors
    /// [`Error::Command`] with what helm says.
    pub async fn upgrade(&self, changes: &[&str]) -> Result<()> {
        let chart = chart();
        let mut arguments = vec!["upgrade", RELEASE, &chart, "--reset-then-reuse-values", "--wait"];
        for change in changes {
            arguments.extend(["--set", change]);
        }
        self.helm.run(&arguments).await.map(drop)
    }

    /// Goes back to the revision before, and waits as helm does.
    ///
    /// # Errors
    /// [`Error::Command`] with what helm says.
    pub async fn rollback(&self) -> Result<()> {
        self.helm.run(&["rollback", RELEASE, "--wait"]).await.map(drop)
    }

    /// Uninstalls it, and does not wait until its Pods are gone.
    ///
    /// # Errors
    /// [`Error::Command`] with what helm says.
    pub async fn uninstall(&self) -> Result<()> {
        self.helm.run(&["uninstall", RELEASE]).await.map(drop)
    }

    /// What helm knows about it: number and status (`deployed`, `superseded`) of each revision, the oldest first.
    ///
    /// # Errors
    /// [`Error::Command`] with what helm says, [`Error::Unexpected`] if that is no list.
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

    /// Waits until the API server reaches webhook and aggregated API.
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Deadline`] with its reason why not.
    pub async fn until_at_work(&self) -> Result<()> {
        until_judged(&self.access.client, || Ok(())).await?;
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
