//! Errors.

use std::path::PathBuf;
use std::process::ExitStatus;

/// Why the files of an image cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// A file cannot be read or created.
    #[error("{action} {}: {source}", path.display())]
    File {
        /// What was tried, such as `reading`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A tool cannot be started.
    #[error("starting {program}: {source}")]
    Start {
        /// The tool.
        program: &'static str,
        /// The cause.
        source: std::io::Error,
    },
    /// A tool failed.
    #[error("`{command}` failed ({status}): {stderr}")]
    Tool {
        /// The command line.
        command: String,
        /// Its exit status.
        status: ExitStatus,
        /// Its error output.
        stderr: String,
    },
}

impl ImageError {
    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }
}
