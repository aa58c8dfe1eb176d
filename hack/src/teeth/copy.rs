//! A copy of the working tree in which something may be broken.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::catalogue::{Guard, Place};

/// The copy. What did not change since the last time keeps its time, so that little is built again.
pub(super) struct Copy {
    root: PathBuf,
}

/// Files that are changed for as long as this lives, with what they were.
#[derive(Default)]
pub(super) struct Broken(Vec<(PathBuf, String)>);

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

    /// The manifests of the packages that a guard is in.
    ///
    /// # Errors
    /// If a file is in no package.
    pub(super) fn packages(&self, guard: &Guard) -> Result<BTreeSet<PathBuf>> {
        let package = |file: &Path| {
            let folders = file.ancestors().skip(1).take_while(|folder| *folder != Path::new(""));
            let mut manifests = folders.map(|folder| self.root.join(folder).join("Cargo.toml"));
            manifests.find(|manifest| manifest.is_file())
        };
        let found = guard.places.iter().map(|Place { file, .. }| {
            package(file).with_context(|| format!("{} is in no package", file.display()))
        });
        found.collect()
    }

    /// Takes a guard out.
    ///
    /// # Errors
    /// If it is not there, or the file cannot be written.
    pub(super) fn change(&self, guard: &Guard) -> Result<Broken> {
        let mut broken = Broken::default();
        for place in &guard.places {
            let file = self.root.join(&place.file);
            let whole = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
            let without = place.remove_from(&whole)?;
            broken.0.push((file.clone(), whole));
            fs::write(&file, without).with_context(|| format!("writing {}", file.display()))?;
        }
        Ok(broken)
    }
}

impl Drop for Broken {
    fn drop(&mut self) {
        // Backwards: of a file that was changed twice, the first text is the whole one.
        for (file, whole) in self.0.iter().rev() {
            if let Err(error) = fs::write(file, whole) {
                eprintln!("warning: {} stays broken: {error}", file.display());
            }
        }
    }
}
