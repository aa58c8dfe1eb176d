//! OCI layouts: blobs, an index, and the manifest of an image or of another artifact.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};
use tar::Builder;

use crate::layer::ProgramFile;
use crate::pack::{append_file, hex_digest, pack_files};

/// An unprivileged user id, as `runAsNonRoot` requires. The program runs with any other, too.
const USER: &str = "65532:65532";

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// An image with one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageDescription<'a> {
    /// The reference in Pods, such as `registry.example/vmpool-controller:0.1.0`.
    pub reference: &'a str,
    /// The path of the program in the image.
    pub entrypoint: &'a str,
    /// The architecture, as images name it.
    pub architecture: &'a str,
}

/// A part of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// The media type.
    pub media_type: &'static str,
    /// The content.
    pub content: Vec<u8>,
}

impl Blob {
    fn descriptor(&self) -> Value {
        json!({
            "mediaType": self.media_type,
            "digest": format!("sha256:{}", hex_digest(&self.content)),
            "size": self.content.len(),
        })
    }

    fn path(&self) -> String {
        format!("blobs/sha256/{}", hex_digest(&self.content))
    }
}

/// Writes an image whose only layer has these files.
///
/// # Errors
/// The file cannot be written.
pub fn write_image_archive(
    file: impl Write,
    image: &ImageDescription<'_>,
    files: &[ProgramFile],
) -> io::Result<()> {
    let layer = Blob { media_type: LAYER, content: pack_files(files)? };
    let config = json!({
        "architecture": image.architecture,
        "os": "linux",
        "config": { "Entrypoint": [image.entrypoint], "User": USER, "WorkingDir": "/" },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", hex_digest(&layer.content))] },
        "history": [{ "created_by": "vmpool" }],
    });
    let config = Blob { media_type: CONFIG, content: config.to_string().into_bytes() };
    let docker =
        json!([{ "Config": config.path(), "RepoTags": [image.reference], "Layers": [layer.path()] }]);
    let mut layout = Layout::of(image.reference, &config, &layer);
    layout.manifest["platform"] = json!({ "architecture": image.architecture, "os": "linux" });
    layout.files.insert("manifest.json".to_owned(), docker.to_string().into_bytes());
    layout.write(file)
}

/// Writes another artifact, such as a chart.
///
/// # Errors
/// The file cannot be written.
pub fn write_artifact_archive(
    file: impl Write,
    reference: &str,
    config: &Blob,
    layer: &Blob,
) -> io::Result<()> {
    Layout::of(reference, config, layer).write(file)
}

/// The files of a layout, without its index.
struct Layout {
    files: BTreeMap<String, Vec<u8>>,
    /// The descriptor of the manifest.
    manifest: Value,
}

impl Layout {
    fn of(reference: &str, config: &Blob, layer: &Blob) -> Self {
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config.descriptor(),
            "layers": [layer.descriptor()],
        });
        let manifest = Blob { media_type: MANIFEST, content: manifest.to_string().into_bytes() };
        let mut descriptor = manifest.descriptor();
        let tag = reference.rsplit(':').next().unwrap_or_default();
        // The first name is the tag, as the layout requires; containerd reads the second one.
        descriptor["annotations"] =
            json!({ "org.opencontainers.image.ref.name": tag, "io.containerd.image.name": reference });
        let version = json!({ "imageLayoutVersion": "1.0.0" }).to_string().into_bytes();
        let mut files: BTreeMap<String, Vec<u8>> =
            [config, layer, &manifest].map(|blob| (blob.path(), blob.content.clone())).into();
        files.insert("oci-layout".to_owned(), version);
        Self { files, manifest: descriptor }
    }

    fn write(mut self, file: impl Write) -> io::Result<()> {
        let index = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [self.manifest],
        });
        self.files.insert("index.json".to_owned(), index.to_string().into_bytes());
        let mut archive = Builder::new(file);
        for (path, content) in &self.files {
            append_file(&mut archive, path, content, 0o644)?;
        }
        archive.into_inner()?.flush()
    }
}

/// The architecture of this host, as images name it.
#[must_use]
pub fn host_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
