//! What can go wrong in the harness itself, each with what was attempted.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitStatus;

use crate::deadline::Elapsed;

/// A failure of the harness, or of an expectation that a scenario stated through it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program of the control plane is not where `cargo xtask tools` puts it.
    #[error("{tool} is not in {}: run `cargo xtask tools` first", directory.display())]
    MissingTool {
        /// File name of the program.
        tool: &'static str,
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// One of our own programs was not built.
    #[error("{program} is not at {}: run `cargo build --workspace --bins` first (or set {variable})", path.display())]
    MissingProgram {
        /// Name of the program.
        program: &'static str,
        /// Where it was looked for.
        path: PathBuf,
        /// The environment variable that names another place.
        variable: &'static str,
    },
    /// A source of one of our own programs changed after the program was built.
    #[error("{program} is older than {}: run `cargo build --workspace --bins` first", source_file.display())]
    StaleProgram {
        /// Name of the program.
        program: &'static str,
        /// The source that changed.
        source_file: PathBuf,
    },
    /// A program that an image shall have was not built.
    #[error("{} is missing, which the image {name} is made of: run `cargo build --workspace --bins` first", program.display())]
    MissingImage {
        /// Name of the image.
        name: String,
        /// Where the program was looked for.
        program: PathBuf,
    },
    /// This machine cannot have a node cluster.
    #[error("{missing}")]
    Node {
        /// What is missing, in one line.
        missing: String,
    },
    /// `E2E_CLUSTER` names a provider that this build cannot start.
    #[error(
        "E2E_CLUSTER={name} is no cluster for this: tests start `embedded` and `node` by themselves, and `make e2e` takes \
         `kind`, `k3s` and `current`, too"
    )]
    UnknownProvider {
        /// What the variable says.
        name: String,
    },
    /// A cluster of somebody else cannot be had here.
    #[error("E2E_CLUSTER={provider} needs {what}")]
    ProviderLacks {
        /// The provider.
        provider: &'static str,
        /// What is missing.
        what: String,
    },
    /// A child process could not be started.
    #[error("starting {name}")]
    Spawn {
        /// The child's name.
        name: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A signal could not be sent.
    #[error("sending {signal} to {name}")]
    Signal {
        /// The child's name.
        name: String,
        /// Name of the signal.
        signal: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A child ended although it was needed.
    #[error("{name} ended early ({status}); {log}")]
    Exited {
        /// The child's name.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// What it said last.
        log: Box<LogTail>,
    },
    /// A child did not become ready, or did not end, in time.
    #[error("{name} was not {state} after {after}{}; {log}", because(last))]
    NotInTime {
        /// The child's name.
        name: String,
        /// What was waited for: `ready`, `gone`.
        state: &'static str,
        /// How long.
        after: Elapsed,
        /// The last answer or error seen while waiting, may be empty.
        last: String,
        /// What it said last.
        log: Box<LogTail>,
    },
    /// A file or directory of the harness could not be used.
    #[error("{doing} {}", path.display())]
    File {
        /// What was attempted, such as `writing`.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// No free port could be had.
    #[error("picking a free port on the loopback address")]
    Port {
        /// What the system said.
        source: std::io::Error,
    },
    /// A key or certificate could not be made.
    #[error("making the certificate of {subject}")]
    Certificate {
        /// Whose.
        subject: &'static str,
        /// What the library said.
        source: rcgen::Error,
    },
    /// A client could not be made from a kubeconfig of ours.
    #[error("reading the kubeconfig {}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What the library said.
        source: Box<kube::config::KubeconfigError>,
    },
    /// A manifest is not what it should be.
    #[error("reading the manifest {origin}")]
    Manifest {
        /// The file, or what produced the text.
        origin: String,
        /// What the library said.
        source: serde_yaml_ng::Error,
    },
    /// An object of a manifest has no kind or no API version.
    #[error("an object in {origin} has no apiVersion, kind or name")]
    Untyped {
        /// The file, or what produced the text.
        origin: String,
    },
    /// The API server refused or did not answer.
    #[error("{doing}")]
    Api {
        /// What was attempted, with the object's name.
        doing: String,
        /// What the client said.
        #[source]
        source: Box<kube::Error>,
    },
    /// An object could not be written down as, or read from, JSON.
    #[error("{doing}")]
    Json {
        /// What was attempted.
        doing: String,
        /// What the library said.
        source: serde_json::Error,
    },
    /// A command of the user's (kubectl, helm) failed.
    #[error("`{command}` failed ({status}): {stderr}")]
    Command {
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// What it printed as its error.
        stderr: String,
    },
    /// A background task of the harness is gone.
    #[error("{task} ended")]
    TaskEnded {
        /// Which one.
        task: &'static str,
    },
    /// The shared cluster could not be started, which every scenario is told.
    #[error("the shared cluster did not start: {reason}")]
    SharedCluster {
        /// The first error, written out.
        reason: String,
    },
    /// Something expected did not happen before the deadline.
    #[error("{what}: not so after {after}\nlast seen:\n{last}")]
    Deadline {
        /// What was expected, of which object.
        what: String,
        /// How long the harness waited for it.
        after: Elapsed,
        /// The last object or answer seen.
        last: String,
    },
    /// Something that should have stayed so did not.
    #[error("{what}: no longer so after {after}\nlast seen:\n{last}")]
    DidNotHold {
        /// What was expected to hold, of which object.
        what: String,
        /// How long it had held.
        after: Elapsed,
        /// The object or answer that broke it.
        last: String,
    },
    /// A step went against what the scenario expects, without a wait.
    #[error("{what}\nlast seen:\n{last}")]
    Unexpected {
        /// What was expected.
        what: String,
        /// What was seen instead.
        last: String,
    },
    /// An invariant of the product was broken.
    #[error("broken invariants:\n{}", violations.join("\n"))]
    Invariants {
        /// One line for each.
        violations: Vec<String>,
    },
}

/// What a child said last.
#[derive(Debug, Clone)]
pub struct LogTail {
    /// Its whole log.
    pub path: PathBuf,
    /// The last lines of it.
    pub lines: String,
}

impl fmt::Display for LogTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the end of {}:\n{}", self.path.display(), self.lines)
    }
}

/// A result of the harness.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Wraps what the client said with what was attempted.
    pub fn api(doing: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Api { doing, source: Box::new(source) }
    }

    /// Wraps what the JSON library said with what was attempted.
    pub fn json(doing: impl Into<String>) -> impl FnOnce(serde_json::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Json { doing, source }
    }

    /// Wraps what the system said about a file.
    pub fn file(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { doing, path, source }
    }

    /// The answer of the API server with this HTTP code, if that is what went wrong.
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

fn because(last: &str) -> String {
    if last.is_empty() { String::new() } else { format!(" ({last})") }
}

/// The error and everything that caused it, on one line.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        if !text.is_empty() {
            text.push_str(": ");
        }
        let answer =
            error.downcast_ref().or_else(|| error.downcast_ref::<Box<kube::Error>>().map(AsRef::as_ref));
        // The client writes the same answer down three times.
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
    fn a_chain_says_every_cause_once() {
        let status = Status::failure("pools \"web\" not found", "NotFound").with_code(404);
        let error = Error::api("reading web")(kube::Error::Api(status.boxed()));
        assert_eq!(chain(&error), "reading web: pools \"web\" not found (404 NotFound)");
        assert_eq!(error.status_code(), Some(404));
    }
}
