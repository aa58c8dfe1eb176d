//! A kind cluster.

use std::path::Path;

use vmpool_test_cluster::error::Result;
use vmpool_test_cluster::node::images::Image;

use super::{Provider, Surroundings, docker, unique_name};
use crate::provider::tool::Tool;

/// A cluster that this process has created. Dropping it deletes it.
pub(super) struct Cluster {
    kind: Tool,
    name: String,
    deleted: bool,
}

impl Cluster {
    /// Creates a cluster with these images, which are built only if all tools are available, and a kubeconfig for it.
    ///
    /// # Errors
    /// [`vmpool_test_cluster::Error::Unavailable`] without Docker or kind, [`vmpool_test_cluster::Error::Command`] with kind's error.
    pub(super) async fn create(
        surroundings: &Surroundings,
        kubeconfig: &Path,
        images: impl FnOnce() -> Result<Vec<Image>>,
    ) -> Result<Self> {
        docker(Provider::Kind, surroundings).await?;
        let lacks = || Provider::Kind.lacks("kind, which is not on PATH (go install sigs.k8s.io/kind)");
        let kind = Tool::find("kind", surroundings).ok_or_else(lacks)?;
        let images = images()?;
        // From here on the cluster may exist and must be deleted.
        let cluster = Self { kind, name: unique_name(), deleted: false };
        let name = format!("--name={}", cluster.name);
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        cluster.kind.run(&["create", "cluster", &name, &kubeconfig, "--wait=180s"]).await?;
        for image in &images {
            let archive = image.archive.display().to_string();
            cluster.kind.run(&["load", "image-archive", &archive, &name]).await?;
        }
        Ok(cluster)
    }

    /// Deletes the cluster.
    ///
    /// # Errors
    /// [`vmpool_test_cluster::Error::Command`] with kind's error.
    pub(super) async fn delete(mut self) -> Result<()> {
        self.deleted = true;
        let name = format!("--name={}", self.name);
        self.kind.run(&["delete", "cluster", &name]).await.map(drop)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !self.deleted {
            let name = format!("--name={}", self.name);
            self.kind.run_at_last(&["delete", "cluster", &name]);
        }
    }
}
