//! Amounts of memory without a unit. In the API, `512` means 512 bytes, with which no guest starts.

use vmpool_api::Quantity;

/// Bytes that every guest needs. A smaller amount lacks its unit.
const LEAST_BYTES: u64 = 1 << 20;

/// The text of a warning about an amount that lacks its unit.
pub fn missing_unit_text(size: &Quantity) -> Option<String> {
    let bytes = size.bytes().ok().filter(|bytes| (1..LEAST_BYTES).contains(bytes))?;
    Some(format!("{bytes} bytes are less than 1Mi, so no guest starts; add the unit, for example 512Mi"))
}
