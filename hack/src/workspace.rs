//! Where things are in the working tree, and how other programs are run in it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The working tree.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    root: PathBuf,
    target: PathBuf,
}

impl Workspace {
    /// Finds the tree that this program was built from.
    ///
    /// # Errors
    /// When the folder is gone, because the tree was moved since the build.
    pub(crate) fn locate() -> Result<Self> {
        let hack = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = hack
            .parent()
            .context("hack/ has no parent")?
            .canonicalize()
            .with_context(|| format!("finding the working tree above {}", hack.display()))?;
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        Ok(Self { root, target })
    }

    /// The top of the tree.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A path below the top of the tree.
    pub(crate) fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// Where the built tools go, one folder for each module.
    pub(crate) fn tools(&self) -> PathBuf {
        self.target.join("tools")
    }

    /// Where builds with a guard removed go.
    pub(crate) fn teeth(&self) -> PathBuf {
        self.target.join("teeth")
    }

    /// The cargo that runs us, so that the same toolchain is used throughout, ready to run at the top of the tree.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
        command.current_dir(&self.root);
        command
    }
}

/// A program of ours from the same build as this one. To be built first: by `cargo build`, in whatever selection.
///
/// Going through `cargo run --package` instead would choose dependency features for that package alone, and compile
/// half of the world a second time.
///
/// # Errors
/// When it is not there.
pub(crate) fn built(program: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("finding out where this program is")?;
    let path = own.with_file_name(program);
    if !path.is_file() {
        bail!("{} is missing: run cargo build --workspace --bins --examples", path.display());
    }
    Ok(path)
}

/// Runs a command to its end, its output going where ours goes.
///
/// # Errors
/// When it cannot be started, or ends with a failure.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("starting {program}"))?;
    if !status.success() {
        bail!("{program} ended with {status}");
    }
    Ok(())
}
