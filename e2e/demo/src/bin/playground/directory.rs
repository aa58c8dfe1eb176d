//! The directory of a playground, and the state that other processes can see.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vmpool_test_cluster::control_plane::target_directory;

use super::output::say;

/// How long the removal of files may fail after the processes were killed.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(10);

/// How long a supervisor may take from its lock to its record, which are its first two steps.
const RECORD_PATIENCE: Duration = Duration::from_secs(5);

/// Poll interval for files and locks.
pub(crate) const POLL: Duration = Duration::from_millis(50);

/// Name of the kubectl plugin's package and binary.
pub(crate) const PLUGIN: &str = "kubectl-vmpool";

/// The environment variable with the path of an alternative plugin.
pub(crate) const PLUGIN_VARIABLE: &str = "VMPOOL_PLUGIN";

/// Where the programs of a playground run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlaygroundKind {
    /// As processes of this host.
    Loopback,
    /// As Pods on a one-node cluster.
    Node,
}

impl PlaygroundKind {
    /// The command line of the make target.
    pub(crate) fn target(self, verb: &str) -> String {
        match self {
            Self::Loopback => format!("make {verb}"),
            Self::Node => format!("make node-{verb}"),
        }
    }

    /// The environment variable with an alternative directory, and the name of the default one in cargo's
    /// target directory.
    fn directory(self) -> (&'static str, &'static str) {
        match self {
            Self::Loopback => ("VMPOOL_PLAYGROUND_DIR", "playground"),
            Self::Node => ("VMPOOL_NODE_DIR", "node"),
        }
    }
}

/// The directory of a playground. It contains all files of the playground, except one empty lock file beside
/// it.
#[derive(Clone, Debug)]
pub(crate) struct PlaygroundDirectory {
    kind: PlaygroundKind,
    directory: PathBuf,
}

/// What the supervisor writes about itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SupervisorRecord {
    /// Process id of the supervisor.
    pub(crate) pid: u32,
    /// Set once everything runs.
    pub(crate) ready: Option<Ready>,
}

/// The state of a playground that is up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ready {
    /// When it became ready.
    pub(crate) since: Timestamp,
    /// The kubectl with the version of its API server.
    pub(crate) kubectl: PathBuf,
    /// Whether KubeVirt is simulated, too, so that kubectl's short names are ambiguous.
    #[serde(default)]
    pub(crate) has_kubevirt: bool,
    /// The programs that the supervisor restarts when they exit.
    pub(crate) parts: Vec<Part>,
}

/// One program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Its name in the log.
    pub(crate) name: String,
    /// Its process id while it runs.
    pub(crate) pid: Option<u32>,
}

/// The state of a directory.
#[derive(Debug)]
pub(crate) enum PlaygroundState {
    /// No playground.
    Nothing,
    /// The files of a playground whose supervisor has exited. Its programs have exited, too.
    Remains,
    /// The supervisor is running.
    Running(SupervisorRecord),
}

impl PlaygroundDirectory {
    /// The directory from the environment, or the default one in cargo's target directory.
    ///
    /// # Errors
    /// If the current directory is needed and unknown.
    pub(crate) fn find(kind: PlaygroundKind) -> anyhow::Result<Self> {
        let (variable, name) = kind.directory();
        let directory =
            std::env::var_os(variable).map_or_else(|| target_directory().join(name), PathBuf::from);
        let directory = std::path::absolute(&directory)
            .with_context(|| format!("finding the directory {}", directory.display()))?;
        Ok(Self::at(kind, directory))
    }

    /// The playground at this absolute path.
    pub(crate) fn at(kind: PlaygroundKind, directory: PathBuf) -> Self {
        Self { kind, directory }
    }

    /// Where its programs run.
    pub(crate) fn kind(&self) -> PlaygroundKind {
        self.kind
    }

