//! Logs: structured lines on stderr, each with the fields of all spans around it.

pub(crate) mod json;

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum LogFormat {
    /// For people: time, level, spans with their fields, message.
    #[default]
    Text,
    /// For machines: one flat JSON object per line.
    Json,
}

/// Why logs cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// A word that is neither a level nor `target=level`. It would silently hide every other log line.
    #[error("`{0}` is not a log level: use off, error, warn, info, debug, trace, or `target=level`")]
    NotALevel(String),
    /// The filter cannot be read.
    #[error("`{filter}` is not a log filter")]
    BadFilter {
        /// The filter.
        filter: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// Something else in this process has set logs up already.
    #[error("setting up logs")]
    AlreadySet(#[from] TryInitError),
}

/// Sends the log of the whole process to stderr.
///
/// `filter` is a level, or a list such as `info,vmpool_controller=debug`.
///
/// # Errors
/// [`TelemetryError`] if the filter is wrong or logs were set up before.
pub fn init(format: LogFormat, filter: &str) -> Result<(), TelemetryError> {
    let filter = parse_filter(filter)?;
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    match format {
        LogFormat::Text => registry.with(lines.with_ansi(std::io::stderr().is_terminal())).try_init()?,
        LogFormat::Json => registry.with(json::layer(lines)).try_init()?,
    }
    Ok(())
}

/// Reads a filter more strictly than [`EnvFilter`] does, to which every lone word is the name of a target.
///
/// # Errors
/// [`TelemetryError::NotALevel`] or [`TelemetryError::BadFilter`].
pub fn parse_filter(filter: &str) -> Result<EnvFilter, TelemetryError> {
    let directives: Vec<_> = filter.split(',').map(str::trim).collect();
    for directive in &directives {
        let names_a_target = directive.contains(['=', ':', '[']);
        let is_level = !directive.is_empty() && directive.parse::<LevelFilter>().is_ok();
        if !names_a_target && !is_level {
            return Err(TelemetryError::NotALevel((*directive).to_owned()));
        }
    }
    EnvFilter::try_new(directives.join(","))
        .map_err(|source| TelemetryError::BadFilter { filter: filter.to_owned(), source })
}

/// An error and what caused it, in one line: `writing the lease: connection refused`.
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |line, cause| {
        // Some libraries repeat the cause in their own text.
        let cause = cause.to_string();
        if line.contains(&cause) { line } else { format!("{line}: {cause}") }
    })
}

#[cfg(test)]
mod tests;
