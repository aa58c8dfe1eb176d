//! The cluster of the kubeconfig's current context. The chart must be installed there already, with a
//! platform or the platform simulator.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use vmpool_test_cluster::control_plane;
use vmpool_test_cluster::error::{Error, Result};
use vmpool_test_cluster::process;

use crate::{Environment, Provider};

/// kubectl only reads a file.
const DEADLINE: Duration = Duration::from_secs(30);

/// Writes only the current context of the user's kubeconfig, which may consist of several files.
///
/// # Errors
/// [`Error::Unavailable`] without a kubeconfig, or without a current context.
pub(crate) async fn copy_kubeconfig(environment: &Environment, to: &Path) -> Result<()> {
    let Environment { path, kubeconfig, home, .. } = environment;
    let default = home.as_ref().map(|home| home.join(".kube/config"));
    let is_there = match kubeconfig {
        Some(files) => std::env::split_paths(files).any(|file| file.is_file()),
        None => default.as_ref().is_some_and(|file| file.is_file()),
    };
    if !is_there {
        let set = kubeconfig.as_ref().map(PathBuf::from);
        let file = set.or(default).map(|file| file.display().to_string()).unwrap_or_default();
        return Err(Provider::Current.unavailable(&format!("{file} does not exist; set KUBECONFIG")));
    }
    let mut command = Command::new(control_plane::kubectl_path()?);
    command.args(["config", "view", "--raw", "--minify", "--flatten"]).env("PATH", path);
    match kubeconfig {
        Some(files) => command.env("KUBECONFIG", files),
        None => command.env_remove("KUBECONFIG"),
    };
    if let Some(home) = home {
        command.env("HOME", home);
    }
    let output = process::command_output("kubectl", command, DEADLINE).await?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let reason = stderr.lines().next().unwrap_or_default();
        return Err(Provider::Current.unavailable(&format!("`kubectl config view` fails: {reason}")));
    }
    std::fs::write(to, output.stdout).map_err(Error::file("writing", to))
}
