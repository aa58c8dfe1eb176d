//! Makes all files of a release, in one folder, and publishes them on request.
//!
//! All files depend only on the sources and the built programs: two runs write the same bytes.

mod changelog;
mod chart_archive;
mod checksums;
mod files;
mod images;
mod plugin;
mod publish;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use self::files::{VERSION, write_file};
use crate::chart;
use crate::sbom;
use crate::workspace::{Workspace, run_command};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct ReleaseOptions {
    /// Which parts to make; all by default
    #[arg(value_enum, value_name = "PART")]
    parts: Vec<ReleasePart>,
    /// Registry and folder in the names of the images, and where --publish pushes them
    #[arg(long, default_value = "vmpool.local")]
    registry: String,
    /// A folder with built programs, instead of building them optimized
    #[arg(long)]
    programs: Option<PathBuf>,
    /// The folder of the files. Those of an earlier release are removed; target/release-artifacts by default
    #[arg(long)]
    out: Option<PathBuf>,
    /// The tag that is released; it must be that of the version
    #[arg(long)]
    tag: Option<String>,
    /// Push images and chart, and create the release of the tag, with skopeo, helm and gh. Otherwise, these
    /// commands are only printed
    #[arg(long, requires = "tag")]
    publish: bool,
}

/// A part of the release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReleasePart {
    /// The images, as OCI layouts
    Images,
    /// The software bills of materials
    Sbom,
    /// The chart, as an archive and as an OCI layout
    Chart,
    /// The manifest of an installation without Helm
    Manifest,
    /// The archive of the kubectl plugin, and the manifest for krew
    Plugin,
    /// The section of this version in CHANGELOG.md
    Changes,
}

impl ReleasePart {
    /// The packages whose programs the part contains.
    fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Images => &["vmpool-controller", "vmpool-webhook", "vmpool-apiserver", "vmpool-cli"],
            Self::Plugin => &["vmpool-cli"],
            Self::Sbom | Self::Chart | Self::Manifest | Self::Changes => &[],
        }
    }
}

/// Makes the parts, and publishes them if the options say so.
///
/// # Errors
/// A program cannot be built, a file cannot be written, or a command of the publication fails.
pub(crate) fn make_release(workspace: &Workspace, options: &ReleaseOptions) -> Result<()> {
    check_tag(options.tag.as_deref())?;
    let parts =
        if options.parts.is_empty() { ReleasePart::value_variants() } else { options.parts.as_slice() };
    let out = options.out.clone().unwrap_or_else(|| workspace.release_artifacts());
    empty_folder(&out)?;
    let programs = match &options.programs {
        Some(folder) => folder.clone(),
        None => build_programs(workspace, parts)?,
    };
    for part in parts {
        match part {
            ReleasePart::Images => images::write_images(&programs, &options.registry, &out.join("images"))?,
            ReleasePart::Sbom => sbom::write_bills_of_host(workspace, &out.join("sbom"))?,
            ReleasePart::Chart => chart_archive::write_chart(workspace, &options.registry, &out)?,
            ReleasePart::Manifest => write_manifest(workspace, &options.registry, &out)?,
            ReleasePart::Plugin => plugin::write_plugin(workspace, &programs, &out)?,
            ReleasePart::Changes => write_changes(workspace, &out)?,
        }
    }
    checksums::write_checksums(&out)?;
    println!("{}", out.display());
    publish::publish_files(&out, &options.registry, options.publish)
}

fn check_tag(tag: Option<&str>) -> Result<()> {
    match tag {
        Some(tag) if tag != format!("v{VERSION}") => {
            bail!("the tag is {tag}, but the version of the sources is {VERSION}: release the tag v{VERSION}")
        }
        Some(_) | None => Ok(()),
    }
}

/// Empties the folder of an earlier release. Any other folder must be empty.
fn empty_folder(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        let is_empty = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
        if !is_empty && !folder.join(checksums::FILE).is_file() {
            bail!("{} has files, and none of an earlier release: choose another folder", folder.display());
        }
        fs::remove_dir_all(folder).with_context(|| format!("emptying {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))
}

/// Builds the programs of the parts as the benchmark measures them, and returns their folder.
fn build_programs(workspace: &Workspace, parts: &[ReleasePart]) -> Result<PathBuf> {
    let packages: Vec<&str> = parts.iter().flat_map(|part| part.packages()).copied().collect();
    if !packages.is_empty() {
        let mut cargo = workspace.cargo();
        cargo.args(["build", "--locked", "--release", "--bins"]);
        for package in packages {
            cargo.args(["--package", package]);
        }
        run_command(&mut cargo).context("building the programs")?;
    }
    Ok(workspace.release_programs())
}

/// Writes the stored manifest, with the images of this registry.
fn write_manifest(workspace: &Workspace, registry: &str, out: &Path) -> Result<()> {
    let stored = workspace.path(chart::INSTALL_MANIFEST);
    let text = fs::read_to_string(&stored).with_context(|| format!("reading {}", stored.display()))?;
    write_file(&out.join("vmpool.yaml"), in_registry(&text, registry))
}

/// A manifest with the images of this registry.
fn in_registry(manifest: &str, registry: &str) -> String {
    let own = format!("image: {}/", chart::INSTALL_REGISTRY);
    manifest.replace(&own, &format!("image: {}/", registry.trim_end_matches('/')))
}

fn write_changes(workspace: &Workspace, out: &Path) -> Result<()> {
    let text = fs::read_to_string(workspace.path("CHANGELOG.md")).context("reading CHANGELOG.md")?;
    write_file(&out.join("CHANGES.md"), changelog::find_version_section(&text, VERSION)?)
}
