//! Builds container images without a container engine: one program and its shared libraries.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use vmpool_image_archive::{
    ImageDescription, host_architecture, image_path_of_program, read_program_files, write_image_archive,
};

use crate::binaries::profile_directory;
use crate::control_plane::target_directory;
use crate::error::{Error, Result};

/// The registry in the images' names. It does not exist, and images are never pulled.
const REGISTRY: &str = "vmpool.local";

/// The tag of the images.
pub const TAG: &str = "test";

/// An image file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerImage {
    /// The reference in Pods, such as `vmpool.local/vmpool-controller:test`.
    pub reference: String,
    /// The file, as an OCI layout.
    pub archive: PathBuf,
}

/// The image of one of the project's programs in its last build. It is rebuilt only if the program has
/// changed.
///
/// # Errors
/// [`Error::MissingImage`] if the program was not built, [`Error::Image`] if its files cannot be
/// read, [`Error::File`].
pub fn of_program(name: &str) -> Result<ContainerImage> {
    of_file(name, &profile_directory()?.join(name))
}

/// The image of any program, under this name.
///
/// # Errors
/// As [`of_program`].
pub fn of_file(name: &str, program: &Path) -> Result<ContainerImage> {
    let metadata = match program.metadata() {
        Ok(metadata) if metadata.is_file() => metadata,
        _ => return Err(Error::MissingImage { name: name.to_owned(), program: program.to_owned() }),
    };
    let reference = format!("{REGISTRY}/{name}:{TAG}");
    let changed = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let key = format!("{:x}-{:x}", changed.unwrap_or_default().as_nanos(), metadata.len());
    let folder = target_directory().join("images");
    std::fs::create_dir_all(&folder).map_err(Error::file("creating", &folder))?;
    let archive = folder.join(format!("{name}-{key}.tar"));
    if !archive.is_file() {
        remove_older(&folder, name);
        let files = read_program_files(program, &folder)?;
        let entrypoint = image_path_of_program(program);
        let image = ImageDescription {
            reference: &reference,
            entrypoint: &entrypoint,
            architecture: host_architecture(),
        };
        // The file is renamed when it is complete, because another test may look for it at the same time.
        let draft = tempfile::NamedTempFile::new_in(&folder).map_err(Error::file("creating", &folder))?;
        let written = write_image_archive(draft.as_file(), &image, &files);
        written.map_err(Error::file("writing", draft.path()))?;
        draft.persist(&archive).map_err(|error| Error::file("writing", &archive)(error.error))?;
    }
    Ok(ContainerImage { reference, archive })
}

/// Removes the images of earlier builds of the program.
fn remove_older(folder: &Path, name: &str) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        if is_of(&file, name) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Whether a file is an archive of this program, and not of one whose name has the same prefix.
fn is_of(file: &str, name: &str) -> bool {
    let key = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
    key.and_then(|key| key.strip_suffix(".tar"))
        .is_some_and(|key| key.chars().all(|letter| letter == '-' || letter.is_ascii_hexdigit()))
}