    /// The directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The log of the supervisor.
    pub(crate) fn log(&self) -> PathBuf {
        self.directory.join("supervisor.log")
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// Logs and data of the cluster.
    pub(crate) fn cluster(&self) -> PathBuf {
        self.directory.join("cluster")
    }

    /// The directory for PATH: links to kubectl and its plugin.
    pub(crate) fn programs(&self) -> PathBuf {
        self.directory.join("bin")
    }

    /// The lock that the supervisor holds while it runs. A directory with this file is a playground.
    fn lock(&self) -> PathBuf {
        self.directory.join("supervisor.lock")
    }

    fn record(&self) -> PathBuf {
        self.directory.join("supervisor.json")
    }

    /// Waits until no other command starts or stops the playground. Dropping the file releases the lock.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn lock_commands(&self) -> anyhow::Result<File> {
        let path = self.directory.with_extension("lock");
        let open = || -> io::Result<File> {
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
            File::options().create(true).truncate(false).write(true).open(&path)
        };
        let file = open().with_context(|| format!("opening {}", path.display()))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                say!(
                    "Waiting for another `{}` or `{}` ...",
                    self.kind.target("up"),
                    self.kind.target("down")
                );
                file.lock().with_context(|| format!("locking {}", path.display()))?;
            }
            other => other.with_context(|| format!("locking {}", path.display()))?,
        }
        Ok(file)
    }

    /// Creates the directory and the lock file.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn create(&self) -> anyhow::Result<()> {
        std::fs::create_dir_all(&self.directory)
            .and_then(|()| File::create_new(self.lock()))
            .map(drop)
            .with_context(|| format!("creating {}", self.directory.display()))
    }

    /// Links a program into the directory for PATH.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn link_program(&self, name: &str, program: &Path) -> anyhow::Result<()> {
        let link = self.programs().join(name);
        std::path::absolute(program)
            .and_then(|program| {
                std::fs::create_dir_all(self.programs())?;
                std::os::unix::fs::symlink(program, &link)
            })
            .with_context(|| format!("writing {}", link.display()))
    }

    /// Removes the directory. The caller must have checked that no supervisor runs.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn remove(&self) -> anyhow::Result<()> {
        let begin = Instant::now();
        loop {
            match std::fs::remove_dir_all(&self.directory) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                // A process that is being killed may still write.
                Err(_) if begin.elapsed() < REMOVAL_PATIENCE => std::thread::sleep(POLL),
                Err(error) => {
                    return Err(error).with_context(|| format!("removing {}", self.directory.display()));
                }
            }
        }
    }

    /// The state of the directory.
    ///
    /// # Errors
    /// If the directory contains other files, or cannot be read.
    pub(crate) fn look(&self) -> anyhow::Result<PlaygroundState> {
        let occupied = std::fs::read_dir(&self.directory).is_ok_and(|mut files| files.next().is_some());
        if !occupied {
            return Ok(PlaygroundState::Nothing);
        }
        if !self.lock().exists() {
            bail!("{} is no playground, and is left alone", self.directory.display());
        }
        let begin = Instant::now();
        while self.is_held()? {
            match self.read() {
                Ok(record) => return Ok(PlaygroundState::Running(record)),
                Err(error) if begin.elapsed() > RECORD_PATIENCE => return Err(error),
                Err(_) => std::thread::sleep(POLL),
            }
        }
        Ok(PlaygroundState::Remains)
    }

    /// Whether a supervisor runs.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn is_held(&self) -> anyhow::Result<bool> {
        match self.hold() {
            Ok(_released_at_once) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(error).with_context(|| format!("locking {}", self.lock().display())),
        }
    }

    /// Takes the supervisor's lock. The kernel releases it when the process exits for any reason. Children do
    /// not inherit it.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if another supervisor has it.
    pub(crate) fn hold(&self) -> io::Result<File> {
        let file = File::options().write(true).open(self.lock())?;
        file.try_lock()?;
        Ok(file)
    }

    /// The current record.
    ///
    /// # Errors
    /// If it does not exist or cannot be read.
    pub(crate) fn read(&self) -> anyhow::Result<SupervisorRecord> {
        let path = self.record();
        let text = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display()))
    }

    /// Replaces the record atomically.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn write(&self, record: &SupervisorRecord) -> anyhow::Result<()> {
        let (path, draft) = (self.record(), self.directory.join("supervisor.json.new"));
        let text = serde_json::to_vec_pretty(record).context("writing the record")?;
        std::fs::write(&draft, text)
            .and_then(|()| std::fs::rename(&draft, &path))
            .with_context(|| format!("writing {}", path.display()))
    }
}
