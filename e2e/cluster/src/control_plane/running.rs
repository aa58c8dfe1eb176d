//! A running control plane and its parts.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;

use super::options::AuditLog;
use super::pki::Pki;
use super::ports::Ports;
use super::tools::Tools;
use crate::error::Result;
use crate::namespaces::{LinuxNamespaces, NamespaceForwarder};
use crate::process::ChildProcess;

/// How long a part of the control plane may take to become ready, on a busy host.
pub(super) const READY_DEADLINE: Duration = Duration::from_mins(1);

/// How long a part may take to exit.
pub(super) const STOP_DEADLINE: Duration = Duration::from_secs(15);

/// A running control plane. Dropping it stops every part at once.
///
/// Its background tasks run on the runtime on which it was started, so a control plane that several tests
/// share needs a runtime that outlives each of them.
pub struct ControlPlane {
    pub(super) directory: PathBuf,
    pub(super) tools: Tools,
    pub(super) pki: Pki,
    pub(super) ports: Ports,
    pub(super) audit: AuditLog,
    pub(super) admin: Client,
    pub(super) admin_kubeconfig: PathBuf,
    /// Counter for unique names of kubeconfigs and other files.
    pub(super) serial: AtomicU32,
    pub(super) keep: AtomicBool,
    pub(super) namespaces: Option<LinuxNamespaces>,
    pub(super) _forwarder: Option<NamespaceForwarder>,
    /// In the order in which they are stopped.
    pub(super) controller_manager: Mutex<Option<ChildProcess>>,
    pub(super) api_server: Mutex<Option<ChildProcess>>,
    pub(super) etcd: Mutex<Option<ChildProcess>>,
}

impl ControlPlane {
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
    pub fn namespaces(&self) -> Option<&LinuxNamespaces> {
        self.namespaces.as_ref()
    }

    /// Keys and certificates.
    pub fn pki(&self) -> &Pki {
        &self.pki
    }

    /// The files of the certificate and key with which the API server authenticates to webhook and aggregated
    /// API.
    pub fn front_proxy_certificate(&self) -> (PathBuf, PathBuf) {
        let name = "front-proxy-client";
        (self.pki.certificate(name), self.pki.key(name))
    }

    /// A unique path in the cluster's directory.
    pub fn unique_path(&self, stem: &str, extension: &str) -> PathBuf {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        self.directory.join(format!("{stem}-{serial}.{extension}"))
    }

    /// Checks that every part is running.
    ///
    /// # Errors
    /// [`crate::Error::Exited`] with the end of the log of the first part that has exited.
    pub fn check(&self) -> Result<()> {
        [&self.etcd, &self.api_server, &self.controller_manager].into_iter().try_for_each(check_running)?;
        self.namespaces().map_or(Ok(()), LinuxNamespaces::check)
    }

    /// Kills every part, and removes the directory unless it is to be kept. Drop does the same; this is for
    /// owners that are never dropped.
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
}

/// Fails if a part has exited.
pub(super) fn check_running(part: &Mutex<Option<ChildProcess>>) -> Result<()> {
    part.lock().as_ref().map_or(Ok(()), ChildProcess::check)
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
