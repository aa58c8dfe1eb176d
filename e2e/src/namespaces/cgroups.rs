//! Control groups, the one thing that no namespace takes away when it goes.
//!
//! ```text
//! /sys/fs/cgroup[/HIERARCHY]/vmpool-node-N           one folder for everything of a node
//!                                         ├─ holder    the first process inside: who has it, has a living node
//!                                         └─ kubepods  the kubelet's
//! ```
//!
//! A folder without processes is nobody's: the next node to start removes what a killed harness left.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::deadline::Deadline;
use crate::error::{Error, Result};

/// Where control groups are mounted, on every distribution.
const ROOT: &str = "/sys/fs/cgroup";

/// What our folders' names start with.
const PREFIX: &str = "vmpool-node-";

/// Younger folders may be of somebody who is just about to put the holder there.
const SETTLED: Duration = Duration::from_mins(2);

/// How long the kernel may take to be done with processes that were killed.
const EMPTY_DEADLINE: Duration = Duration::from_secs(10);

/// The folders of one node, in every hierarchy. Dropping removes them.
#[derive(Debug)]
pub(super) struct Cgroups {
    roots: Vec<PathBuf>,
    name: String,
}

impl Cgroups {
    /// Makes folders of a name that nobody else has, and removes those of dead nodes.
    ///
    /// # Errors
    /// [`Error::File`].
    pub(super) fn create() -> Result<Self> {
        Self::create_in(hierarchies(Path::new(ROOT)))
    }

    /// The same, below these folders.
    pub(super) fn create_in(roots: Vec<PathBuf>) -> Result<Self> {
        remove_dead(&roots);
        for number in 0.. {
            let name = format!("{PREFIX}{number}");
            // The first folder decides whose the name is; another one of this name is what a dead node left.
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

    /// Where the first process inside shall go, as far as it can.
    pub(super) fn holders(&self) -> Vec<String> {
        // A new cpuset has no processors yet, and takes nobody before it is given some; the runtime does that.
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
                    eprintln!("the control group {} stays: {error}", folder.display());
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// The folders that each are the root of a hierarchy: one for all controllers, or one for each of them.
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

/// Removes what nodes left that are dead for certain.
fn remove_dead(roots: &[PathBuf]) {
    let ours = |root: &PathBuf| {
        let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX))
            .map(|entry| entry.path())
    };
    let all: Vec<PathBuf> = roots.iter().flat_map(ours).collect();
    // A living node has a process in at least one hierarchy.
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
        // What is not there holds nobody up.
        Err(_) => true,
    }
}

/// Whether no process is in the folder or below.
fn is_empty(folder: &Path) -> bool {
    let processes = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    processes.trim().is_empty() && children(folder).iter().all(|child| is_empty(child))
}

/// Removes a folder from the leaves up. The files in it are the kernel's and go with it.
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
