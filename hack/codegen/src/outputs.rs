//! The set of generated files, compared with or written to the repository.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::ErrorKind,
    path::{Path, PathBuf},
};

use anyhow::Context;

#[cfg(test)]
mod tests;

/// Generated files by their path relative to the repository, with `/` as separator.
#[derive(Default)]
pub(crate) struct Outputs {
    files: BTreeMap<String, String>,
    owned: BTreeSet<String>,
}

impl Outputs {
    /// Declares that a directory contains only generated files, apart from subdirectories: any other file in
    /// it is a leftover of an earlier run.
    pub(crate) fn own(&mut self, dir: &str) {
        self.owned.insert(dir.to_owned());
    }

    /// Adds a file.
    pub(crate) fn add(&mut self, path: String, content: String) {
        self.files.insert(path, content);
    }

    /// Number of files.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Files that are missing, differ, or should not be there.
    ///
    /// # Errors
    /// When a file or directory cannot be read.
    pub(crate) fn differing(&self, root: &Path) -> anyhow::Result<Vec<String>> {
        let mut differing = Vec::new();
        for (path, content) in &self.files {
            match read(&root.join(path))? {
                None => differing.push(format!("{path} (missing)")),
                Some(present) if present != content.as_bytes() => differing.push(path.clone()),
                Some(_) => {}
            }
        }
        differing.extend(self.leftovers(root)?.iter().map(|path| format!("{path} (no longer generated)")));
        Ok(differing)
    }

    /// Writes the files that differ, removes those that are no longer generated, and returns the paths of
    /// both.
    ///
    /// # Errors
    /// When a file cannot be read, written or removed.
    pub(crate) fn write(&self, root: &Path) -> anyhow::Result<Vec<String>> {
        let mut changed = Vec::new();
        for (path, content) in &self.files {
            let target = root.join(path);
            // An unchanged file keeps its modification time, so that cargo rebuilds nothing.
            if read(&target)?.is_some_and(|present| present == content.as_bytes()) {
                continue;
            }
            let dir = target.parent().with_context(|| format!("{path} has no directory"))?;
            std::fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
            std::fs::write(&target, content).with_context(|| format!("writing {path}"))?;
            changed.push(path.clone());
        }
        for path in self.leftovers(root)? {
            std::fs::remove_file(root.join(&path)).with_context(|| format!("removing {path}"))?;
            changed.push(format!("{path} (removed)"));
        }
        Ok(changed)
    }

    fn leftovers(&self, root: &Path) -> anyhow::Result<Vec<String>> {
        let mut leftovers = Vec::new();
        for dir in &self.owned {
            let listing = match std::fs::read_dir(root.join(dir)) {
                Ok(listing) => listing,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error).with_context(|| format!("listing {dir}")),
            };
            for entry in listing {
                let file: PathBuf = entry.with_context(|| format!("listing {dir}"))?.path();
                let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let path = format!("{dir}/{name}");
                if file.is_file() && !self.files.contains_key(&path) {
                    leftovers.push(path);
                }
            }
        }
        leftovers.sort();
        Ok(leftovers)
    }
}

fn read(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}
