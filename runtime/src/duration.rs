//! Durations as Go programs write them, such as `15s` or `1m30s`: the notation of Kubernetes' own flags.

use std::time::Duration;

/// The units, longest name first where one begins like another, with their length in nanoseconds.
const UNITS: [(&str, f64); 7] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 6e10), ("h", 3.6e12)];

/// Why a text is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// A number stands without a unit.
    #[error("`{0}` lacks a unit: write for example `{0}s`")]
    NoUnit(String),
    /// The text is something else.
    #[error("`{0}` is not a duration: write for example `15s`, `1m30s` or `500ms`")]
    NotADuration(String),
    /// The duration is longer than can be stored, some 584 years.
    #[error("`{0}` is too long a duration")]
    TooLong(String),
}

/// Reads a duration of Go's notation that is not negative: numbers with units, from hours to nanoseconds, and `0`.
///
/// # Errors
/// [`DurationError`], whose text suits the user of a flag.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let not_a_duration = || DurationError::NotADuration(text.to_owned());
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if text.parse::<u64>().is_ok() {
        return Err(DurationError::NoUnit(text.to_owned()));
    }
    if text.is_empty() {
        return Err(not_a_duration());
    }
    let mut rest = text;
    let mut nanos = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let number: f64 = number.parse().map_err(|_| not_a_duration())?;
        let letters = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let (_, length) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(not_a_duration)?;
        nanos += number * length;
        rest = after;
    }
    Duration::try_from_secs_f64(nanos / 1e9).map_err(|_| DurationError::TooLong(text.to_owned()))
}

#[cfg(test)]
mod tests;
