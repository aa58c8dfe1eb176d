//! The Go programs that tests and demo run: etcd, Kubernetes, containerd, helm.
//!
//! `hack/tools/<module>/go.mod` names them as Go tool dependencies, so go.sum pins every byte of their source.
//! They are built into `target/tools/<module>/bin` and left alone until go.mod, go.sum, the flags or the Go
//! version change: each program has a stamp that holds the key it was built under.
//!
//! Programs are built one after another: Go uses all processors for one of them as well as for four, and the
//! progress lines can then say which one is being built. What they share is compiled once, into Go's own cache.

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

use self::catalogue::{Module, Tool};
use self::go::Go;
use self::stamp::Key;
use crate::workspace::Workspace;

/// Which programs a command asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Selection {
    /// etcd, kube-apiserver, kube-controller-manager, kubectl
    ControlPlane,
    /// helm
    Helm,
    /// What the node cluster needs: all of the above, kubelet, kube-proxy, kube-scheduler, containerd
    Node,
    /// What this machine can use: the node cluster's own only for root on Linux
    All,
}

impl Selection {
    fn includes(self, module: &Module) -> bool {
        match self {
            Self::ControlPlane => module.name == "control-plane",
            Self::Helm => module.name == "helm",
            Self::Node => true,
            // The node cluster lives in namespaces that only root can make, and only Linux has.
            Self::All => !NODE_MODULES.contains(&module.name) || node_is_possible(),
        }
    }
}

/// The modules that nothing but the node cluster uses.
const NODE_MODULES: [&str; 2] = ["node", "containerd"];

/// Whether a node cluster can be had on this machine at all; what else it needs are a distribution's packages.
fn node_is_possible() -> bool {
    cfg!(target_os = "linux") && rustix::process::geteuid().is_root()
}

/// Builds the selected programs where they are missing or out of date. Says nothing when there is nothing to do.
///
/// Two of these may run at once: the second waits for the first.
///
/// # Errors
/// Go missing or too old, too little disk space, or a failed build; each in one line, a failed build after the
/// end of its log.
pub(crate) fn ensure(workspace: &Workspace, which: Selection) -> Result<()> {
    catalogue::MODULES
        .iter()
        .filter(|module| which.includes(module))
        .try_for_each(|module| ensure_module(workspace, module))
}

fn ensure_module(workspace: &Workspace, module: &Module) -> Result<()> {
    let source = workspace.path("hack/tools").join(module.name);
    let output = workspace.tools().join(module.name);
    fs::create_dir_all(output.join("bin")).with_context(|| format!("creating {}", output.display()))?;
    let _lock = lock(&output.join("lock"))?;

    let mod_file = source.join("go.mod");
    let pins = catalogue::Pins::read(&mod_file)?;
    let go = Go::find(&source, &pins.go)?;
    let flags = module.link_flags(&pins)?;
    let key = Key::of(&mod_file, &source.join("go.sum"), &flags, &go)?;

    let outdated: Vec<&Tool> =
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
    build::all(&go, module, &outdated, &flags, &output, &key)?;
    eprintln!("Built {} in {}", module.name, monitor::elapsed(begun));
    Ok(())
}

/// Takes the lock of one module; it is released when the file is closed, however we end.
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
