//! The files of the only layer of an image: a program and its shared libraries.

use std::path::Path;
use std::process::Command;

use crate::error::ImageError;
use crate::libraries::find_shared_libraries;

/// One file of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramFile {
    /// The path in the archive.
    pub path: String,
    /// The permissions, such as `0o755`.
    pub mode: u32,
    /// The content.
    pub content: Vec<u8>,
}

impl ProgramFile {
    /// Reads a file of the host as an executable.
    ///
    /// # Errors
    /// [`ImageError::File`].
    pub fn read_executable(path: &str, source: &Path) -> Result<Self, ImageError> {
        let content = std::fs::read(source).map_err(ImageError::file("reading", source))?;
        Ok(Self { path: path.to_owned(), mode: 0o755, content })
    }
}

/// The stripped program at the root, and its libraries at their original paths, sorted by path. `scratch` is
/// a folder for a temporary file.
///
/// # Errors
/// [`ImageError::Tool`] if `strip` fails or a library is missing, [`ImageError::File`],
/// [`ImageError::Start`].
pub fn read_program_files(program: &Path, scratch: &Path) -> Result<Vec<ProgramFile>, ImageError> {
    let stripped =
        tempfile::NamedTempFile::new_in(scratch).map_err(ImageError::file("creating a file in", scratch))?;
    strip_program(program, stripped.path())?;
    let mut files = vec![ProgramFile::read_executable(&image_path_of_program(program), stripped.path())?];
    for library in find_shared_libraries(program)? {
        files.push(ProgramFile::read_executable(&library, Path::new(&library))?);
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

/// The path of a program in its image.
#[must_use]
pub fn image_path_of_program(program: &Path) -> String {
    format!("/{}", program.file_name().unwrap_or_default().to_string_lossy())
}

fn strip_program(program: &Path, stripped: &Path) -> Result<(), ImageError> {
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(stripped).arg(program);
    let output = strip.output().map_err(|source| ImageError::Start { program: "strip", source })?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(ImageError::Tool { command: format!("strip {}", program.display()), status: output.status, stderr })
}
