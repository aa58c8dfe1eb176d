//! Writes an image as a file in the format of `docker save`: a layer, a configuration and a manifest.
//!
//! The same files give the same bytes: entries are sorted and have neither owners nor times.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use serde_json::json;
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use crate::error::{Error, Result};

/// An unprivileged user id, as `runAsNonRoot` requires.
const USER: &str = "65532:65532";

/// One file of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LayerFile {
    /// The absolute path in the image.
    pub(super) path: String,
    /// The content. All files are executable.
    pub(super) content: Vec<u8>,
}

impl LayerFile {
    /// Reads a file of the host.
    ///
    /// # Errors
    /// [`Error::File`].
    pub(super) fn read(path: &str, source: &Path) -> Result<Self> {
        let content = std::fs::read(source).map_err(Error::file("reading", source))?;
        Ok(Self { path: path.to_owned(), content })
    }
}

/// Writes the archive of an image with one layer whose entrypoint is `entrypoint`.
pub(super) fn write_image_archive(
    file: impl Write,
    reference: &str,
    entrypoint: &str,
    layer: &[LayerFile],
) -> io::Result<()> {
    let layer = pack(layer)?;
    let configuration = json!({
        "architecture": architecture(),
        "os": "linux",
        "config": { "Entrypoint": [entrypoint], "User": USER, "WorkingDir": "/" },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", digest(&layer))] },
        "history": [{ "created_by": "vmpool" }],
    })
    .to_string();
    let name = format!("{}.json", digest(configuration.as_bytes()));
    let manifest = json!([{ "Config": name, "RepoTags": [reference], "Layers": ["layer.tar"] }]).to_string();
    let mut archive = Builder::new(file);
    add(&mut archive, &name, configuration.as_bytes(), 0o644)?;
    add(&mut archive, "layer.tar", &layer, 0o644)?;
    add(&mut archive, "manifest.json", manifest.as_bytes(), 0o644)?;
    archive.into_inner()?.flush()
}

/// A layer: its files, each after its parent directories.
fn pack(layer: &[LayerFile]) -> io::Result<Vec<u8>> {
    let mut archive = Builder::new(Vec::new());
    let mut made = std::collections::BTreeSet::new();
    for entry in layer {
        let path = Path::new(entry.path.trim_start_matches('/'));
        let mut folders: Vec<&Path> = path.ancestors().skip(1).collect();
        folders.retain(|folder| folder.components().next().is_some());
        for folder in folders.into_iter().rev() {
            if made.insert(folder.to_owned()) {
                let mut header = header(0, 0o755);
                header.set_entry_type(EntryType::Directory);
                archive.append_data(&mut header, folder, io::empty())?;
            }
        }
        add(&mut archive, path, &entry.content, 0o755)?;
    }
    archive.into_inner()
}

fn add(
    archive: &mut Builder<impl Write>,
    path: impl AsRef<Path>,
    content: &[u8],
    mode: u32,
) -> io::Result<()> {
    archive.append_data(&mut header(content.len() as u64, mode), path, content)
}

/// Owned by root, without a time.
fn header(size: u64, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_size(size);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

/// The architecture of this host, as images name it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("writing to a String does not fail");
        hex
    })
}
