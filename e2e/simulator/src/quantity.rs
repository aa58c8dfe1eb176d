//! The Kubernetes quantities that the simulator compares or computes with.

/// Parses a size such as `10Gi`, `512M` or `1073741824`. Unit of the result: bytes, rounded up.
///
/// Returns `None` for anything that is not a positive size.
///
/// Source: Kubernetes documentation, "Quantity".
pub fn parse_bytes(quantity: &str) -> Option<u128> {
    let text = quantity.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    let factor: f64 = match suffix {
        "" => 1.0,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1024_f64.powi(2),
        "Gi" => 1024_f64.powi(3),
        "Ti" => 1024_f64.powi(4),
        "Pi" => 1024_f64.powi(5),
        "Ei" => 1024_f64.powi(6),
        exponent => format!("1{exponent}").parse().ok()?,
    };
    let size = (number.parse::<f64>().ok()? * factor).ceil();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be positive; a float that large saturates"
    )]
    (size >= 1.0).then_some(size as u128)
}

/// The CPU request of a machine: cores times the guaranteed fraction. Unit of the result: thousandths of a
/// core.
///
/// A missing fraction or `Auto` guarantees whole cores.
pub fn cpu_request_millis(cores: i64, fraction: Option<&str>) -> i64 {
    let percent = fraction
        .and_then(|text| text.strip_suffix('%'))
        .and_then(|text| text.parse::<i64>().ok())
        .filter(|percent| (1..=100).contains(percent))
        .unwrap_or(100);
    (cores.saturating_mul(percent).saturating_mul(10)).max(1)
}

#[cfg(test)]
mod tests;
