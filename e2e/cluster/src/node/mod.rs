//! A Kubernetes cluster of one node, without a container engine and without a registry.
//!
//! ```text
//! a control plane (crate::cluster) on the node's own network, and in addition
//!   kube-scheduler ── schedules Pods to the node
//!   containerd ────── runs them, with runc and the distribution's network plugins, from local images (images)
//!   kubelet ───────── mounts, probes, limits, restarts
//!   kube-proxy ────── routes addresses of Services to Pods
//! ```
//!
//! Tests on it run the chart as users do, with real Pods, Services, probes and security contexts. It needs
//! root on Linux and some packages, which [`missing_host_requirement`] lists. Everything runs in
//! [`crate::namespaces`], so the host is not changed and nothing remains. There is no cluster DNS, and
//! network policies are accepted but not enforced.

mod components;
pub mod images;
mod missing;
mod ready;
#[cfg(test)]
mod tests;
mod tools;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use kube::Client;
use parking_lot::Mutex;

pub use components::NODE;
pub use missing::missing_host_requirement;

use self::images::ContainerImage;
use self::tools::NodeTools;
use crate::control_plane::{AuditLog, ComponentLocation, ControlPlane, ControlPlaneOptions};
use crate::error::{Error, Result};
use crate::namespaces::{LinuxNamespaces, NamespaceForwarder};
use crate::process::{self, ChildProcess};

/// How long the import of one image may take on a busy host.
const IMPORT_DEADLINE: Duration = Duration::from_mins(2);

/// Options of a new cluster.
#[derive(Debug, Clone, Default)]
pub struct NodeOptions {
    /// Part of the name of the cluster's directory.
    pub name: String,
    /// Images for Pods. Other images cannot be pulled; Pods use `imagePullPolicy: Never`.
    pub images: Vec<ContainerImage>,
    /// YAML files or directories that are applied before kube-controller-manager starts.
    pub manifests: Vec<PathBuf>,
    /// Whether to keep the directory with logs and data after a success.
    pub keep: bool,
    /// Whether the API server writes an audit log.
    pub audit: AuditLog,
    /// The cluster's directory, as in [`ControlPlaneOptions::directory`].
    pub directory: Option<PathBuf>,
}

/// A running cluster. Dropping it kills every part of it and every Pod.
pub struct NodeCluster {
    tools: NodeTools,
    // Fields are dropped in this order.
    kubelet: Mutex<Option<ChildProcess>>,
    proxy: ChildProcess,
    scheduler: ChildProcess,
    containerd: ChildProcess,
    cluster: ControlPlane,
}

impl NodeCluster {
    /// Starts a cluster and waits until its node is ready for Pods.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if this host cannot run one, [`Error::MissingTool`] and
    /// [`Error::MissingProgram`] if a program was not built, [`Error::Exited`] and [`Error::NotInTime`] with
    /// the end of the log of the failed part.
    pub async fn start(options: NodeOptions) -> Result<Self> {
        if let Some(missing) = missing_host_requirement() {
            return Err(Error::Unavailable { reason: missing });
        }
        let begin = Instant::now();
        let tools = NodeTools::find()?;
        let pause = images::of_program("pause")?;
        let cluster = ControlPlane::start(ControlPlaneOptions {
            name: if options.name.is_empty() { "node".to_owned() } else { options.name },
            manifests: options.manifests,
            keep: options.keep,
            audit: options.audit,
            directory: options.directory,
            location: ComponentLocation::Namespaces,
        })
        .await?;
        let control_plane = begin.elapsed();
        // If the start fails, the logs are kept.
        let started = Self::on(cluster, tools, pause, &options.images).await?;
        tracing::info!(
            directory = %started.directory().display(),
            control_plane_seconds = control_plane.as_secs_f32(), seconds = begin.elapsed().as_secs_f32(),
            "the node is ready",
        );
        Ok(started)
    }

    async fn on(
        cluster: ControlPlane,
        tools: NodeTools,
        pause: ContainerImage,
        images: &[ContainerImage],
    ) -> Result<Self> {
        let parts = Parts::start(&cluster, &tools, &pause);
        let Parts { containerd, scheduler, proxy } = parts.inspect_err(|_| cluster.keep_directory())?;
        let node = Self { tools, kubelet: Mutex::new(None), proxy, scheduler, containerd, cluster };
        let ready = async {
            node.until_containerd_answers().await?;
            // The kubelet starts before the images are imported; its first Pods are created later.
            node.restart_kubelet()?;
            node.load(std::slice::from_ref(&pause)).await?;
            node.load(images).await?;
            node.until_ready().await
        };
        ready.await.inspect_err(|_| node.keep_directory())?;
        Ok(node)
    }

    /// The control plane.
    pub fn cluster(&self) -> &ControlPlane {
        &self.cluster
    }

    /// A client with all permissions. It does not retry, so that one call is one request.
    pub fn admin(&self) -> Client {
        self.cluster.admin()
    }

    /// The administrator's kubeconfig. It works on the host and inside the namespaces.
    pub fn kubeconfig(&self) -> &Path {
        self.cluster.kubeconfig()
    }

    /// The directory with all logs and data; logs of Pods are in `pods`.
    pub fn directory(&self) -> &Path {
        self.cluster.directory()
    }

