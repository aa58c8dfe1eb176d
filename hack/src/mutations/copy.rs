//! A copy of the working tree for mutations.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::list::{CodeGuard, GuardLocation};

/// The copy. Unchanged files keep their modification time, so that cargo rebuilds little.
pub(super) struct WorkingCopy {
    root: PathBuf,
}

/// Changed files with their original content, which is restored on drop.
#[derive(Default)]
pub(super) struct Mutated(Vec<(PathBuf, String)>);

impl WorkingCopy {
    /// Copies all files in `from` that git tracks or would add to `to`.
    ///
    /// # Errors
    /// If git or the file system reports an error.
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
            // Git still lists a file that was deleted but not committed.
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

    /// The root folder.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The manifests of the guard's packages.
    ///
    /// # Errors
    /// If a file is in no package.
    pub(super) fn packages(&self, guard: &CodeGuard) -> Result<BTreeSet<PathBuf>> {
        let package = |file: &Path| {
            let folders = file.ancestors().skip(1).take_while(|folder| *folder != Path::new(""));
            let mut manifests = folders.map(|folder| self.root.join(folder).join("Cargo.toml"));
            manifests.find(|manifest| manifest.is_file())
        };
        let found = guard.locations.iter().map(|GuardLocation { file, .. }| {
            package(file).with_context(|| format!("{} is in no package", file.display()))
        });
        found.collect()
    }

    /// Removes a guard.
    ///
    /// # Errors
    /// The code does not exist, or the file cannot be written.
    pub(super) fn change(&self, guard: &CodeGuard) -> Result<Mutated> {
        let mut mutated = Mutated::default();
        for location in &guard.locations {
            let file = self.root.join(&location.file);
            let original =
                fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
            let without = location.remove_from(&original)?;
            mutated.0.push((file.clone(), original));
            fs::write(&file, without).with_context(|| format!("writing {}", file.display()))?;
        }
        Ok(mutated)
    }
}

impl Drop for Mutated {
    fn drop(&mut self) {
        // In reverse order: if a file was changed twice, the first entry has the original content.
        for (file, original) in self.0.iter().rev() {
            if let Err(error) = fs::write(file, original) {
                eprintln!("warning: {} could not be restored: {error}", file.display());
            }
        }
    }
}
