//! A number or percentage of a pool's machines, for example `3` or `25%`.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(test)]
mod tests;

/// Why a value is not a valid share of a pool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShareError {
    /// Neither a number nor a percentage.
    #[error("{text} is neither a number of machines nor a percentage; write for example 3 or 25%")]
    NotAShare {
        /// The value as JSON.
        text: String,
    },
    /// Less than one machine or one percent.
    #[error("{text} is less than one machine; write 1 or more, or a percentage from 1%")]
    TooSmall {
        /// The value as JSON.
        text: String,
    },
    /// More than all machines.
    #[error("{text} is more than all machines; write at most 100%")]
    TooLarge {
        /// The value as JSON.
        text: String,
    },
}

/// A share of a pool's machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// A number of machines, from 1.
    Machines(u32),
    /// A percentage of the machines, from 1 to 100.
    Percent(u8),
}

impl Share {
    /// Parses a share from a field, where a number is a JSON number and a percentage is a string.
    ///
    /// # Errors
    /// [`ShareError`]; also for a number as a string, which the schema refuses.
    pub fn from_json(value: &Value) -> Result<Self, ShareError> {
        match value {
            Value::Number(number) => {
                let text = || number.to_string();
                match number.as_i64() {
                    Some(count) if count < 1 => Err(ShareError::TooSmall { text: text() }),
                    // A number beyond the range is larger than any pool, so it means all machines.
                    Some(count) => Ok(Self::Machines(u32::try_from(count).unwrap_or(u32::MAX))),
                    None if number.is_u64() => Ok(Self::Machines(u32::MAX)),
                    None => Err(ShareError::NotAShare { text: text() }),
                }
            }
            Value::String(text) if text.ends_with('%') => text.parse(),
            other => Err(ShareError::NotAShare { text: truncated_json(other) }),
        }
    }
}

/// Parses a share from an annotation, where both forms are strings.
impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        let quoted = || truncated_json(&Value::from(text));
        let digits = text.strip_suffix('%').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(ShareError::NotAShare { text: quoted() });
        }
        if digits.bytes().all(|digit| digit == b'0') {
            return Err(ShareError::TooSmall { text: quoted() });
        }
        // The schema accepts no leading zeroes.
        if digits.starts_with('0') {
            return Err(ShareError::NotAShare { text: quoted() });
        }
        if digits.len() == text.len() {
            return Ok(Self::Machines(digits.parse().unwrap_or(u32::MAX)));
        }
        match digits.parse() {
            Ok(percent) if percent <= 100 => Ok(Self::Percent(percent)),
            _ => Err(ShareError::TooLarge { text: quoted() }),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machines(machines) => write!(f, "{machines}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// JSON on one line, truncated for use in messages.
fn truncated_json(value: &Value) -> String {
    const LONGEST: usize = 40;
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// A number or a string, in its original form.
///
/// It is not validated on deserialization, so that one invalid value does not make a whole list unreadable;
/// [`share`](Self::share) validates it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IntOrPercent(Value);

impl IntOrPercent {
    /// The value as a share.
    ///
    /// # Errors
    /// [`ShareError`].
    pub fn share(&self) -> Result<Share, ShareError> {
        Share::from_json(&self.0)
    }

    /// The value as JSON, for fields whose percentages have another range.
    pub fn as_json(&self) -> &Value {
        &self.0
    }
}

impl From<Share> for IntOrPercent {
    fn from(share: Share) -> Self {
        Self(match share {
            Share::Machines(machines) => Value::from(machines),
            Share::Percent(_) => Value::from(share.to_string()),
        })
    }
}
