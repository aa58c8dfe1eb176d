//! Amounts of memory and CPU: the text as it was written, and the amount that it stands for.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;
use vmpool_api::{Quantity, QuantityError};

mod canonical;
#[cfg(test)]
mod tests;

pub use canonical::canonical_text;

/// A valid amount, mostly of memory, that keeps its spelling: `2048Mi` does not become `2Gi`.
///
/// Amounts are compared with [`compare`](Self::compare). There is no `PartialEq`, because two spellings of
/// one amount are equal in some places and different in others.
#[derive(Debug, Clone)]
pub struct Amount {
    quantity: Quantity,
    /// Bytes, or CPUs, rounded up to a whole number. `None` for a negative amount.
    bytes: Option<u64>,
}

impl Amount {
    /// The amount zero.
    pub fn zero() -> Self {
        Self { quantity: Quantity::new("0"), bytes: Some(0) }
    }

    /// Reads an amount from its text, such as `2Gi`.
    ///
    /// # Errors
    /// [`QuantityError::NotAQuantity`], and [`QuantityError::TooLarge`] above 2^64 - 1 bytes. A negative
    /// amount is read, so that validation can report it with its field.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let quantity = Quantity::new(text);
        // The comparison parses negative amounts to the end, too.
        quantity.compare(&quantity)?;
        let bytes = match quantity.bytes() {
            Ok(bytes) => Some(bytes),
            Err(QuantityError::Negative { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(Self { quantity, bytes })
    }

    /// Reads an amount from JSON, where it is a string or a whole number. `None` if it is neither, or not an
    /// amount.
    pub fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text).ok(),
            Value::Number(number) if !number.is_f64() => Self::parse(&number.to_string()).ok(),
            _ => None,
        }
    }

    /// The text of the amount.
    pub fn as_str(&self) -> &str {
        self.quantity.as_str()
    }

    /// Compares the amounts, regardless of their spelling.
    #[expect(clippy::missing_panics_doc, reason = "an amount is parsed when it is made, so this cannot fail")]
    pub fn compare(&self, other: &Self) -> Ordering {
        self.quantity.compare(&other.quantity).expect("amounts are parsed before they are stored")
    }

    /// Whether the amount is greater than zero.
    pub fn is_positive(&self) -> bool {
        self.compare(&Self::zero()) == Ordering::Greater
    }

    /// The amount in whole units, rounded up, at most 2^32 - 1: for CPUs, their number. A negative amount is
    /// zero.
    pub fn whole(&self) -> u32 {
        u32::try_from(self.bytes.unwrap_or(0)).unwrap_or(u32::MAX)
    }

    /// What remains of the amount, in whole bytes, if it is lowered by a percentage. The result is rounded
    /// down.
    ///
    /// The calculation uses integers. KubeVirt uses single-precision floating point, so its result differs by
    /// up to 2^-23 of the value: see [`Self::lowered_in_single_precision`].
    #[must_use]
    pub fn lowered_by(&self, percent: u8) -> Self {
        let remaining = u64::from(100_u8.saturating_sub(percent));
        let bytes = self.bytes.unwrap_or(0);
        // Hundreds and their rest separately, so that no product exceeds the range.
        let bytes = bytes / 100 * remaining + bytes % 100 * remaining / 100;
        Self { quantity: Quantity::new(format_decimal_quantity(bytes)), bytes: Some(bytes) }
    }

    /// As [`Self::lowered_by`], with the arithmetic of KubeVirt, and in the notation that the amount has.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "KubeVirt rounds at the same places, and the factor is between 0 and 1"
    )]
    pub fn lowered_in_single_precision(&self, percent: u8) -> Self {
        let remaining = 1.0 - f32::from(percent.min(100)) / 100.0;
        let bytes = (self.bytes.unwrap_or(0) as f32 * remaining) as u64;
        Self { quantity: Quantity::new(canonical::units_like(self.as_str(), bytes)), bytes: Some(bytes) }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl From<&Amount> for Value {
    fn from(amount: &Amount) -> Self {
        Self::String(amount.as_str().to_owned())
    }
}

/// A number as Kubernetes writes a decimal quantity, so that no decoder changes its spelling.
fn format_decimal_quantity(mut number: u64) -> String {
    let mut suffix = "";
    for larger in ["k", "M", "G", "T", "P", "E"] {
        if number == 0 || !number.is_multiple_of(1000) {
            break;
        }
        number /= 1000;
        suffix = larger;
    }
    format!("{number}{suffix}")
}
