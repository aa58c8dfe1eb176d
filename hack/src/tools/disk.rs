//! Checks the free disk space before a build. A full disk during a build would produce pages of errors.

use std::path::Path;

use anyhow::{Context, Result, bail};

/// One mebibyte, in bytes.
pub(super) const MIB: u64 = 1 << 20;

/// # Errors
/// When the file system that holds (or would hold) `path` has less than `needed` bytes free.
pub(super) fn require_disk_space(path: &Path, needed: u64, purpose: &str) -> Result<()> {
    let existing = path.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    let stat = rustix::fs::statvfs(existing)
        .with_context(|| format!("asking for the free space of {}", existing.display()))?;
    check_free_space(stat.f_bavail.saturating_mul(stat.f_frsize), needed, purpose, path)
}

/// The decision without the system call.
pub(super) fn check_free_space(free: u64, needed: u64, purpose: &str, path: &Path) -> Result<()> {
    if free < needed {
        bail!(
            "not enough disk space: {purpose} needs about {} MiB in {}, {} MiB are free",
            needed.div_ceil(MIB),
            path.display(),
            free / MIB
        );
    }
    Ok(())
}
