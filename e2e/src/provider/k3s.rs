//! A k3s server in a container, which is a complete cluster.

use std::path::Path;
use std::time::Duration;

use vmpool_test_cluster::error::{Error, Result};
use vmpool_test_cluster::node::images::Image;
use vmpool_test_cluster::poll;

use super::{Provider, Surroundings, docker, unique_name};
use crate::provider::tool::Tool;

/// The environment variable with an alternative image.
const VARIABLE: &str = "E2E_K3S_IMAGE";

/// The default image.
const IMAGE: &str = "rancher/k3s:v1.32.2-k3s1";

/// How long the server may take to respond, after its image was pulled.
const UP: Duration = Duration::from_mins(3);

/// A container that this process has started. Dropping it removes it.
pub(super) struct Server {
    docker: Tool,
    name: String,
    removed: bool,
}

impl Server {
    /// Starts a server with these images, which are built only if Docker is available, and writes a kubeconfig for it.
    ///
    /// # Errors
    /// [`Error::Unavailable`] without Docker, [`Error::Command`] with Docker's error, [`Error::Deadline`].
    pub(super) async fn start(
        surroundings: &Surroundings,
        kubeconfig: &Path,
        images: impl FnOnce() -> Result<Vec<Image>>,
    ) -> Result<Self> {
        let docker = docker(Provider::K3s, surroundings).await?;
        let images = images()?;
        // From here on the container may exist and must be removed.
        let server = Self { docker, name: unique_name(), removed: false };
        let image = std::env::var(VARIABLE).unwrap_or_else(|_| IMAGE.to_owned());
        let name = format!("--name={}", server.name);
        let container =
            ["run", "--detach", "--privileged", "--tmpfs=/run", "--publish=127.0.0.1::6443", &name, &image];
        // Components that the scenarios do not need.
        let without = ["server", "--disable=traefik", "--disable=servicelb", "--disable=metrics-server"];
        server.docker.run(&[container.as_slice(), &without].concat()).await?;
        let published = server.docker.run(&["port", &server.name, "6443/tcp"]).await?;
        let address = published.lines().next().unwrap_or_default().trim();
        let written = server.kubeconfig().await?;
        let reachable = written.replace("https://127.0.0.1:6443", &format!("https://{address}"));
        std::fs::write(kubeconfig, reachable).map_err(Error::file("writing", kubeconfig))?;
        server.until_ready().await?;
        for image in &images {
            server.import(image).await?;
        }
        Ok(server)
    }

    /// Removes the container.
    ///
    /// # Errors
    /// [`Error::Command`] with Docker's error.
    pub(super) async fn remove(mut self) -> Result<()> {
        self.removed = true;
        self.docker.run(&["rm", "--force", "--volumes", &self.name]).await.map(drop)
    }

    async fn kubeconfig(&self) -> Result<String> {
        self.ask("the server of k3s has written its kubeconfig", &["cat", "/etc/rancher/k3s/k3s.yaml"]).await
    }

    async fn until_ready(&self) -> Result<()> {
        let wait = ["kubectl", "wait", "--for=condition=Ready", "node", "--all", "--timeout=10s"];
        self.ask("the node of k3s is ready", &wait).await.map(drop)
    }

    /// Repeats a command in the container until it succeeds.
    async fn ask(&self, what: &str, command: &[&str]) -> Result<String> {
        let all = [["exec", &self.name].as_slice(), command].concat();
        poll::until(
            || what.to_owned(),
            UP,
            async || match self.docker.run(&all).await {
                Ok(answer) => Ok(Ok(answer)),
                Err(Error::Command { stderr, .. }) => Ok(Err(stderr)),
                Err(error) => Err(error),
            },
        )
        .await
    }

    async fn import(&self, image: &Image) -> Result<()> {
        let inside = format!("{}:/tmp/image.tar", self.name);
        self.docker.run(&["cp", &image.archive.display().to_string(), &inside]).await?;
        let import = ["exec", &self.name, "ctr", "--namespace=k8s.io", "images", "import", "/tmp/image.tar"];
        self.docker.run(&import).await.map(drop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.removed {
            self.docker.run_at_last(&["rm", "--force", "--volumes", &self.name]);
        }
    }
}
