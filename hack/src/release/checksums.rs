//! The checksums of the files of a release, in the format of `sha256sum`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use vmpool_image_archive::hex_digest;

use super::files::{list_files, write_file};

/// The file with the checksums.
pub(super) const FILE: &str = "SHA256SUMS";

/// Writes the checksums of all files in a folder.
///
/// # Errors
/// A file cannot be read or written.
pub(super) fn write_checksums(folder: &Path) -> Result<()> {
    let mut text = String::new();
    for path in list_files(folder)? {
        let content = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let name = path.strip_prefix(folder).context("a file is outside of its folder")?;
        let _ = writeln!(text, "{}  {}", hex_digest(&content), name.display());
    }
    write_file(&folder.join(FILE), text)
}
