//! Kubernetes quantities, for example `512Mi` of memory or `250m` of a core.

use std::{cmp::Ordering, fmt};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

#[cfg(test)]
mod tests;

/// Why a text is not a valid quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text does not have the form of a quantity.
    #[error("{text:?} is not a quantity; write for example 512Mi, 10G, 1.5 or 250m")]
    NotAQuantity {
        /// The text.
        text: String,
    },
    /// The quantity is negative where that is not allowed.
    #[error("the quantity {text:?} must not be negative")]
    Negative {
        /// The text.
        text: String,
    },
    /// The quantity exceeds the range of the requested number.
    #[error("the quantity {text:?} is too large")]
    TooLarge {
        /// The text.
        text: String,
    },
}

/// A quantity in its original spelling.
///
/// Objects may contain it as a string or as a number. It is not validated on deserialization, so that one
/// invalid value does not make a whole list unreadable; [`bytes`](Self::bytes) and [`compare`](Self::compare)
/// validate it. Equality compares the text: `1Gi` and `1024Mi` differ, although [`compare`](Self::compare)
/// returns `Equal`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Quantity(String);

const NANOS: i128 = 1_000_000_000;
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Quantity {
    /// A quantity with this text, without validation.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// A number of bytes, with the largest binary suffix that gives a whole number.
    pub fn from_bytes(bytes: u64) -> Self {
        let mut number = bytes;
        let mut suffix = "";
        for larger in BINARY {
            if number == 0 || !number.is_multiple_of(1024) {
                break;
            }
            number /= 1024;
            suffix = larger;
        }
        Self(format!("{number}{suffix}"))
    }

    /// The original text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The quantity in whole units: for sizes, the number of bytes. Fractions are rounded up, as in
    /// Kubernetes.
    ///
    /// # Errors
    /// [`QuantityError::NotAQuantity`], [`QuantityError::Negative`], and [`QuantityError::TooLarge`] above
    /// 2^64 - 1.
    pub fn bytes(&self) -> Result<u64, QuantityError> {
        let nanos = self.nanos()?;
        if nanos < 0 {
            return Err(QuantityError::Negative { text: self.0.clone() });
        }
        let whole = nanos / NANOS + i128::from(nanos % NANOS != 0);
        u64::try_from(whole).map_err(|_| self.too_large())
    }

    /// Compares the amounts, regardless of their suffixes.
    ///
    /// # Errors
    /// [`QuantityError::NotAQuantity`] and [`QuantityError::TooLarge`] for either of the two.
    pub fn compare(&self, other: &Self) -> Result<Ordering, QuantityError> {
        Ok(self.nanos()?.cmp(&other.nanos()?))
    }

    /// The amount in billionths. Smaller fractions are rounded away from zero, as in Kubernetes.
    ///
    /// # Errors
    /// [`QuantityError::NotAQuantity`] and [`QuantityError::TooLarge`].
    pub fn nanos(&self) -> Result<i128, QuantityError> {
        let malformed = || QuantityError::NotAQuantity { text: self.0.clone() };
        let (negative, unsigned) = match self.0.as_bytes().first() {
            Some(b'-') => (true, &self.0[1..]),
            Some(b'+') => (false, &self.0[1..]),
            _ => (false, self.0.as_str()),
        };
        let number_end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(malformed());
        }
        let (base, exponent) = parse_quantity_suffix(suffix).ok_or_else(malformed)?;
        let digits: String = [whole, fraction].concat();
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return Ok(0);
        }
        let digits: i128 = digits.parse().map_err(|_| self.too_large())?;
        let amount =
            amount_in_nanos(digits, fraction.len(), base, exponent).ok_or_else(|| self.too_large())?;
        Ok(if negative { -amount } else { amount })
    }

    fn too_large(&self) -> QuantityError {
        QuantityError::TooLarge { text: self.0.clone() }
    }
}

/// Base and exponent of a suffix; `None` if the suffix does not exist.
fn parse_quantity_suffix(suffix: &str) -> Option<(i128, i32)> {
    if let Some(at) = BINARY.iter().position(|name| *name == suffix) {
        return Some((1024, i32::try_from(at + 1).ok()?));
    }
    let exponent = match suffix {
        "n" => -9,
        "u" => -6,
        "m" => -3,
        "" => 0,
        "k" => 3,
        "M" => 6,
        "G" => 9,
        "T" => 12,
        "P" => 15,
        "E" => 18,
        // The letter E alone is exa; before digits it starts an exponent.
        _ => suffix.strip_prefix(['e', 'E'])?.parse().ok()?,
    };
    Some((10, exponent))
}

/// `digits` with `places` decimals, times `base ^ exponent`, in billionths; `None` on overflow.
fn amount_in_nanos(digits: i128, places: usize, base: i128, exponent: i32) -> Option<i128> {
    let places = i32::try_from(places).ok()?;
    let (digits, tens) = if base == 10 {
        (digits, exponent.checked_add(9)?.checked_sub(places)?)
    } else {
        (digits.checked_mul(base.checked_pow(u32::try_from(exponent).ok()?)?)?, 9_i32.checked_sub(places)?)
    };
    if tens >= 0 {
        return digits.checked_mul(10_i128.checked_pow(tens.unsigned_abs())?);
    }
    // A divisor beyond the range is greater than the digits, so the result is a fraction of a nano, rounded
    // up to one.
    let Some(divisor) = 10_i128.checked_pow(tens.unsigned_abs()) else { return Some(1) };
    Some(digits / divisor + i128::from(digits % divisor != 0))
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<&str> for Quantity {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Quantity {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity, as text or as a number")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                Ok(Quantity(text.to_owned()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}
