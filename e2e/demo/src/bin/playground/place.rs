//! Where a playground lives, and what is known about it from outside.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vmpool_test_cluster::control_plane::target_directory;

use super::talk::say;

/// How long the files of processes that were just killed may resist.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(10);

/// How long a supervisor may take from its lock to its record, which are its first acts.
const RECORD_PATIENCE: Duration = Duration::from_secs(5);

/// How often a file or a lock is looked at again.
pub(crate) const POLL: Duration = Duration::from_millis(50);

/// Where the programs of a playground run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As processes of this machine.
    Loopback,
    /// As Pods on a node of its own.
    Node,
}

impl Kind {
    /// What `make` calls the command.
    pub(crate) fn target(self, verb: &str) -> String {
        match self {
            Self::Loopback => format!("make {verb}"),
            Self::Node => format!("make node-{verb}"),
        }
    }

    /// The variable that names another directory, and the name of the one in cargo's target directory.
    fn directory(self) -> (&'static str, &'static str) {
        match self {
            Self::Loopback => ("VMPOOL_PLAYGROUND_DIR", "playground"),
            Self::Node => ("VMPOOL_NODE_DIR", "node"),
        }
    }
}

/// The directory of a playground. Everything it leaves on the disk is in it, one empty lock beside it apart.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    kind: Kind,
    directory: PathBuf,
}

/// What the supervisor writes about itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Process id of the supervisor.
    pub(crate) pid: u32,
    /// Set once everything runs.
    pub(crate) ready: Option<Ready>,
}

/// What there is to know about a playground that is up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ready {
    /// Since when.
    pub(crate) since: Timestamp,
    /// The kubectl that belongs to it.
    pub(crate) kubectl: PathBuf,
    /// The programs that the supervisor starts again when they end.
    pub(crate) parts: Vec<Part>,
}

/// One program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// What it is called in the log.
    pub(crate) name: String,
    /// Its process id, while it runs.
    pub(crate) pid: Option<u32>,
}

/// What is found at a place.
#[derive(Debug)]
pub(crate) enum Found {
    /// No playground.
    Nothing,
    /// The files of one whose supervisor is gone, and with it everything that it had started.
    Remains,
    /// A supervisor that lives.
    Alive(Record),
}

impl Place {
    /// Where the environment says, or in cargo's target directory.
    ///
    /// # Errors
    /// If the current directory is needed and unknown.
    pub(crate) fn find(kind: Kind) -> anyhow::Result<Self> {
        let (variable, name) = kind.directory();
        let directory =
            std::env::var_os(variable).map_or_else(|| target_directory().join(name), PathBuf::from);
        let directory = std::path::absolute(&directory)
            .with_context(|| format!("finding the directory {}", directory.display()))?;
        Ok(Self::at(kind, directory))
    }

    /// At this absolute path.
    pub(crate) fn at(kind: Kind, directory: PathBuf) -> Self {
        Self { kind, directory }
    }

    /// Where its programs run.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// The directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// What the supervisor prints.
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

    /// Held by the supervisor as long as it lives. That the file exists makes the directory a playground.
    fn lock(&self) -> PathBuf {
        self.directory.join("supervisor.lock")
    }

    fn record(&self) -> PathBuf {
        self.directory.join("supervisor.json")
    }

    /// Lets one command at a time start, stop or judge; the others wait. Released when dropped.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn take_turns(&self) -> anyhow::Result<File> {
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

    /// Makes the directory, and with the lock's file a playground of it.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn create(&self) -> anyhow::Result<()> {
        std::fs::create_dir_all(&self.directory)
            .and_then(|()| File::create_new(self.lock()))
            .map(drop)
            .with_context(|| format!("creating {}", self.directory.display()))
    }

    /// Removes everything. Whoever calls this has seen that no supervisor lives.
    ///
    /// # Errors
    /// What the system says.
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

    /// What is here.
    ///
    /// # Errors
    /// If the directory is somebody else's, or what the system says.
    pub(crate) fn look(&self) -> anyhow::Result<Found> {
        let occupied = std::fs::read_dir(&self.directory).is_ok_and(|mut files| files.next().is_some());
        if !occupied {
            return Ok(Found::Nothing);
        }
        if !self.lock().exists() {
            bail!("{} is no playground, and is left alone", self.directory.display());
        }
        let begin = Instant::now();
        while self.is_held()? {
            match self.read() {
                Ok(record) => return Ok(Found::Alive(record)),
                Err(error) if begin.elapsed() > RECORD_PATIENCE => return Err(error),
                Err(_) => std::thread::sleep(POLL),
            }
        }
        Ok(Found::Remains)
    }

    /// Whether a supervisor lives.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn is_held(&self) -> anyhow::Result<bool> {
        match self.hold() {
            Ok(_released_at_once) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(error).with_context(|| format!("locking {}", self.lock().display())),
        }
    }

    /// Takes the supervisor's lock, which lasts as long as the file is open: until the process ends, however it ends.
    /// Children do not inherit it.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if another supervisor has it.
    pub(crate) fn hold(&self) -> io::Result<File> {
        let file = File::options().write(true).open(self.lock())?;
        file.try_lock()?;
        Ok(file)
    }

    /// The record as it is now.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub(crate) fn read(&self) -> anyhow::Result<Record> {
        let path = self.record();
        let text = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display()))
    }

    /// Replaces the record, so that a reader finds the old one or the new one.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn write(&self, record: &Record) -> anyhow::Result<()> {
        let (path, draft) = (self.record(), self.directory.join("supervisor.json.new"));
        let text = serde_json::to_vec_pretty(record).context("writing the record")?;
        std::fs::write(&draft, text)
            .and_then(|()| std::fs::rename(&draft, &path))
            .with_context(|| format!("writing {}", path.display()))
    }
}
