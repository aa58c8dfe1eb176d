//! The images of the programs.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};
use vmpool_image_archive::{
    ImageDescription, host_architecture, image_path_of_program, read_program_files, write_image_archive,
};

use super::files::VERSION;

/// The programs with an image of the same name.
pub(super) const PROGRAMS: [&str; 4] =
    ["vmpool-controller", "vmpool-webhook", "vmpool-apiserver", "kubectl-vmpool"];

/// Writes the image of each program.
///
/// # Errors
/// A program was not built, or a file cannot be written.
pub(super) fn write_images(programs: &Path, registry: &str, out: &Path) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("creating {}", out.display()))?;
    for program in PROGRAMS {
        write_image(&programs.join(program), registry, out)?;
    }
    Ok(())
}

/// Writes the image of one program.
///
/// # Errors
/// As [`write_images`].
pub(super) fn write_image(program: &Path, registry: &str, out: &Path) -> Result<()> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let files = read_program_files(program, out).with_context(|| format!("reading {}", program.display()))?;
    let path = out.join(image_file_name(&name));
    let file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    let image = ImageDescription {
        reference: &image_reference(registry, &name),
        entrypoint: &image_path_of_program(program),
        architecture: host_architecture(),
    };
    write_image_archive(file, &image, &files).with_context(|| format!("writing {}", path.display()))
}

/// The file of an image.
pub(super) fn image_file_name(program: &str) -> String {
    format!("{program}-linux-{}.tar", host_architecture())
}

/// The reference of an image in Pods.
pub(super) fn image_reference(registry: &str, program: &str) -> String {
    format!("{}/{program}:{VERSION}", registry.trim_end_matches('/'))
}
