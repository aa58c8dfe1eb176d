//! Quantities as Kubernetes writes them.

use vmpool_api::Quantity;

/// Billionths in one unit.
const NANOS: i128 = 1_000_000_000;

/// The factors of the binary suffixes are powers of it.
const KIBI: i128 = 1024;

/// The suffixes of binary quantities, each 1024 times the one before.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The suffixes of decimal quantities from billionths on, each 1000 times the one before.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// Which suffixes a quantity has. A quantity keeps its notation when it is written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notation {
    /// `Ki` and larger ones.
    Binary,
    /// `k` and larger ones, `m` and smaller ones, or none.
    Decimal,
    /// `e3` and others.
    Exponent,
}

impl Notation {
    fn of(text: &str) -> Self {
        let has_exponent = text.rsplit_once(['e', 'E']).is_some_and(|(_, digits)| !digits.is_empty());
        match (text.ends_with('i'), has_exponent) {
            (true, _) => Self::Binary,
            (false, true) => Self::Exponent,
            (false, false) => Self::Decimal,
        }
    }

    fn write(self, nanos: i128) -> String {
        match self {
            // A binary suffix cannot stand for a fraction, and Kubernetes writes none for less than 1 Ki.
            Self::Binary if nanos % NANOS == 0 && (nanos / NANOS).abs() >= KIBI => {
                let (number, steps) = remove_factor(nanos / NANOS, KIBI, BINARY.len() - 1);
                format!("{number}{}", BINARY[steps])
            }
            Self::Binary | Self::Decimal => {
                let (number, steps) = remove_factor(nanos, 1000, DECIMAL.len() - 1);
                if number == 0 { "0".to_owned() } else { format!("{number}{}", DECIMAL[steps]) }
            }
            Self::Exponent => {
                let (number, steps) = remove_factor(nanos, 1000, usize::MAX);
                match i64::try_from(steps).unwrap_or(i64::MAX).saturating_mul(3).saturating_sub(9) {
                    _ if number == 0 => "0".to_owned(),
                    0 => number.to_string(),
                    exponent => format!("{number}e{exponent}"),
                }
            }
        }
    }
}

/// Divides a number by a factor as often as nothing remains, and at most so many times. Zero is not divided.
fn remove_factor(number: i128, factor: i128, most: usize) -> (i128, usize) {
    let (mut number, mut steps) = (number, 0);
    while number != 0 && number % factor == 0 && steps < most {
        number /= factor;
        steps += 1;
    }
    (number, steps)
}

/// The text that Kubernetes writes for a quantity: `2048Mi` becomes `2Gi`, and `0.1` becomes `100m`. A text
/// that is no quantity stays as it is.
pub fn canonical_text(text: &str) -> String {
    Quantity::new(text).nanos().map_or_else(|_| text.to_owned(), |nanos| Notation::of(text).write(nanos))
}

/// A number of units in the notation of another quantity.
pub(super) fn units_like(text: &str, units: u64) -> String {
    Notation::of(text).write(i128::from(units) * NANOS)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::the_largest_suffix("2048Mi", "2Gi")]
    #[case::a_binary_fraction("1.5Gi", "1536Mi")]
    #[case::not_divisible("3000Mi", "3000Mi")]
    #[case::less_than_one_kibi("0.5Ki", "512")]
    #[case::a_fraction_of_a_byte("0.0001Ki", "102400u")]
    #[case::plain_bytes("1048576", "1048576")]
    #[case::thousands("2000", "2k")]
    #[case::a_decimal_fraction("1.5", "1500m")]
    #[case::a_tenth("0.1", "100m")]
    #[case::milli("1500m", "1500m")]
    #[case::whole_milli("2000m", "2")]
    #[case::exa("3E", "3E")]
    #[case::beyond_exa("3000E", "3000E")]
    #[case::an_exponent("12e5", "1200e3")]
    #[case::no_exponent_is_left("1e0", "1")]
    #[case::zero("0Gi", "0")]
    #[case::zero_with_an_exponent("0e3", "0")]
    #[case::negative("-2048Mi", "-2Gi")]
    #[case::no_quantity("much", "much")]
    fn a_quantity_is_written_as_kubernetes_writes_it(#[case] text: &str, #[case] canonical: &str) {
        assert_eq!(canonical_text(text), canonical);
        assert_eq!(canonical_text(canonical), canonical);
    }
}
