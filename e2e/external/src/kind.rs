//! A kind cluster.

use std::path::Path;

use vmpool_test_cluster::error::{Error, Result};
use vmpool_test_cluster::node::images::ContainerImage;

use crate::provider::unique_name;
use crate::tool::CommandLineTool;
use crate::{Environment, Provider};

/// A cluster that this process has created. Dropping it deletes it.
pub(crate) struct KindCluster {
    kind: CommandLineTool,
    name: String,
    deleted: bool,
}

impl KindCluster {
    /// Creates a cluster with these images, which are built only if all tools are available, and a kubeconfig
    /// for it.
    ///
    /// # Errors
    /// [`Error::Unavailable`] without Docker or kind, [`Error::Command`] with kind's error.
    pub(crate) async fn create(
        environment: &Environment,
        kubeconfig: &Path,
        images: impl FnOnce() -> Result<Vec<ContainerImage>>,
    ) -> Result<Self> {
        let unavailable = |reason: &str| Provider::Kind.unavailable(reason);
        let docker = CommandLineTool::find("docker", environment)
            .ok_or_else(|| unavailable("docker is not on PATH"))?;
        match docker.run(&["version", "--format={{.Server.Version}}"]).await {
            Ok(_version) => {}
            Err(Error::Command { stderr, .. }) => {
                let reason = stderr.lines().next().unwrap_or_default();
                return Err(unavailable(&format!("`docker version` fails: {reason}")));
            }
            Err(error) => return Err(error),
        }
        let kind = CommandLineTool::find("kind", environment)
            .ok_or_else(|| unavailable("kind is not on PATH (go install sigs.k8s.io/kind)"))?;
        let images = images()?;
        // From here on the cluster may exist and must be deleted.
        let cluster = Self { kind, name: unique_name(), deleted: false };
        let name = format!("--name={}", cluster.name);
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        cluster.kind.run(&["create", "cluster", &name, &kubeconfig]).await?;
        for image in &images {
            let archive = image.archive.display().to_string();
            cluster.kind.run(&["load", "image-archive", &archive, &name]).await?;
        }
        Ok(cluster)
    }

    /// Deletes the cluster.
    ///
    /// # Errors
    /// [`Error::Command`] with kind's error.
    pub(crate) async fn delete(mut self) -> Result<()> {
        self.deleted = true;
        let name = format!("--name={}", self.name);
        self.kind.run(&["delete", "cluster", &name]).await.map(drop)
    }
}

impl Drop for KindCluster {
    fn drop(&mut self) {
        if !self.deleted {
            let name = format!("--name={}", self.name);
            self.kind.run_in_drop(&["delete", "cluster", &name]);
        }
    }
}
