//! The playground of an integration: a control plane, the platform simulator and all programs of vmpool.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::workspace::{Workspace, built_program_path, command_output, run_command};

/// A program of the playground.
#[derive(Debug)]
pub(super) struct PlaygroundProgram {
    /// Its name, for example `controller-0`.
    pub(super) name: String,
    /// Its process id.
    pub(super) pid: i32,
    /// The address of its probes and metrics.
    pub(super) address: String,
}

/// A running playground. Dropping it stops it.
#[derive(Debug)]
pub(super) struct Playground {
    root: PathBuf,
    folder: PathBuf,
    program: PathBuf,
    tools: PathBuf,
    kind: PlaygroundKind,
}

/// Where the programs of a playground run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlaygroundKind {
    /// As processes, with both platforms.
    Loopback,
    /// As Pods of a one-node cluster, with the chart installed.
    Node,
}

impl Playground {
    /// Starts a playground with both platforms in a new folder.
    ///
    /// # Errors
    /// It does not start.
    pub(super) fn start(workspace: &Workspace, folder: &Path) -> Result<Self> {
        Self::start_kind(workspace, folder, PlaygroundKind::Loopback)
    }

    /// Starts a one-node cluster with the chart in a new folder.
    ///
    /// # Errors
    /// It does not start. It needs root on Linux.
    pub(super) fn start_on_node(workspace: &Workspace, folder: &Path) -> Result<Self> {
        Self::start_kind(workspace, folder, PlaygroundKind::Node)
    }

    fn start_kind(workspace: &Workspace, folder: &Path, kind: PlaygroundKind) -> Result<Self> {
        let playground = Self {
            root: workspace.root().to_owned(),
            kind,
            folder: folder.to_owned(),
            program: built_program_path("playground")?,
            tools: workspace.tools().join("control-plane/bin"),
        };
        run_command(&mut playground.command("up"))?;
        Ok(playground)
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.program);
        match self.kind {
            PlaygroundKind::Loopback => {
                command.env("PLATFORM", "all").env("VMPOOL_PLAYGROUND_DIR", &self.folder);
                command.env("VMPOOL_TOOLS", &self.tools);
            }
            PlaygroundKind::Node => {
                command.arg("--node").env("VMPOOL_NODE_DIR", &self.folder);
            }
        }
        command.arg(verb);
        command
    }

    /// The administrator's kubeconfig.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// A file of the kubeconfig, or the address of the API server.
    ///
    /// # Errors
    /// The kubeconfig cannot be read.
    pub(super) fn read_kubeconfig(&self, pointer: &str) -> Result<String> {
        let config = read_json(&self.kubeconfig())?;
        let value = config.pointer(pointer).and_then(Value::as_str);
        value.map(str::to_owned).with_context(|| format!("the kubeconfig has no {pointer}"))
    }

    /// The programs of vmpool, without the simulator.
    ///
    /// # Errors
    /// A program has ended.
    pub(super) fn find_programs(&self) -> Result<Vec<PlaygroundProgram>> {
        let record = read_json(&self.folder.join("supervisor.json"))?;
        let parts = record["ready"]["parts"].as_array().map_or(&[][..], Vec::as_slice);
        parts.iter().filter(|part| part["name"] != "simulator").map(find_program).collect()
    }

    /// Runs kubectl with these arguments. Returns its output.
    ///
    /// # Errors
    /// kubectl fails. The error contains its message.
    pub(super) fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(self.folder.join("bin/kubectl"));
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.folder.join("bin").display()));
        command.env("KUBECONFIG", self.kubeconfig()).args(arguments).current_dir(&self.root);
        let output = command_output(&mut command, &format!("kubectl {}", arguments.join(" ")))?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    }
}

impl Drop for Playground {
    fn drop(&mut self) {
        if let Err(error) = run_command(&mut self.command("down")) {
            eprintln!("error: stopping the playground: {error:#}");
        }
    }
}

fn find_program(part: &Value) -> Result<PlaygroundProgram> {
    let name = part["name"].as_str().unwrap_or_default().to_owned();
    let pid = part["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    let pid = pid.with_context(|| format!("{name} does not run"))?;
    let path = format!("/proc/{pid}/cmdline");
    let arguments = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    let address = find_health_address(&arguments).with_context(|| format!("{name} serves no metrics"))?;
    Ok(PlaygroundProgram { name, pid, address: address.to_owned() })
}

/// The last address wins, as for the program itself.
fn find_health_address(arguments: &str) -> Option<&str> {
    arguments.split('\0').rev().find_map(|argument| argument.strip_prefix("--health-address="))
}

fn read_json(path: &Path) -> Result<Value> {
    let text = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::find_health_address;

    #[test]
    fn the_last_address_of_a_program_is_used() {
        let arguments = "vmpool-webhook\0--health-address=0.0.0.0:8080\0--health-address=127.0.0.1:4\0";
        assert_eq!(find_health_address(arguments), Some("127.0.0.1:4"));
        assert_eq!(find_health_address("vmpool-webhook\0"), None);
    }
}
