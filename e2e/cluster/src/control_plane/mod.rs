//! A Kubernetes control plane for tests: etcd, kube-apiserver and kube-controller-manager as child processes.
//!
//! There is no node and no scheduler: controllers under test run as local processes, with a kubeconfig of the
//! administrator or of a service account. [`crate::node`] runs the same control plane on a node's network,
//! together with a node. The order of starting and stopping matters:
//!
//! ```text
//! start  etcd ─► kube-apiserver ─► CRDs established ─► kube-controller-manager ─► default account exists
//! stop   kube-controller-manager ─► kube-apiserver ─► etcd
//! ```
//!
//! CRDs are applied before the controller manager starts, because its garbage collector discovers new
//! resources only every 30 seconds. kube-apiserver stops before etcd, because without etcd its shutdown takes
//! minutes.

mod accounts;
mod audit;
mod components;
mod directory;
mod kubectl;
mod location;
mod manifests;
mod metrics;
mod options;
mod pki;
mod ports;
mod running;
mod server;
mod storage;
mod tools;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use parking_lot::Mutex;

pub use accounts::{client_from_kubeconfig as client_of, get_text};
pub use audit::{AuditEntry, AuditMark, by_user};
pub use location::ComponentLocation;
pub use manifests::{apply_manifests, parse_yaml_documents, read_yaml_documents};
pub use metrics::{RequestCounts, RequestKey};
pub use options::{AuditLog, ControlPlaneOptions};
pub use pki::Pki;
pub use ports::{is_port_conflict as port_was_taken, reserve_free_ports as free_ports};
pub use running::ControlPlane;
pub use server::RestartMethod;
pub use tools::{check_tools_exist as check_tools, kubectl_path, target_directory};

use self::running::{READY_DEADLINE, STOP_DEADLINE};
use self::tools::Tools;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::process::ChildProcess;

/// How often the start is retried if another process takes a selected port.
const PORT_ATTEMPTS: usize = 3;

impl ControlPlane {
    /// Starts a control plane and waits until it is ready, typically 3 to 4 seconds.
    ///
    /// # Errors
    /// [`Error::MissingTool`] if the programs were not built, [`Error::Exited`] and [`Error::NotInTime`] with
    /// the end of the log of the failed component, and the errors of the manifests.
    pub async fn start(options: ControlPlaneOptions) -> Result<Self> {
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

    async fn start_once(options: &ControlPlaneOptions, tools: &Tools) -> Result<Self> {
        let begin = Instant::now();
        let directory = match &options.directory {
            Some(directory) => directory::create_at(directory)?,
            None => directory::create_cluster_directory(&options.name)?,
        };
        let pki = Pki::create(&directory.join("pki"))?;
        if let Some(policy) = options.audit.policy() {
            components::write_audit_policy(&directory, &policy)
                .map_err(Error::file("writing", &directory))?;
        }
        components::write_admission(&directory, &pki).map_err(Error::file("writing", &directory))?;
        let namespaces = options.location.prepare(&directory).await?;
        let (forwarder, [etcd_port, etcd_peer, api_server]) = match &namespaces {
            // The forwarder holds these ports on the host; inside the namespaces no other process uses them.
            Some(namespaces) => namespaces.forward().map(|(forwarder, ports)| (Some(forwarder), ports))?,
            None => (None, free_ports()?),
        };
        let ports = ports::Ports { etcd: etcd_port, etcd_peer, api_server };
        let address = format!("https://127.0.0.1:{api_server}");
        let admin_kubeconfig = pki.certificate_kubeconfig("admin", &address)?;
        let admin = accounts::client_from_kubeconfig(&admin_kubeconfig).await?;

        let etcd = components::etcd_command(namespaces.as_ref(), tools, &directory, ports, None);
        let etcd = ChildProcess::spawn("etcd", etcd, directory.join("etcd.log"))?;
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

    /// Applies every YAML document of a file, or of all files of a directory, and waits until their CRDs are
    /// established. Objects without a namespace are created in `namespace`.
    ///
    /// # Errors
    /// [`Error::Manifest`] for invalid YAML, [`Error::Api`] for a refused object, [`Error::Deadline`].
    pub async fn apply_path(&self, path: &Path, namespace: Option<&str>) -> Result<()> {
        let objects = read_yaml_documents(path)?;
        apply_manifests(&self.admin, &objects, namespace).await
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

    fn start_controller_manager(&self) -> Result<()> {
        let kubeconfig = self.pki.certificate_kubeconfig("kube-controller-manager", &self.address())?;
        let command =
            components::controller_manager_command(self.namespaces(), &self.tools, &self.pki, &kubeconfig);
        let log = self.directory.join("kube-controller-manager.log");
        *self.controller_manager.lock() = Some(ChildProcess::spawn("kube-controller-manager", command, log)?);
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
