//! Errors, each with what was attempted.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::deadline::ElapsedTime;

/// A failure of the cluster, or of an expectation that a test checks with the help of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program of the control plane was not built.
    #[error("{tool} is not in {}: run `cargo xtask tools` first", directory.display())]
    MissingTool {
        /// File name of the program.
        tool: &'static str,
        /// The directory that was searched.
        directory: PathBuf,
    },
    /// A program of the workspace was not built.
    #[error("{program} is not at {}: run `cargo build --workspace --bins` first (or set {variable})", path.display())]
    MissingProgram {
        /// Name of the program.
        program: &'static str,
        /// The expected path.
        path: PathBuf,
        /// The environment variable with an alternative path.
        variable: &'static str,
    },
    /// A source of a program of the workspace changed after the program was built.
    #[error("{program} is older than {}: run `cargo build --workspace --bins` first", source_file.display())]
    StaleProgram {
        /// Name of the program.
        program: &'static str,
        /// The source that changed.
        source_file: PathBuf,
    },
    /// The program for an image was not built.
    #[error("{} does not exist, but the image {name} needs it: run `cargo build --workspace --bins` first", program.display())]
    MissingImage {
        /// Name of the image.
        name: String,
        /// The expected path of the program.
        program: PathBuf,
    },
    /// The files of an image cannot be read.
    #[error(transparent)]
    Image(#[from] vmpool_image_archive::ImageError),
    /// The cluster is not available on this host, or with these settings.
    #[error("{reason}")]
    Unavailable {
        /// What is missing or wrong, on one line.
        reason: String,
    },
    /// A child process could not be started.
    #[error("starting {name}")]
    Spawn {
        /// The child's name.
        name: String,
        /// The I/O error.
        source: std::io::Error,
    },
    /// A signal could not be sent.
    #[error("sending {signal} to {name}")]
    Signal {
        /// The child's name.
        name: String,
        /// Name of the signal.
        signal: &'static str,
        /// The I/O error.
        source: std::io::Error,
    },
    /// A child process exited although it was needed.
    #[error("{name} ended early ({status}); {log}")]
    Exited {
        /// The child's name.
        name: String,
        /// Its exit status.
        status: ExitStatus,
        /// The end of its log.
        log: Box<LogTail>,
    },
    /// A child process did not become ready, or did not exit, in time.
    #[error("{name} was not {state} after {after}{}; {log}", parenthesized_reason(last))]
    NotInTime {
        /// The child's name.
        name: String,
        /// The expected state: `ready`, `gone`.
        state: &'static str,
        /// How long it was awaited.
        after: ElapsedTime,
        /// The last response or error; may be empty.
        last: String,
        /// The end of its log.
        log: Box<LogTail>,
    },
    /// A file or directory could not be used.
    #[error("{doing} {}", path.display())]
    File {
        /// What was attempted, such as `writing`.
        doing: &'static str,
        /// The path.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// No free port was found.
    #[error("picking a free port on the loopback address")]
    Port {
        /// The I/O error.
        source: std::io::Error,
    },
    /// A key or certificate could not be created.
    #[error("creating the certificate of {subject}")]
    Certificate {
        /// Its subject.
        subject: &'static str,
        /// The error of the library.
        source: rcgen::Error,
    },
    /// A client could not be created from a kubeconfig.
    #[error("reading the kubeconfig {}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The error of the library.
        source: Box<kube::config::KubeconfigError>,
    },
    /// A manifest is invalid.
    #[error("reading the manifest {origin}")]
    Manifest {
        /// The file, or the source of the text.
        origin: String,
        /// The error of the library.
        source: serde_yaml_ng::Error,
    },
    /// An object of a manifest has no kind or no API version.
    #[error("an object in {origin} has no apiVersion, kind or name")]
    Untyped {
        /// The file, or the source of the text.
        origin: String,
    },
    /// The API server refused the request or did not respond.
    #[error("{doing}")]
    Api {
        /// What was attempted, with the object's name.
        doing: String,
        /// The error of the client.
        #[source]
        source: Box<kube::Error>,
    },
    /// An object could not be converted to or from JSON.
    #[error("{doing}")]
    Json {
        /// What was attempted.
        doing: String,
        /// The error of the library.
        source: serde_json::Error,
    },
    /// A command-line tool (kubectl, helm) failed.
    #[error("`{command}` failed ({status}): {stderr}")]
    Command {
        /// The command line.
        command: String,
        /// Its exit status.
        status: ExitStatus,
        /// Its error output.
        stderr: String,
    },
    /// A background task has ended.
    #[error("{task} ended")]
    TaskEnded {
        /// The name of the task.
        task: &'static str,
    },
    /// An expectation was not met before the deadline.
    #[error("{what}: not met after {after}\nlast seen:\n{last}")]
    Deadline {
        /// The expectation, with the object's name.
        what: String,
        /// How long it was awaited.
        after: ElapsedTime,
        /// The last observed object or response.
        last: String,
    },
    /// A condition that should hold throughout did not.
    #[error("{what}: no longer met after {after}\nlast seen:\n{last}")]
    DidNotHold {
        /// The condition, with the object's name.
        what: String,
        /// How long it had held.
        after: ElapsedTime,
        /// The object or response that violated it.
        last: String,
    },
    /// A step had an unexpected result.
    #[error("{what}\nlast seen:\n{last}")]
    Unexpected {
        /// The expectation.
        what: String,
        /// The actual result.
        last: String,
    },
    /// Checks of the recorded state found violations.
    #[error("violated invariants:\n{}", violations.join("\n"))]
    Violations {
        /// One line for each violation.
        violations: Vec<String>,
    },
}

/// The end of a child's log.
#[derive(Debug, Clone)]
pub struct LogTail {
    /// Path of the log.
    pub path: PathBuf,
    /// Its last lines.
    pub lines: String,
}

impl fmt::Display for LogTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the end of {}:\n{}", self.path.display(), self.lines)
    }
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Adds what was attempted to an error of the client.
    pub fn api(doing: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Api { doing, source: Box::new(source) }
    }

    /// Adds what was attempted to an error of the JSON library.
    pub fn json(doing: impl Into<String>) -> impl FnOnce(serde_json::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Json { doing, source }
    }

    /// Adds the operation and the path to an I/O error.
    pub fn file(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { doing, path, source }
    }

    /// The HTTP status code of the API server's response, if the error is one.
    pub fn status_code(&self) -> Option<u16> {
        match self {
            Self::Api { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            _ => None,
        }
    }
}

fn parenthesized_reason(last: &str) -> String {
    if last.is_empty() { String::new() } else { format!(" ({last})") }
}

/// The error and its causes, on one line.
pub fn error_with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        if !text.is_empty() {
            text.push_str(": ");
        }
        let answer =
            error.downcast_ref().or_else(|| error.downcast_ref::<Box<kube::Error>>().map(AsRef::as_ref));
        // The client's error contains the same response three times.
        if let Some(kube::Error::Api(status)) = answer {
            return format!("{text}{} ({} {})", status.message, status.code, status.reason);
        }
        text.push_str(&error.to_string());
        next = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_chain_contains_every_cause_once() {
        let status = Status::failure("pools \"web\" not found", "NotFound").with_code(404);
        let error = Error::api("reading web")(kube::Error::Api(status.boxed()));
        assert_eq!(error_with_causes(&error), "reading web: pools \"web\" not found (404 NotFound)");
        assert_eq!(error.status_code(), Some(404));
    }
}
