//! Durations in the format of Kubernetes objects, for example `1h30m`.

use std::{fmt, fmt::Write as _, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[cfg(test)]
mod tests;

/// Why a text is not a valid duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text is empty.
    #[error("a duration must not be empty; write for example 30m")]
    Empty,
    /// A number is missing.
    #[error("{text:?} is not a duration: {at:?} should begin with a number; write for example 1h30m")]
    NoNumber {
        /// The whole text.
        text: String,
        /// The part that could not be parsed.
        at: String,
    },
    /// A number has no unit.
    #[error("{text:?} is not a duration: {number} has no unit; units are ns, us, ms, s, m and h")]
    NoUnit {
        /// The whole text.
        text: String,
        /// The number without a unit.
        number: String,
    },
    /// The unit is unknown.
    #[error("{text:?} is not a duration: {unit:?} is no unit; units are ns, us, ms, s, m and h")]
    UnknownUnit {
        /// The whole text.
        text: String,
        /// The unknown unit.
        unit: String,
    },
    /// The duration is longer than about 292 years.
    #[error("the duration {text:?} is longer than 292 years")]
    TooLong {
        /// The whole text.
        text: String,
    },
    /// The duration is zero or negative where it must be positive.
    #[error("the duration {text:?} must be longer than zero")]
    NotPositive {
        /// The whole text.
        text: String,
    },
}

/// A duration with the text format of Go's `time.Duration`, which Kubernetes uses in objects.
///
/// Stored in nanoseconds, from -2^63 + 1 to 2^63 - 1, about 292 years in either direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GoDuration {
    nanos: i64,
}

const SECOND: i64 = 1_000_000_000;
const UNITS: [(&str, i64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    // Two characters look like mu: the micro sign U+00B5 and the Greek letter U+03BC. Go accepts both.
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3600 * SECOND),
];

impl GoDuration {
    /// A duration in nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self { nanos }
    }

    /// The duration in nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.nanos
    }

    /// The duration as [`Duration`]; `None` if it is negative.
    pub fn to_std(self) -> Option<Duration> {
        u64::try_from(self.nanos).ok().map(Duration::from_nanos)
    }

    /// Parses a duration that must be longer than zero, such as the `ttl` of free disks.
    ///
    /// # Errors
    /// [`DurationError::NotPositive`] for zero and negative durations, and all errors of
    /// [`GoDuration::from_str`].
    pub fn parse_positive(text: &str) -> Result<Self, DurationError> {
        let duration: Self = text.parse()?;
        if duration.nanos > 0 {
            Ok(duration)
        } else {
            Err(DurationError::NotPositive { text: text.to_owned() })
        }
    }
}

impl TryFrom<Duration> for GoDuration {
    type Error = DurationError;

    fn try_from(duration: Duration) -> Result<Self, DurationError> {
        i64::try_from(duration.as_nanos())
            .map(Self::from_nanos)
            .map_err(|_| DurationError::TooLong { text: format!("{duration:?}") })
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    /// Parses `[-+](number unit)+`, for example `1h30m`, `90s`, `1.5h`, `-300ms`; also `0` without a unit.
    ///
    /// Fractions of a nanosecond are truncated, as in Go.
    fn from_str(text: &str) -> Result<Self, DurationError> {
        let (negative, mut rest) = match text.as_bytes().first() {
            None => return Err(DurationError::Empty),
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            Some(_) => (false, text),
        };
        if rest == "0" {
            return Ok(Self::default());
        }
        if rest.is_empty() {
            return Err(DurationError::NoNumber { text: text.to_owned(), at: String::new() });
        }
        let too_long = || DurationError::TooLong { text: text.to_owned() };
        let mut nanos: i64 = 0;
        while !rest.is_empty() {
            let (number, after) = split_where(rest, |letter| !letter.is_ascii_digit() && letter != '.');
            let (unit, after) = split_where(after, |letter| letter.is_ascii_digit() || letter == '.');
            let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
            if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
                return Err(DurationError::NoNumber { text: text.to_owned(), at: rest.to_owned() });
            }
            if unit.is_empty() {
                return Err(DurationError::NoUnit { text: text.to_owned(), number: number.to_owned() });
            }
            let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
                return Err(DurationError::UnknownUnit { text: text.to_owned(), unit: unit.to_owned() });
            };
            let part = decimal_to_nanos(whole, fraction, *scale).ok_or_else(too_long)?;
            nanos = nanos.checked_add(part).ok_or_else(too_long)?;
            rest = after;
        }
        Ok(Self { nanos: if negative { -nanos } else { nanos } })
    }
}

/// Splits a text before the first character for which `ends` returns true.
fn split_where(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

/// `whole.fraction` times `scale` in whole nanoseconds; `None` on overflow.
fn decimal_to_nanos(whole: &str, fraction: &str, scale: i64) -> Option<i64> {
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // The largest unit is 3.6 * 10^12 ns, so a digit after the 15th place is worth less than a nanosecond.
    let digits = &fraction[..fraction.len().min(15)];
    let mut part: i128 = 0;
    let mut divisor: i128 = 1;
    for digit in digits.bytes() {
        part = part * 10 + i128::from(digit - b'0');
        divisor *= 10;
    }
    let part = i64::try_from(part * i128::from(scale) / divisor).ok()?;
    whole.checked_mul(scale)?.checked_add(part)
}

impl fmt::Display for GoDuration {
    /// Writes the canonical form, as Go does: `1h30m0s`, `1.5s`, `300ms`, `0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.nanos.unsigned_abs();
        let mut text = String::new();
        if self.nanos < 0 {
            text.push('-');
        }
        let second = SECOND.unsigned_abs();
        if size < second {
            match size {
                0 => text.push_str("0s"),
                1..1_000 => text.push_str(&format_decimal_with_unit(size, 1, "ns")),
                1_000..1_000_000 => text.push_str(&format_decimal_with_unit(size, 1_000, "\u{b5}s")),
                _ => text.push_str(&format_decimal_with_unit(size, 1_000_000, "ms")),
            }
            return f.pad(&text);
        }
        let minutes = size / (60 * second);
        if minutes >= 60 {
            write!(text, "{}h", minutes / 60)?;
        }
        if minutes > 0 {
            write!(text, "{}m", minutes % 60)?;
        }
        text.push_str(&format_decimal_with_unit(size % (60 * second), second, "s"));
        f.pad(&text)
    }
}

/// `value / scale` with as many decimals as necessary, and a unit.
fn format_decimal_with_unit(value: u64, scale: u64, unit: &str) -> String {
    let rest = value % scale;
    if rest == 0 {
        return format!("{}{unit}", value / scale);
    }
    let width = scale.ilog10() as usize;
    let digits = format!("{rest:0width$}");
    format!("{}.{}{unit}", value / scale, digits.trim_end_matches('0'))
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
