//! The kubectl plugin: an archive for this architecture, and the manifest for krew.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use vmpool_image_archive::{ProgramFile, hex_digest, host_architecture, pack_files};

use super::files::{VERSION, compress_with_gzip, write_file};
use crate::workspace::Workspace;

/// The program.
const PLUGIN: &str = "kubectl-vmpool";

/// The template of the manifest, with words in capitals.
const TEMPLATE: &str = "cli/krew/vmpool.yaml";

/// The manifest for krew.
const KREW: &str = "krew-vmpool.yaml";

/// Writes the archive, and the manifest with its checksum.
///
/// # Errors
/// The plugin was not built, or a file cannot be written.
pub(super) fn write_plugin(workspace: &Workspace, programs: &Path, out: &Path) -> Result<()> {
    let program = programs.join(PLUGIN);
    let mut files = vec![ProgramFile::read_executable(PLUGIN, &program)?];
    let license = fs::read(workspace.path("LICENSE")).context("reading LICENSE")?;
    files.push(ProgramFile { path: "LICENSE".to_owned(), mode: 0o644, content: license });
    let archive = compress_with_gzip(&pack_files(&files).context("packing the plugin")?)?;
    write_file(&out.join(plugin_file_name()), &archive)?;
    let template =
        fs::read_to_string(workspace.path(TEMPLATE)).with_context(|| format!("reading {TEMPLATE}"))?;
    // A release has a second file vmpool.yaml, and its files are in one folder.
    write_file(&out.join(KREW), fill_krew_manifest(&template, &hex_digest(&archive)))
}

/// The file of the plugin.
pub(super) fn plugin_file_name() -> String {
    format!("{PLUGIN}-linux-{}.tar.gz", host_architecture())
}

/// The manifest of this version.
pub(super) fn fill_krew_manifest(template: &str, checksum: &str) -> String {
    let lines = template.lines().filter(|line| !line.starts_with('#'));
    let fill = |line: &str| {
        let line = line.replace("VERSION", VERSION).replace("ARCH", host_architecture());
        line.replace("SHA256", checksum) + "\n"
    };
    lines.map(fill).collect()
}
