//! A whole Kubernetes cluster of one node, without a container engine and without a registry.
//!
//! ```text
//! a control plane as ever (crate::cluster), on the node's own network, and beside it
//!   kube-scheduler ── places Pods on the one node
//!   containerd ────── runs them, with runc and the distribution's network plugins, from images made here (images)
//!   kubelet ───────── mounts, probes, limits, restarts
//!   kube-proxy ────── makes addresses of Services lead to Pods
//! ```
//!
//! Here the chart is seen as users get it: real Pods, Services, probes, security contexts. It needs root on Linux and
//! some packages; [`missing`] says which. Everything runs in [`crate::namespaces`], so nothing of the host changes and
//! nothing stays behind. There is no name service, and network policies are accepted and not enforced.

mod components;
pub mod images;
pub mod install;
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

pub use missing::missing;

use self::images::Image;
use self::tools::NodeTools;
use crate::cluster::{AuditLog, Cluster, Options, Site};
use crate::error::{Error, Result};
use crate::namespaces::{Forwarder, Namespaces};
use crate::process::{self, Process};

/// The name of the node.
pub const NODE: &str = "node";

/// How long one image may take to be unpacked, on a busy machine.
const IMPORT_DEADLINE: Duration = Duration::from_mins(2);

/// What a new cluster shall have.
#[derive(Debug, Clone, Default)]
pub struct NodeOptions {
    /// Goes into the name of the cluster's directory.
    pub name: String,
    /// What Pods can be made of. There is nowhere to pull others from: `imagePullPolicy: Never` says so in Pods.
    pub images: Vec<Image>,
    /// Files or directories of YAML that are applied before kube-controller-manager starts.
    pub manifests: Vec<PathBuf>,
    /// Keep the directory with logs and data after a success, too.
    pub keep: bool,
    /// Whether the API server writes down who asked for what.
    pub audit: AuditLog,
    /// The cluster's directory, as in [`Options::directory`].
    pub directory: Option<PathBuf>,
}

/// A running cluster. Dropping it kills every part and every Pod of it.
pub struct NodeCluster {
    tools: NodeTools,
    // Fields are dropped in this order.
    kubelet: Mutex<Option<Process>>,
    proxy: Process,
    scheduler: Process,
    containerd: Process,
    cluster: Cluster,
}

impl NodeCluster {
    /// Starts a cluster and waits until its node is ready for Pods.
    ///
    /// # Errors
    /// [`Error::Node`] if this machine cannot have one, [`Error::MissingTool`] and [`Error::MissingProgram`] for what
    /// was not built, [`Error::Exited`] and [`Error::NotInTime`] with the end of the log of the part that failed.
    pub async fn start(options: NodeOptions) -> Result<Self> {
        if let Some(missing) = missing() {
            return Err(Error::Node { missing });
        }
        let begin = Instant::now();
        let tools = NodeTools::find()?;
        let pause = images::of_program("pause")?;
        let cluster = Cluster::start(Options {
            name: if options.name.is_empty() { "node".to_owned() } else { options.name },
            manifests: options.manifests,
            keep: options.keep,
            audit: options.audit,
            directory: options.directory,
            site: Site::Node,
        })
        .await?;
        let control_plane = begin.elapsed();
        // Whoever fails to start wants the logs.
        let started = Self::on(cluster, tools, pause, &options.images).await?;
        tracing::info!(
            directory = %started.directory().display(),
            control_plane_seconds = control_plane.as_secs_f32(), seconds = begin.elapsed().as_secs_f32(),
            "the node is ready",
        );
        Ok(started)
    }

    async fn on(cluster: Cluster, tools: NodeTools, pause: Image, images: &[Image]) -> Result<Self> {
        let parts = Parts::start(&cluster, &tools, &pause);
        let Parts { containerd, scheduler, proxy } = parts.inspect_err(|_| cluster.keep_directory())?;
        let node = Self { tools, kubelet: Mutex::new(None), proxy, scheduler, containerd, cluster };
        let ready = async {
            node.until_containerd_answers().await?;
            // The kubelet is started before the images are there, and its first Pods come after.
            node.restart_kubelet()?;
            node.load(std::slice::from_ref(&pause)).await?;
            node.load(images).await?;
            node.until_ready().await
        };
        ready.await.inspect_err(|_| node.keep_directory())?;
        Ok(node)
    }

    /// The control plane, with everything that can be asked of it.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// A client with every right. It repeats nothing by itself, so that one call is one request.
    pub fn admin(&self) -> Client {
        self.cluster.admin()
    }

    /// The administrator's kubeconfig. It works on the host as well as inside.
    pub fn kubeconfig(&self) -> &Path {
        self.cluster.kubeconfig()
    }

    /// The directory with all logs and data; logs of Pods are below `pods`.
    pub fn directory(&self) -> &Path {
        self.cluster.directory()
    }

