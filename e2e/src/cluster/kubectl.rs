//! The user's own tool.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::Cluster;
use crate::error::{Error, Result};
use crate::process;

/// Longer than any `kubectl wait` of a scenario.
const DEADLINE: Duration = Duration::from_mins(2);

impl Cluster {
    /// The kubectl that has the API server's own version.
    pub fn kubectl_program(&self) -> &Path {
        &self.tools.kubectl
    }

    /// Runs kubectl as the administrator and returns what it printed.
    ///
    /// # Errors
    /// [`Error::Command`] with its error output if it fails, [`Error::Spawn`] if it cannot be run.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.tools.kubectl);
        command
            .arg(format!("--kubeconfig={}", self.admin_kubeconfig.display()))
            .args(arguments)
            // Its discovery cache goes below the home directory.
            .env("HOME", &self.directory)
            .env_remove("KUBECONFIG");
        let output = process::output("kubectl", command, DEADLINE).await?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(Error::Command {
                command: format!("kubectl {}", arguments.join(" ")),
                status: output.status,
                stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            })
        }
    }
}
