//! Files of a release.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::workspace::command_output;

/// The version of this release, which all crates and the chart have.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Writes a file.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write_file(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    fs::write(path, content).with_context(|| format!("writing {}", path.display()))
}

/// All files below a folder, sorted.
///
/// # Errors
/// A folder cannot be listed.
pub(super) fn list_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        let path = entry.with_context(|| format!("listing {}", folder.display()))?.path();
        if path.is_dir() {
            files.extend(list_files(&path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Compresses without a time and a name, so that the same input gives the same bytes.
///
/// # Errors
/// gzip cannot be started.
pub(super) fn compress_with_gzip(content: &[u8]) -> Result<Vec<u8>> {
    let mut input = tempfile::NamedTempFile::new().context("creating a temporary file")?;
    std::io::Write::write_all(&mut input, content).context("writing a temporary file")?;
    let file = input.reopen().context("reading a temporary file")?;
    command_output(Command::new("gzip").args(["-n", "-9", "-c"]).stdin(file), "gzip")
}
