//! Paths and files of the repository that several outputs share.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// The command that brings the generated files up to date.
pub(crate) const REGENERATE: &str = "cargo xtask generate";

/// A path below a folder, which may be empty, and so may be the path.
pub(crate) fn join_folder_path(folder: &str, path: &str) -> String {
    let separator = if folder.is_empty() || path.is_empty() { "" } else { "/" };
    format!("{folder}{separator}{path}")
}

/// The YAML files directly inside `dir`, sorted by name.
pub(crate) fn yaml_files(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("listing {}", dir.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("listing {}", dir.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
