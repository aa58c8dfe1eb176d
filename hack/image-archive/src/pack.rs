//! Packs files into a tar archive that depends only on their paths, modes and contents.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use crate::layer::ProgramFile;

/// An archive with these files in their order, each after its parent directories.
///
/// # Errors
/// A path cannot be stored.
pub fn pack_files(files: &[ProgramFile]) -> io::Result<Vec<u8>> {
    let mut archive = Builder::new(Vec::new());
    let mut made = BTreeSet::new();
    for file in files {
        let path = Path::new(file.path.trim_start_matches('/'));
        let mut folders: Vec<&Path> = path.ancestors().skip(1).collect();
        folders.retain(|folder| folder.components().next().is_some());
        for folder in folders.into_iter().rev() {
            if made.insert(folder.to_owned()) {
                let mut header = build_header(0, 0o755);
                header.set_entry_type(EntryType::Directory);
                archive.append_data(&mut header, folder, io::empty())?;
            }
        }
        append_file(&mut archive, path, &file.content, file.mode)?;
    }
    archive.into_inner()
}

/// Adds a file to an archive.
pub(crate) fn append_file(
    archive: &mut Builder<impl Write>,
    path: impl AsRef<Path>,
    content: &[u8],
    mode: u32,
) -> io::Result<()> {
    archive.append_data(&mut build_header(content.len() as u64, mode), path, content)
}

/// Owned by root, without a time.
fn build_header(size: u64, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_size(size);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

/// The SHA-256 of these bytes, in hexadecimal digits.
#[must_use]
pub fn hex_digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("writing to a String does not fail");
        hex
    })
}
