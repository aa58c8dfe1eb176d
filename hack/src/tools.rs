//! The Go programs that tests and the demo run: etcd, Kubernetes, containerd, helm, promtool.
//!
//! `hack/tools/<module>/go.mod` lists them as Go tool dependencies, so go.sum pins every byte of their
//! source. They are built into `target/tools/<module>/bin`. They are rebuilt only if go.mod, go.sum, the
//! flags or the Go version changes: each program has a stamp that contains the key of its build.
//!
//! Programs are built one after another, because Go uses all CPUs for one program as well as for four, and
//! the progress output can name the current program. Shared packages are compiled once, into Go's own cache.

mod build;
mod catalogue;
mod disk;
mod go;
mod monitor;
mod stamp;
#[cfg(test)]
mod tests;

use std::fs::{self, File, TryLockError};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::ValueEnum;

use self::catalogue::{GoModule, GoTool};
use self::go::Go;
use self::stamp::BuildKey;
use crate::workspace::Workspace;

/// The programs to build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolSelection {
    /// etcd, kube-apiserver, kube-controller-manager, kubectl
    ControlPlane,
    /// helm
    Helm,
    /// All programs of the node cluster: the above, kubelet, kube-proxy, kube-scheduler, containerd
    Node,
    /// All programs that this host can use: those of the node cluster only for root on Linux
    All,
    /// promtool, which `cargo xtask alerts` runs
    Promtool,
}

impl ToolSelection {
    fn includes(self, module: &GoModule) -> bool {
        match self {
            Self::ControlPlane => module.name == "control-plane",
            Self::Helm => module.name == "helm",
            Self::Promtool => module.name == PROMTOOL,
            Self::Node => module.name != PROMTOOL,
            // The node cluster needs namespaces, which only root can create, and only on Linux.
            Self::All => {
                module.name != PROMTOOL && (!NODE_MODULES.contains(&module.name) || node_is_possible())
            }
        }
    }
}

/// The module that only the tests of alerts use.
const PROMTOOL: &str = "promtool";

/// The modules that only the node cluster uses.
const NODE_MODULES: [&str; 2] = ["node", "containerd"];

/// Whether this host can run a node cluster. It also needs packages of the distribution.
fn node_is_possible() -> bool {
    cfg!(target_os = "linux") && rustix::process::geteuid().is_root()
}

/// Builds the selected programs if they are missing or out of date. Prints nothing if there is nothing to do.
///
/// If two of these run at the same time, the second waits for the first.
///
/// # Errors
/// Go is missing or too old, there is too little disk space, or a build fails. Each error is one line; a
/// failed build also prints the end of its log.
pub(crate) fn ensure_tools(workspace: &Workspace, which: ToolSelection) -> Result<()> {
    catalogue::MODULES
        .iter()
        .filter(|module| which.includes(module))
        .try_for_each(|module| ensure_module(workspace, module))
}

fn ensure_module(workspace: &Workspace, module: &GoModule) -> Result<()> {
    let source = workspace.path("hack/tools").join(module.name);
    let output = workspace.tools().join(module.name);
    fs::create_dir_all(output.join("bin")).with_context(|| format!("creating {}", output.display()))?;
    let _lock = lock(&output.join("lock"))?;

    let mod_file = source.join("go.mod");
    let pins = catalogue::GoModFile::read(&mod_file)?;
    let go = Go::find(&source, &pins.go)?;
    let flags = module.link_flags(&pins)?;
    let key = BuildKey::of(&mod_file, &source.join("go.sum"), &[&flags, module.tags].concat(), &go)?;

    let outdated: Vec<&GoTool> =
        module.tools.iter().filter(|tool| !stamp::is_current(&output, tool.file, &key)).collect();
    if outdated.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = outdated.iter().map(|tool| tool.name).collect();
    eprintln!(
        "Building {} ({}) with {} into {}",
        module.name,
        names.join(", "),
        go.version,
        output.join("bin").display()
    );
    let begun = Instant::now();
    build::build_tools(&go, module, &outdated, &flags, &output, &key)?;
    eprintln!("Built {} in {}", module.name, monitor::format_elapsed_time(begun));
    Ok(())
}

/// Takes the lock of one module. It is released when the file is closed, even if this process is killed.
fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("opening {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {
            eprintln!("Waiting for another `cargo xtask tools` that holds {}", path.display());
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("locking {}", path.display()));
        }
    }
    file.lock().with_context(|| format!("locking {}", path.display()))?;
    Ok(file)
}