    /// Keeps the directory for inspection after the cluster has stopped.
    pub fn keep_directory(&self) {
        self.cluster.keep_directory();
    }

    /// Runs kubectl as the administrator and returns its output.
    ///
    /// # Errors
    /// As [`ControlPlane::kubectl`].
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.cluster.kubectl(arguments).await
    }

    /// The last lines of each part's log, by name.
    pub fn logs(&self, lines: usize) -> Vec<(String, String)> {
        let entries = std::fs::read_dir(self.directory()).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "log"));
        // The audit log, with one line per request, is too long for a report.
        files.retain(|file| file.file_stem().is_some_and(|stem| stem != "audit"));
        files.sort();
        let name = |file: &Path| file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        files.iter().map(|file| (name(file), process::last_lines(file, lines))).collect()
    }

    /// Imports images, so that Pods can use them.
    ///
    /// # Errors
    /// [`Error::Command`] with containerd's output.
    pub async fn load(&self, images: &[ContainerImage]) -> Result<()> {
        let load = async |image: &ContainerImage| {
            let mut command = components::ctr_command(self.namespaces(), &self.tools);
            command.args(["images", "import", "--local"]).arg(&image.archive);
            let output = process::command_output("ctr", command, IMPORT_DEADLINE).await?;
            if output.status.success() {
                return Ok(());
            }
            Err(Error::Command {
                command: format!("ctr images import {}", image.archive.display()),
                status: output.status,
                stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            })
        };
        try_join_all(images.iter().map(load)).await.map(drop)
    }

    /// Forwards a port of the host's loopback address to an address of the cluster, such as that of a
    /// Service, until the forwarder is dropped.
    ///
    /// # Errors
    /// [`Error::Port`], [`Error::File`].
    pub fn reach(&self, address: SocketAddr) -> Result<(NamespaceForwarder, u16)> {
        self.namespaces().forward_to(address)
    }

    /// Kills the kubelet if it runs, and starts it again. Pods continue to run.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Spawn`].
    pub fn restart_kubelet(&self) -> Result<()> {
        let mut kubelet = self.kubelet.lock();
        // Otherwise the new kubelet would conflict with the lock and ports of the old one.
        drop(kubelet.take());
        let cluster = &self.cluster;
        let (namespaces, directory) = (self.namespaces(), cluster.directory());
        let command = components::kubelet_command(
            namespaces,
            &self.tools,
            directory,
            cluster.pki(),
            &cluster.address(),
        )?;
        *kubelet = Some(ChildProcess::spawn("kubelet", command, directory.join("kubelet.log"))?);
        Ok(())
    }

    /// Checks that every part is running.
    ///
    /// # Errors
    /// [`Error::Exited`] with the end of the log of the first part that has exited.
    pub fn check(&self) -> Result<()> {
        self.cluster.check()?;
        [&self.containerd, &self.scheduler, &self.proxy].into_iter().try_for_each(ChildProcess::check)?;
        self.kubelet.lock().as_ref().map_or(Ok(()), ChildProcess::check)
    }

    /// Stops everything: the node with its Pods at once, the control plane in order. Nothing remains, except
    /// the directory if it is to be kept.
    ///
    /// # Errors
    /// [`Error::NotInTime`] if a part of the control plane had to be killed; even then nothing is left
    /// running.
    pub async fn stop(self) -> Result<()> {
        let Self { kubelet, proxy, scheduler, containerd, cluster, .. } = self;
        // No client uses the Pods anymore, so they are not drained.
        drop((kubelet, proxy, scheduler, containerd));
        cluster.stop().await
    }

    /// Kills everything, and removes the directory unless it is to be kept. Drop does the same; this is for
    /// owners that are never dropped.
    pub fn tear_down(&self) {
        drop(self.kubelet.lock().take());
        [&self.proxy, &self.scheduler, &self.containerd].into_iter().for_each(ChildProcess::kill);
        self.cluster.tear_down();
    }

    fn namespaces(&self) -> &LinuxNamespaces {
        self.cluster.namespaces().expect("the control plane was started with Location::Namespaces")
    }
}

/// The parts of the node that are never restarted.
struct Parts {
    containerd: ChildProcess,
    scheduler: ChildProcess,
    proxy: ChildProcess,
}

impl Parts {
    fn start(cluster: &ControlPlane, tools: &NodeTools, pause: &ContainerImage) -> Result<Self> {
        let namespaces =
            cluster.namespaces().expect("the control plane was started with Location::Namespaces");
        let (directory, pki, server) = (cluster.directory(), cluster.pki(), cluster.address());
        let spawn =
            |name: &str, command| ChildProcess::spawn(name, command, directory.join(format!("{name}.log")));
        let containerd = components::containerd_command(namespaces, tools, directory, &pause.reference)?;
        Ok(Self {
            containerd: spawn("containerd", containerd)?,
            scheduler: spawn(
                "kube-scheduler",
                components::scheduler_command(namespaces, tools, pki, &server)?,
            )?,
            proxy: spawn("kube-proxy", components::kube_proxy_command(namespaces, tools, pki, &server)?)?,
        })
    }
}

impl std::fmt::Debug for NodeCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeCluster").field("directory", &self.directory()).finish_non_exhaustive()
    }
}
