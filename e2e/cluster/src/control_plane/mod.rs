//! A Kubernetes control plane for tests: etcd, kube-apiserver and kube-controller-manager as child processes.
//!
//! There is no node and no scheduler: controllers under test run as local processes, with a kubeconfig of the administrator
//! or of a service account. [`crate::node`] runs the same control plane on a node's network, together with a node. The order
//! of starting and stopping matters:
//!
//! ```text
//! start  etcd ─► kube-apiserver ─► CRDs established ─► kube-controller-manager ─► default account exists
//! stop   kube-controller-manager ─► kube-apiserver ─► etcd
//! ```
//!
//! CRDs are applied before the controller manager starts, because its garbage collector discovers new resources only
//! every 30 seconds. kube-apiserver stops before etcd, because without etcd its shutdown takes minutes.

mod accounts;
mod audit;
mod components;
mod directory;
mod kubectl;
mod location;
mod manifests;
mod metrics;
mod pki;
mod ports;
mod server;
mod storage;
mod tools;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client};
use parking_lot::Mutex;

pub use accounts::{client as client_of, get_text};
pub use audit::{AuditEntry, AuditMark, by_user};
pub use location::Location;
pub use manifests::{apply, documents, documents_in};
pub use metrics::{RequestCounts, RequestKey};
pub use pki::Pki;
pub use ports::{free as free_ports, was_taken as port_was_taken};
pub use server::Restart;
pub use tools::{check as check_tools, kubectl, target_directory};

use self::tools::Tools;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::namespaces::{Forwarder, Namespaces};
use crate::process::Process;

/// What the API server writes to the audit log, which [`ControlPlane::audit`] reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AuditLog {
    /// The metadata of all requests, without bodies. Reads of the control plane itself are omitted.
    #[default]
    Metadata,
    /// What this policy selects: YAML of kind `Policy` in `audit.k8s.io/v1`.
    Policy(String),
    /// Nothing, so that measurements are not affected.
    Off,
}

impl AuditLog {
    /// The audit policy; `None` if there is no log.
    fn policy(&self) -> Option<&str> {
        match self {
            Self::Metadata => Some(components::METADATA_POLICY),
            Self::Policy(policy) => Some(policy),
            Self::Off => None,
        }
    }
}

/// Name of the audit log in the cluster's directory.
const AUDIT_LOG: &str = "audit.log";

/// How long a part of the control plane may take to become ready, on a busy host.
const READY_DEADLINE: Duration = Duration::from_mins(1);

/// How long a part may take to exit.
const STOP_DEADLINE: Duration = Duration::from_secs(15);

/// How often the start is retried if another process takes a selected port.
const PORT_ATTEMPTS: usize = 3;

/// Options of a new cluster.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Part of the name of the cluster's directory.
    pub name: String,
    /// YAML files or directories that are applied before kube-controller-manager starts. When the cluster is ready,
    /// their CRDs are established.
    pub manifests: Vec<PathBuf>,
    /// Whether to keep the directory with logs and data after a success.
    pub keep: bool,
    /// What the API server writes to the audit log.
    pub audit: AuditLog,
    /// The cluster's directory, which is emptied first. The default is a new one below `target/e2e`; later clusters
    /// remove it after a day if it was kept.
    pub directory: Option<PathBuf>,
    /// Where the components run.
    pub location: Location,
}

/// A running control plane. Dropping it stops every part at once.
///
/// Its background tasks run on the runtime on which it was started, so a control plane that several tests share needs a
/// runtime that outlives each of them.
pub struct ControlPlane {
    directory: PathBuf,
    tools: Tools,
    pki: Pki,
    ports: components::Ports,
    audit: AuditLog,
    admin: Client,
    admin_kubeconfig: PathBuf,
    /// Counter for unique names of kubeconfigs and other files.
    serial: AtomicU32,
    keep: AtomicBool,
    namespaces: Option<Namespaces>,
    _forwarder: Option<Forwarder>,
    /// In the order in which they are stopped.
    controller_manager: Mutex<Option<Process>>,
    api_server: Mutex<Option<Process>>,
    etcd: Mutex<Option<Process>>,
}

