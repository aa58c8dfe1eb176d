//! Durations of knobs and flags: Go's notation, and `never`.

use std::{fmt, str::FromStr, time::Duration};

/// A delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// A limited delay.
    After(Duration),
    /// Unlimited: until the knob is changed or removed.
    Never,
}

/// Why a text is not a [`Delay`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DelayError {
    /// Neither a sequence of numbers with units nor `never`.
    #[error("{0:?} is not a duration such as \"200ms\", \"1m30s\" or \"never\"")]
    NotADuration(String),
    /// More than a century, which is likely a typing error.
    #[error("{0:?} is longer than a hundred years; write \"never\" for that")]
    TooLong(String),
}

const LONGEST: Duration = Duration::from_hours(100 * 365 * 24);

impl Delay {
    /// No delay.
    pub const NONE: Self = Self::After(Duration::ZERO);

    /// The shorter of a delay and a bound; `never` for [`Delay::Never`].
    #[must_use]
    pub fn at_most(self, bound: Duration) -> Self {
        match self {
            Self::After(delay) => Self::After(delay.min(bound)),
            Self::Never => Self::Never,
        }
    }
}

impl FromStr for Delay {
    type Err = DelayError;

    /// Parses `never` or a Go duration.
    ///
    /// # Errors
    /// [`DelayError`] when the text is neither.
    fn from_str(text: &str) -> Result<Self, DelayError> {
        let trimmed = text.trim();
        if trimmed == "never" {
            return Ok(Self::Never);
        }
        parse_go_duration(trimmed).map(Self::After)
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(delay) => write!(f, "{delay:?}"),
            Self::Never => f.write_str("never"),
        }
    }
}

/// Parses a non-negative duration in Go's notation: numbers, each with one of the units `ns`, `us`, `ms`,
/// `s`, `m`, `h`, or a plain `0`.
///
/// # Errors
/// [`DelayError`] for anything else, a sign included.
pub fn parse_go_duration(text: &str) -> Result<Duration, DelayError> {
    let wrong = || DelayError::NotADuration(text.to_owned());
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = 0.0_f64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(digits);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        total += number.parse::<f64>().map_err(|_| wrong())? * seconds;
        rest = tail;
    }
    if text.is_empty() {
        return Err(wrong());
    }
    match Duration::try_from_secs_f64(total) {
        Ok(duration) if duration <= LONGEST => Ok(duration),
        _ => Err(DelayError::TooLong(text.to_owned())),
    }
}

#[cfg(test)]
mod tests;
