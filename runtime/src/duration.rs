//! Durations of flags, in the syntax of Kubernetes' own flags, such as `15s` or `1m30s`.

use std::time::Duration;

use vmpool_api::GoDuration;

/// Why a text is not a valid duration of a flag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlagDurationError {
    /// The text is not a duration.
    #[error(transparent)]
    Invalid(#[from] vmpool_api::DurationError),
    /// The duration is negative.
    #[error("the duration {0:?} must not be negative")]
    Negative(String),
}

/// Parses a duration that is not negative: numbers with units from `h` to `ns`, or `0`.
///
/// # Errors
/// [`FlagDurationError`].
pub fn parse_duration(text: &str) -> Result<Duration, FlagDurationError> {
    let duration: GoDuration = text.parse()?;
    duration.to_std().ok_or_else(|| FlagDurationError::Negative(text.to_owned()))
}

#[cfg(test)]
mod tests;
