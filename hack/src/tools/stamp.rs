//! Detects whether a program is up to date.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use super::go::{GOFLAGS, Go};

/// A hash of all inputs of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BuildKey(String);

impl BuildKey {
    /// # Errors
    /// When go.mod or go.sum cannot be read.
    pub(super) fn of(mod_file: &Path, sum_file: &Path, flags: &str, go: &Go) -> Result<Self> {
        let mut hash = Sha256::new();
        for path in [mod_file, sum_file] {
            let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
            // The length separates one input from the next.
            hash.update(bytes.len().to_le_bytes());
            hash.update(bytes);
        }
        for text in [GOFLAGS, flags, &go.version, &go.platform] {
            hash.update(text.len().to_le_bytes());
            hash.update(text);
        }
        let hex = hash.finalize().iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").expect("writing to a String does not fail");
            hex
        });
        Ok(Self(hex))
    }
}

/// Whether the program exists and was built with this key.
pub(super) fn is_current(output: &Path, tool: &str, key: &BuildKey) -> bool {
    output.join("bin").join(tool).is_file()
        && fs::read_to_string(file(output, tool)).is_ok_and(|text| text.trim() == key.0)
}

/// Records that the program was built with this key. Call it after the program has been moved to its
/// destination, so that an interrupted build leaves no stamp.
///
/// # Errors
/// When the stamp cannot be written.
pub(super) fn write_build_stamp(output: &Path, tool: &str, key: &BuildKey) -> Result<()> {
    let path = file(output, tool);
    fs::write(&path, format!("{}\n", key.0)).with_context(|| format!("writing {}", path.display()))
}

fn file(output: &Path, tool: &str) -> PathBuf {
    output.join(format!("{tool}.stamp"))
}
