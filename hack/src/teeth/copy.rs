//! A copy of the working tree in which something may be broken.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::Guard;

/// The copy. What did not change since the last time keeps its time, so that little is built again.
pub(super) struct Copy {
    root: PathBuf,
}

/// A file that is changed for as long as this lives.
pub(super) struct Broken {
    file: PathBuf,
    whole: String,
}

impl Copy {
    /// Copies what git knows of, or would add, in `from` to `to`.
    ///
    /// # Errors
    /// If git or the file system says so.
    pub(super) fn of(from: &Path, to: &Path) -> Result<Self> {
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(from)
            .output()
            .context("starting git")?;
        if !listed.status.success() {
            bail!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr).trim());
        }
        let names = String::from_utf8(listed.stdout).context("reading the names of files")?;
        for name in names.split_terminator('\0') {
            let (source, target) = (from.join(name), to.join(name));
            // Of a file that was deleted and not yet committed git knows still.
            let Ok(content) = fs::read(&source) else {
                fs::remove_file(&target).ok();
                continue;
            };
            if fs::read(&target).is_ok_and(|old| old == content) {
                continue;
            }
            if let Some(folder) = target.parent() {
                fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
            }
            fs::write(&target, content).with_context(|| format!("writing {}", target.display()))?;
        }
        Ok(Self { root: to.to_owned() })
    }

    /// Where it is.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Takes a guard out.
    ///
    /// # Errors
    /// If it is not there, or the file cannot be written.
    pub(super) fn change(&self, guard: &Guard) -> Result<Broken> {
        let file = self.root.join(&guard.file);
        let whole = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let broken = guard.remove_from(&whole)?;
        fs::write(&file, broken).with_context(|| format!("writing {}", file.display()))?;
        Ok(Broken { file, whole })
    }
}

impl Drop for Broken {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.file, &self.whole) {
            eprintln!("warning: {} stays broken: {error}", self.file.display());
        }
    }
}
