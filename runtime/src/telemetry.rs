//! Logs: structured lines on stderr. Each line has the fields of all spans around it.

mod causes;
pub(crate) mod json;

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

pub use causes::with_causes;

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum LogFormat {
    /// For users: time, level, spans with their fields, and message.
    #[default]
    Text,
    /// For programs: one flat JSON object per line.
    Json,
}

/// Why logging cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// A directive is neither a level nor `target=level`. It would hide all other log lines.
    #[error("`{0}` is not a log level: use off, error, warn, info, debug, trace, or `target=level`")]
    NotALevel(String),
    /// The filter is invalid.
    #[error("`{filter}` is not a log filter")]
    BadFilter {
        /// The filter.
        filter: String,
        /// The reason.
        source: ParseError,
    },
    /// Logging is already set up in this process.
    #[error("setting up logging")]
    AlreadySet(#[from] TryInitError),
}

/// Writes the log of the process to stderr.
///
/// `filter` is a level, or a list such as `info,vmpool_controller=debug`.
///
/// # Errors
/// [`TelemetryError`] if the filter is invalid or logging is already set up.
pub fn init_logging(format: LogFormat, filter: &str) -> Result<(), TelemetryError> {
    let filter = parse_filter(filter)?;
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    match format {
        LogFormat::Text => registry.with(lines.with_ansi(std::io::stderr().is_terminal())).try_init()?,
        LogFormat::Json => registry.with(json::json_layer(lines)).try_init()?,
    }
    Ok(())
}

/// Parses a filter. Unlike [`EnvFilter`], it does not accept a single word as the name of a target.
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

#[cfg(test)]
mod tests;