impl ControlPlane {
    /// Starts a control plane and waits until it is ready, typically 3 to 4 seconds.
    ///
    /// # Errors
    /// [`Error::MissingTool`] if the programs were not built, [`Error::Exited`] and [`Error::NotInTime`] with the end of the
    /// log of the failed component, and the errors of the manifests.
    pub async fn start(options: Options) -> Result<Self> {
        let tools = Tools::find()?;
        for attempt in 1.. {
            match Self::start_once(&options, &tools).await {
                Err(error) if attempt < PORT_ATTEMPTS && port_was_taken(&error) => {
                    tracing::warn!(attempt, "another process took a port, starting again");
                }
                result => return result,
            }
        }
        unreachable!("the loop ends with its last attempt")
    }

    async fn start_once(options: &Options, tools: &Tools) -> Result<Self> {
        let begin = Instant::now();
        let directory = match &options.directory {
            Some(directory) => directory::create_at(directory)?,
            None => directory::create(&options.name)?,
        };
        let pki = Pki::create(&directory.join("pki"))?;
        if let Some(policy) = options.audit.policy() {
            components::write_audit_policy(&directory, policy).map_err(Error::file("writing", &directory))?;
        }
        components::write_admission(&directory, &pki).map_err(Error::file("writing", &directory))?;
        let namespaces = options.location.prepare(&directory).await?;
        let (forwarder, [etcd_port, etcd_peer, api_server]) = match &namespaces {
            // The forwarder holds these ports on the host; inside the namespaces no other process uses them.
            Some(namespaces) => namespaces.forward().map(|(forwarder, ports)| (Some(forwarder), ports))?,
            None => (None, free_ports()?),
        };
        let ports = components::Ports { etcd: etcd_port, etcd_peer, api_server };
        let address = format!("https://127.0.0.1:{api_server}");
        let admin_kubeconfig = pki.certificate_kubeconfig("admin", &address)?;
        let admin = accounts::client(&admin_kubeconfig).await?;

        let etcd = components::etcd(namespaces.as_ref(), tools, &directory, ports, None);
        let etcd = Process::spawn("etcd", etcd, directory.join("etcd.log"))?;
        let cluster = Self {
            directory,
            tools: tools.clone(),
            pki,
            ports,
            audit: options.audit.clone(),
            admin,
            admin_kubeconfig,
            serial: AtomicU32::new(0),
            // If the start fails, the logs are kept. A success decides below.
            keep: AtomicBool::new(true),
            namespaces,
            _forwarder: forwarder,
            etcd: Mutex::new(Some(etcd)),
            api_server: Mutex::new(None),
            controller_manager: Mutex::new(None),
        };
        cluster.until_etcd_listens().await?;
        cluster.start_api_server().await?;
        let api_server_ready = begin.elapsed();
        for path in &options.manifests {
            cluster.apply_path(path, None).await?;
        }
        cluster.start_controller_manager()?;
        cluster.until_accounts_are_made("default").await?;
        cluster.keep.store(options.keep, Ordering::Relaxed);
        tracing::info!(
            directory = %cluster.directory.display(), address,
            api_server_seconds = api_server_ready.as_secs_f32(), seconds = begin.elapsed().as_secs_f32(),
            "the control plane is ready",
        );
        Ok(cluster)
    }

    /// A client with all permissions. It does not retry, so that one call is one request.
    pub fn admin(&self) -> Client {
        self.admin.clone()
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.admin_kubeconfig
    }

