//! The cluster of the user's current kubectl context. Nothing is installed there: the chart must be installed already,
//! with the platform or the simulator.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use vmpool_installation::installation::{CLASS, IMAGE};
use vmpool_installation::release::{API_SERVICES, WEBHOOK};
use vmpool_test_cluster::access::Access;
use vmpool_test_cluster::control_plane;
use vmpool_test_cluster::error::{Error, Result};
use vmpool_test_cluster::process;

use super::{Provider, Surroundings};

/// kubectl only reads a file.
const DEADLINE: Duration = Duration::from_secs(30);

/// Writes only the current context of the user's kubeconfig, which may consist of several files.
///
/// # Errors
/// [`Error::Unavailable`] without a kubeconfig, or without a current context.
pub(super) async fn copy_kubeconfig(surroundings: &Surroundings, to: &Path) -> Result<()> {
    let Surroundings { path, kubeconfig, home } = surroundings;
    let default = home.as_ref().map(|home| home.join(".kube/config"));
    let is_there = match kubeconfig {
        Some(files) => std::env::split_paths(files).any(|file| file.is_file()),
        None => default.as_ref().is_some_and(|file| file.is_file()),
    };
    if !is_there {
        let named = kubeconfig.as_ref().map(PathBuf::from);
        let looked = named.or(default).map(|file| file.display().to_string()).unwrap_or_default();
        return Err(Provider::Current.lacks(format!("a kubeconfig: set KUBECONFIG; there is no {looked}")));
    }
    let mut command = Command::new(control_plane::kubectl()?);
    command.args(["config", "view", "--raw", "--minify", "--flatten"]).env("PATH", path);
    match kubeconfig {
        Some(files) => command.env("KUBECONFIG", files),
        None => command.env_remove("KUBECONFIG"),
    };
    if let Some(home) = home {
        command.env("HOME", home);
    }
    let output = process::output("kubectl", command, DEADLINE).await?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let reason = said.lines().next().unwrap_or_default().to_owned();
        return Err(Provider::Current.lacks(format!("a usable kubeconfig, but kubectl fails: {reason}")));
    }
    std::fs::write(to, output.stdout).map_err(Error::file("writing", to))
}

/// Checks that the cluster responds, and has the chart and the objects that pools of the scenarios need.
///
/// # Errors
/// [`Error::Unavailable`], on one line, for the first missing item.
pub(super) async fn check(access: &Access) -> Result<()> {
    let lacks = |what: String| Err(Provider::Current.lacks(what));
    let context = access.kubectl(&["config", "current-context"]).await?;
    let context = context.trim();
    if let Err(error) = access.kubectl(&["version", "--output=json", "--request-timeout=10s"]).await {
        let reason = reason(&error);
        return lacks(format!("a reachable cluster: context {context} does not respond: {reason}"));
    }
    let own = API_SERVICES[0];
    let found = access.kubectl(&["get", "apiservice", own, "--ignore-not-found", "--output=json"]).await?;
    let service: Value = serde_json::from_str(&found).unwrap_or_default();
    let conditions = service.pointer("/status/conditions").and_then(Value::as_array);
    let available = conditions.into_iter().flatten().find(|condition| condition["type"] == "Available");
    if available.is_none_or(|available| available["status"] != "True") {
        return lacks(format!("the chart in context {context}: the APIService {own} is not available"));
    }
    for (kind, name, what) in [
        ("validatingwebhookconfiguration", WEBHOOK, "the chart with its webhook"),
        (
            "virtualmachineclasses.virtualization.deckhouse.io",
            CLASS,
            "a VirtualMachineClass for the machines",
        ),
        ("clustervirtualimages.virtualization.deckhouse.io", IMAGE, "an image for the disks"),
    ] {
        let found = access.kubectl(&["get", kind, name, "--ignore-not-found", "--output=name"]).await;
        if found.is_ok_and(|found| found.trim().is_empty()) {
            return lacks(format!("{what} in context {context}: there is no {kind}/{name}"));
        }
    }
    tracing::info!(context, "the cluster has what is needed");
    Ok(())
}

/// The first line of a tool's error output.
fn reason(error: &Error) -> String {
    match error {
        Error::Command { stderr, .. } => stderr.lines().last().unwrap_or_default().to_owned(),
        other => other.to_string(),
    }
}
