//! Access to any cluster, whether this crate has started it or not.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use kube::Client;

use crate::control_plane::{AuditEntry, AuditMark};
use crate::error::{Error, Result};
use crate::process;

/// Longer than the timeout of any `kubectl wait` in a test.
const KUBECTL_DEADLINE: Duration = Duration::from_mins(2);

/// The administrator's access to a cluster.
#[derive(Clone)]
pub struct Access {
    /// A client with all permissions. It does not retry, so that one call is one request.
    pub client: Client,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// A kubectl with a version that suits the cluster.
    pub kubectl: PathBuf,
    /// A directory for logs, and the home directory of kubectl and helm.
    pub home: PathBuf,
    /// The API server's audit log, if it can be read. Without it, queries of the audit log return nothing.
    pub audit_log: Option<PathBuf>,
}

impl Access {
    /// Runs kubectl as the administrator and returns its output.
    ///
    /// # Errors
    /// [`Error::Command`] with its error output if it fails, [`Error::Spawn`] if it cannot be started.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.run("kubectl", &self.kubectl, arguments, KUBECTL_DEADLINE).await
    }

    /// Runs a command-line tool that accepts `--kubeconfig`, and returns its output.
    ///
    /// # Errors
    /// [`Error::Command`] with its error output if it fails, [`Error::Spawn`] if it cannot be started or
    /// takes longer than `deadline`.
    pub async fn run(
        &self,
        name: &str,
        program: &Path,
        arguments: &[&str],
        deadline: Duration,
    ) -> Result<String> {
        let mut command = Command::new(program);
        command
            .arg(format!("--kubeconfig={}", self.kubeconfig.display()))
            .args(arguments)
            .env("HOME", &self.home)
            .env_remove("KUBECONFIG");
        let output = process::command_output(name, command, deadline).await?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(Error::Command {
                command: format!("{name} {}", arguments.join(" ")),
                status: output.status,
                stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            })
        }
    }

    /// The current end of the audit log. Requests that were answered before are in front of it.
    pub fn audit_mark(&self) -> AuditMark {
        self.audit_log.as_deref().map_or_else(AuditMark::default, AuditMark::end_of)
    }

    /// The requests answered since `mark`, in the order of their responses, and the mark after the last of
    /// them. The default mark is the start of the cluster. A watch is answered when it ends.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn audit(&self, mark: AuditMark) -> Result<(Vec<AuditEntry>, AuditMark)> {
        self.audit_log.as_deref().map_or_else(|| Ok((Vec::new(), mark)), |log| mark.read(log))
    }

    /// The same for requests that concern a namespace.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn audit_of(&self, namespace: &str, mark: AuditMark) -> Result<(Vec<AuditEntry>, AuditMark)> {
        let Some(log) = self.audit_log.as_deref() else { return Ok((Vec::new(), mark)) };
        let about = format!("\"{namespace}\"");
        let (mut entries, next) = mark.read_where(log, |line| line.contains(&about))?;
        entries.retain(|entry| entry.namespace == namespace);
        Ok((entries, next))
    }
}