    /// The directory with all logs and data.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Base address of the API server.
    pub fn address(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.api_server)
    }

    /// Keeps the directory for inspection after the cluster has stopped.
    pub fn keep_directory(&self) {
        self.keep.store(true, Ordering::Relaxed);
    }

    /// The namespaces in which its parts run, if any.
    pub fn namespaces(&self) -> Option<&Namespaces> {
        self.namespaces.as_ref()
    }

    /// Keys and certificates.
    pub fn pki(&self) -> &Pki {
        &self.pki
    }

    /// The files of the certificate and key with which the API server authenticates to webhook and aggregated API.
    pub fn front_proxy_certificate(&self) -> (PathBuf, PathBuf) {
        let name = "front-proxy-client";
        (self.pki.certificate(name), self.pki.key(name))
    }

    /// A unique path in the cluster's directory.
    pub fn unique_path(&self, stem: &str, extension: &str) -> PathBuf {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        self.directory.join(format!("{stem}-{serial}.{extension}"))
    }

    /// Applies every YAML document of a file, or of all files of a directory, and waits until their CRDs are
    /// established. Objects without a namespace are created in `namespace`.
    ///
    /// # Errors
    /// [`Error::Manifest`] for invalid YAML, [`Error::Api`] for a refused object, [`Error::Deadline`].
    pub async fn apply_path(&self, path: &Path, namespace: Option<&str>) -> Result<()> {
        let objects = documents_in(path)?;
        apply(&self.admin, &objects, namespace).await
    }

    /// Checks that every part is running.
    ///
    /// # Errors
    /// [`Error::Exited`] with the end of the log of the first part that has exited.
    pub fn check(&self) -> Result<()> {
        [&self.etcd, &self.api_server, &self.controller_manager]
            .into_iter()
            .try_for_each(server::check_running)?;
        self.namespaces().map_or(Ok(()), Namespaces::check)
    }

    /// Stops everything in the right order, and removes the directory unless it is to be kept.
    ///
    /// # Errors
    /// [`Error::NotInTime`] if a part had to be killed; even then nothing is left running.
    pub async fn stop(self) -> Result<()> {
        let mut result = Ok(());
        for slot in [&self.controller_manager, &self.api_server, &self.etcd] {
            let part = slot.lock().take();
            if let Some(part) = part {
                let stopped = part.stop(STOP_DEADLINE).await.map(|_status| ());
                result = result.and(stopped);
            }
        }
        if result.is_err() {
            self.keep_directory();
        }
        result
    }

    /// Kills every part, and removes the directory unless it is to be kept. Drop does the same; this is for owners that
    /// are never dropped.
    pub fn tear_down(&self) {
        for slot in [&self.controller_manager, &self.api_server, &self.etcd] {
            // Dropping the process kills it.
            slot.lock().take();
        }
        if let Some(namespaces) = &self.namespaces {
            // Remaining processes in the namespaces might still write into the directory.
            namespaces.kill();
        }
        if self.keep.load(Ordering::Relaxed) || std::thread::panicking() {
            eprintln!("logs and data are kept in {}", self.directory.display());
        } else {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }

    fn start_controller_manager(&self) -> Result<()> {
        let kubeconfig = self.pki.certificate_kubeconfig("kube-controller-manager", &self.address())?;
        let command = components::controller_manager(self.namespaces(), &self.tools, &self.pki, &kubeconfig);
        let log = self.directory.join("kube-controller-manager.log");
        *self.controller_manager.lock() = Some(Process::spawn("kube-controller-manager", command, log)?);
        Ok(())
    }

    /// Waits for the default service account, which shows that the controller manager works.
    pub(crate) async fn until_accounts_are_made(&self, namespace: &str) -> Result<()> {
        let accounts = Api::<ServiceAccount>::namespaced(self.admin(), namespace);
        let deadline = Deadline::after(READY_DEADLINE);
        loop {
            let found =
                accounts.get_opt("default").await.map_err(Error::api("reading the default account"))?;
            if found.is_some() {
                return Ok(());
            }
            let last = format!("no default account in {namespace}");
            server::check_begun(&self.controller_manager, &deadline, last)?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl std::fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.tear_down();
    }
}
