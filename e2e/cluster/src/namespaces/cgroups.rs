//! Control groups: the only resource that remains after the namespaces are gone.
//!
//! ```text
//! /sys/fs/cgroup[/HIERARCHY]/vmpool-node-N           one folder for all processes of a node
//!                                         ├─ holder    the first process; while it has one, the node is alive
//!                                         └─ kubepods  created by the kubelet
//! ```
//!
//! A folder without processes is unused: the next node that starts removes what a killed harness has left.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::deadline::Deadline;
use crate::error::{Error, Result};

/// The mount point of control groups on every distribution.
const ROOT: &str = "/sys/fs/cgroup";

/// Prefix of the folders' names.
const PREFIX: &str = "vmpool-node-";

/// A younger folder may belong to a node that has not started its holder yet.
const SETTLED: Duration = Duration::from_mins(2);

/// How long the kernel may take until killed processes are gone.
const EMPTY_DEADLINE: Duration = Duration::from_secs(10);

/// The folders of one node, in every hierarchy. Dropping it removes them.
#[derive(Debug)]
pub(super) struct Cgroups {
    roots: Vec<PathBuf>,
    name: String,
}

impl Cgroups {
    /// Creates folders with an unused name, and removes those of dead nodes.
    ///
    /// # Errors
    /// [`Error::File`].
    pub(super) fn create() -> Result<Self> {
        Self::create_in(hierarchies(Path::new(ROOT)))
    }

    /// The same, below the given folders.
    pub(super) fn create_in(roots: Vec<PathBuf>) -> Result<Self> {
        remove_dead(&roots);
        for number in 0.. {
            let name = format!("{PREFIX}{number}");
            // The first folder reserves the name. In the other hierarchies a folder with this name is a
            // leftover of a dead node.
            match roots.first().map_or(Ok(()), |first| std::fs::create_dir(first.join(&name))) {
                Ok(()) => {
                    let cgroups = Self { roots, name };
                    for folder in cgroups.folders() {
                        let holder = folder.join("holder");
                        std::fs::create_dir_all(&holder).map_err(Error::file("creating", holder))?;
                    }
                    return Ok(cgroups);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(source) => return Err(Error::file("creating", roots[0].join(name))(source)),
            }
        }
        unreachable!("numbers do not end before names do")
    }

    /// The name of the folders.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The folders for the first process, as far as they accept one.
    pub(super) fn holders(&self) -> Vec<String> {
        // A new cpuset has no CPUs and accepts no process; the container runtime assigns CPUs later.
        let takes = |folder: &PathBuf| !folder.join("cpuset.effective_cpus").exists();
        let holders = self.folders().map(|folder| folder.join("holder")).filter(takes);
        holders.map(|folder| folder.display().to_string()).collect()
    }

    fn folders(&self) -> impl Iterator<Item = PathBuf> {
        self.roots.iter().map(|root| root.join(&self.name))
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        let deadline = Deadline::after(EMPTY_DEADLINE);
        for folder in self.folders() {
            while let Err(error) = remove(&folder) {
                if deadline.is_over() {
                    eprintln!("the control group {} could not be removed: {error}", folder.display());
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// The root folders of the hierarchies: one for all controllers, or one for each.
fn hierarchies(root: &Path) -> Vec<PathBuf> {
    if root.join("cgroup.controllers").exists() {
        return vec![root.to_owned()];
    }
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    // `cpu` may be a link to `cpu,cpuacct`.
    let mut folders: Vec<PathBuf> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    folders.retain(|folder| folder.join("cgroup.procs").exists());
    folders.sort();
    folders
}

/// Removes the folders of nodes that are certainly dead.
fn remove_dead(roots: &[PathBuf]) {
    let ours = |root: &PathBuf| {
        let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX))
            .map(|entry| entry.path())
    };
    let all: Vec<PathBuf> = roots.iter().flat_map(ours).collect();
    // A node is alive if it has a process in at least one hierarchy.
    let lives = |name: &std::ffi::OsStr| {
        roots.iter().map(|root| root.join(name)).any(|folder| !is_empty(&folder) || !is_settled(&folder))
    };
    for folder in &all {
        if folder.file_name().is_some_and(|name| !lives(name)) {
            let _ = remove(folder);
        }
    }
}

fn is_settled(folder: &Path) -> bool {
    match folder.metadata().and_then(|metadata| metadata.modified()) {
        Ok(changed) => SystemTime::now().duration_since(changed).is_ok_and(|passed| passed > SETTLED),
        // A missing folder prevents nothing.
        Err(_) => true,
    }
}

/// Whether the folder and its subfolders contain no process.
fn is_empty(folder: &Path) -> bool {
    let processes = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    processes.trim().is_empty() && children(folder).iter().all(|child| is_empty(child))
}

/// Removes a folder, leaves first. Its files belong to the kernel and disappear with it.
fn remove(folder: &Path) -> std::io::Result<()> {
    for child in children(folder) {
        remove(&child)?;
    }
    match std::fs::remove_dir(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}
