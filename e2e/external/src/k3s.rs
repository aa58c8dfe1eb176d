//! A k3s server in a container, which is a complete cluster.

use std::path::Path;
use std::time::Duration;

use testcontainers_modules::k3s::{K3s, KUBE_SECURE_PORT};
use testcontainers_modules::testcontainers::core::WaitFor;
use testcontainers_modules::testcontainers::core::client::docker_client_instance;
use testcontainers_modules::testcontainers::core::error::TestcontainersError;
use testcontainers_modules::testcontainers::runners::AsyncRunner as _;
use testcontainers_modules::testcontainers::{ContainerAsync, ContainerRequest, ImageExt as _};
use vmpool_test_cluster::error::{Error, Result, chain};
use vmpool_test_cluster::node::images::Image;

use crate::provider::unique_name;
use crate::{Environment, Provider};

/// The default image. The module's own default is older than the oldest supported Kubernetes.
const IMAGE: &str = "rancher/k3s:v1.32.2-k3s1";

/// How long the server may take to start, after its image was pulled.
const STARTUP: Duration = Duration::from_mins(3);

/// The server writes this line when its API server accepts requests.
const UP: &str = "k3s is up and running";

/// The server imports all images in this directory before it starts its node.
const IMAGES: &str = "/var/lib/rancher/k3s/agent/images";

/// The API server's URL in the kubeconfig that the server writes.
const INSIDE: &str = "https://127.0.0.1:6443";

/// A container that this process has started. Dropping it deletes it.
pub(crate) struct K3sServer {
    container: ContainerAsync<K3s>,
}

impl K3sServer {
    /// Starts a server with these images, which are built only if Docker responds, and writes a kubeconfig
    /// for it.
    ///
    /// # Errors
    /// [`Error::Unavailable`] without Docker, [`Error::Unexpected`] with Docker's error.
    pub(crate) async fn start(
        environment: &Environment,
        home: &Path,
        kubeconfig: &Path,
        images: impl FnOnce() -> Result<Vec<Image>>,
    ) -> Result<Self> {
        let unavailable = |reason: &dyn std::error::Error| Provider::K3s.unavailable(&reason.to_string());
        let docker = docker_client_instance().await.map_err(|error| unavailable(&error))?;
        docker.ping().await.map_err(|error| unavailable(&error))?;
        let image = environment.k3s_image.as_deref().unwrap_or(IMAGE);
        let config = home.join("k3s");
        let request = k3s_container_request(image, &config, &images()?)?;
        let container = request.start().await.map_err(failed("starting the container of k3s"))?;
        let server = Self { container };
        server.write_kubeconfig(&config, kubeconfig).await?;
        Ok(server)
    }

    /// Deletes the container.
    ///
    /// # Errors
    /// [`Error::Unexpected`] with Docker's error.
    pub(crate) async fn delete(self) -> Result<()> {
        self.container.rm().await.map_err(failed("deleting the container of k3s"))
    }

    async fn write_kubeconfig(&self, config: &Path, to: &Path) -> Result<()> {
        let inside =
            self.container.image().read_kube_config().map_err(Error::file("reading k3s.yaml in", config))?;
        let port = self.container.get_host_port_ipv4(KUBE_SECURE_PORT).await;
        let port = port.map_err(failed("reading the port of k3s"))?;
        let outside = inside.replace(INSIDE, &format!("https://127.0.0.1:{port}"));
        std::fs::write(to, outside).map_err(Error::file("writing", to))
    }
}

/// The container of a server whose kubeconfig is written to `config`, on this host.
///
/// # Errors
/// [`Error::File`] if the directory cannot be created.
pub(crate) fn k3s_container_request(
    image: &str,
    config: &Path,
    images: &[Image],
) -> Result<ContainerRequest<K3s>> {
    std::fs::create_dir_all(config).map_err(Error::file("creating", config))?;
    let (name, tag) = name_and_tag(image);
    let server = K3s::default()
        .with_conf_mount(config)
        .with_container_name(unique_name())
        .with_name(name)
        .with_tag(tag)
        .with_privileged(true)
        .with_userns_mode("host")
        // Without the components that the scenarios do not use.
        .with_cmd([
            "server",
            "--snapshotter=native",
            "--disable=traefik",
            "--disable=servicelb",
            "--disable=metrics-server",
        ])
        .with_ready_conditions(vec![WaitFor::message_on_stderr(UP)])
        .with_startup_timeout(STARTUP);
    let archives = images.iter().enumerate();
    Ok(archives.fold(server, |server, (number, image)| {
        server.with_copy_to(format!("{IMAGES}/{number}.tar"), image.archive.clone())
    }))
}

/// Splits an image's name and tag. The colon of a registry's port is not followed by a tag.
pub(crate) fn name_and_tag(image: &str) -> (&str, &str) {
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _no_tag => (image, "latest"),
    }
}

fn failed(doing: &'static str) -> impl FnOnce(TestcontainersError) -> Error {
    move |error| Error::Unexpected { what: doing.to_owned(), last: chain(&error) }
}
