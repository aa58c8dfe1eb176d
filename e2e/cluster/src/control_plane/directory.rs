//! The directory of a cluster's logs and data: `target/e2e/<name>-<process id>-<number>`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use super::target_directory;
use crate::error::{Error, Result};

/// How long directories are kept. Each has about 100 MiB.
const KEPT_FOR: Duration = Duration::from_hours(24);

/// Creates a new directory, and removes old ones.
///
/// # Errors
/// [`Error::File`].
pub(super) fn create_cluster_directory(name: &str) -> Result<PathBuf> {
    let parent = target_directory().join("e2e");
    remove_older_than(&parent, KEPT_FOR);
    create_in(&parent, name)
}

/// Creates the given directory, and empties it if it exists.
///
/// # Errors
/// [`Error::File`].
pub(super) fn create_at(path: &Path) -> Result<PathBuf> {
    // An earlier attempt that failed because of a port conflict has left its logs.
    let _ = std::fs::remove_dir_all(path);
    std::fs::create_dir_all(path).map_err(Error::file("creating", path))?;
    Ok(path.to_owned())
}

fn create_in(parent: &Path, name: &str) -> Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = if name.is_empty() { "cluster" } else { name };
    let serial = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = parent.join(format!("{name}-{}-{serial}", std::process::id()));
    // An earlier process with the same id may have left a directory.
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).map_err(Error::file("creating", &path))?;
    Ok(path)
}

/// Removes old directories. Errors are ignored, because leftovers are harmless. No cluster runs as long as
/// `age`.
fn remove_older_than(parent: &Path, age: Duration) {
    let now = SystemTime::now();
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let changed = entry.metadata().and_then(|metadata| metadata.modified());
        if changed.is_ok_and(|changed| now.duration_since(changed).is_ok_and(|passed| passed > age)) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_old_directories_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let first = create_in(parent.path(), "a").unwrap();
        let second = create_in(parent.path(), "").unwrap();
        assert_ne!(first, second);
        let yesterday = SystemTime::now() - Duration::from_hours(25);
        std::fs::File::open(&first).unwrap().set_modified(yesterday).unwrap();
        remove_older_than(parent.path(), KEPT_FOR);
        assert!(!first.exists());
        assert!(second.exists());
    }
}