    /// Keeps the directory when the cluster goes, because somebody will want to read it.
    pub fn keep_directory(&self) {
        self.cluster.keep_directory();
    }

    /// Runs kubectl as the administrator and returns what it printed.
    ///
    /// # Errors
    /// As [`Cluster::kubectl`].
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.cluster.kubectl(arguments).await
    }

    /// The last lines of every part's log, by name.
    pub fn logs(&self, lines: usize) -> Vec<(String, String)> {
        let entries = std::fs::read_dir(self.directory()).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "log"));
        // One line for each request is nothing to read.
        files.retain(|file| file.file_stem().is_some_and(|stem| stem != "audit"));
        files.sort();
        let name = |file: &Path| file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        files.iter().map(|file| (name(file), process::tail(file, lines))).collect()
    }

    /// Unpacks images, so that Pods can be made of them.
    ///
    /// # Errors
    /// [`Error::Command`] with what containerd said.
    pub async fn load(&self, images: &[Image]) -> Result<()> {
        let load = async |image: &Image| {
            let mut command = components::ctr(self.namespaces(), &self.tools);
            command.args(["images", "import", "--local"]).arg(&image.archive);
            let output = process::output("ctr", command, IMPORT_DEADLINE).await?;
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

    /// A port of the host's loopback address that leads to an address of the cluster, such as that of a Service, until
    /// the forwarder is dropped.
    ///
    /// # Errors
    /// [`Error::Port`], [`Error::File`].
    pub fn reach(&self, address: SocketAddr) -> Result<(Forwarder, u16)> {
        self.namespaces().forward_to(address)
    }

    /// Kills the kubelet, if there is one, and starts it again. Pods run on meanwhile.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Spawn`].
    pub fn restart_kubelet(&self) -> Result<()> {
        let mut kubelet = self.kubelet.lock();
        // Else the new one would find the old one's lock and ports.
        drop(kubelet.take());
        let cluster = &self.cluster;
        let (namespaces, directory) = (self.namespaces(), cluster.directory());
        let command =
            components::kubelet(namespaces, &self.tools, directory, cluster.pki(), &cluster.address())?;
        *kubelet = Some(Process::spawn("kubelet", command, directory.join("kubelet.log"))?);
        Ok(())
    }

    /// Whether every part still runs.
    ///
    /// # Errors
    /// [`Error::Exited`] with the end of the log of the first part that ended by itself.
    pub fn check(&self) -> Result<()> {
        self.cluster.check()?;
        [&self.containerd, &self.scheduler, &self.proxy].into_iter().try_for_each(Process::check)?;
        self.kubelet.lock().as_ref().map_or(Ok(()), Process::check)
    }

    /// Stops everything: the node with its Pods at once, the control plane in order. No trace stays, but for the
    /// directory if it shall be kept.
    ///
    /// # Errors
    /// [`Error::NotInTime`] if a part of the control plane had to be killed; nothing is left running even then.
    pub async fn stop(self) -> Result<()> {
        let Self { kubelet, proxy, scheduler, containerd, cluster, .. } = self;
        // Nobody is there any more whom Pods could serve.
        drop((kubelet, proxy, scheduler, containerd));
        cluster.stop().await
    }

    /// Kills everything and removes the directory, unless it shall be kept. What drop does, for owners that are never
    /// dropped.
    pub fn tear_down(&self) {
        drop(self.kubelet.lock().take());
        [&self.proxy, &self.scheduler, &self.containerd].into_iter().for_each(Process::kill);
        self.cluster.tear_down();
    }

    fn namespaces(&self) -> &Namespaces {
        self.cluster.namespaces().expect("the control plane was started on the site of a node")
    }
}

/// The parts of the node that are started once.
struct Parts {
    containerd: Process,
    scheduler: Process,
    proxy: Process,
}

impl Parts {
    fn start(cluster: &Cluster, tools: &NodeTools, pause: &Image) -> Result<Self> {
        let namespaces = cluster.namespaces().expect("the control plane was started on the site of a node");
        let (directory, pki, server) = (cluster.directory(), cluster.pki(), cluster.address());
        let spawn =
            |name: &str, command| Process::spawn(name, command, directory.join(format!("{name}.log")));
        let containerd = components::containerd(namespaces, tools, directory, &pause.reference)?;
        Ok(Self {
            containerd: spawn("containerd", containerd)?,
            scheduler: spawn("kube-scheduler", components::scheduler(namespaces, tools, pki, &server)?)?,
            proxy: spawn("kube-proxy", components::proxy(namespaces, tools, pki, &server)?)?,
        })
    }
}

impl std::fmt::Debug for NodeCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeCluster").field("directory", &self.directory()).finish_non_exhaustive()
    }
}
