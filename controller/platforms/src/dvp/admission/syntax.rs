//! The forms of names in labels and selectors, as Kubernetes defines them.

/// Longest name part of a key, longest value, longest DNS label.
const SHORT: usize = 63;
/// Longest DNS subdomain.
const LONG: usize = 253;

/// A key of a label: a name, with a DNS subdomain and a slash in front or without.
pub(super) fn is_key(text: &str) -> bool {
    match text.split_once('/') {
        None => is_name(text),
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
    }
}

/// A value of a label.
pub(super) fn is_value(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

/// A name of a namespace.
pub(super) fn is_dns_label(text: &str) -> bool {
    text.len() <= SHORT && is_framed(text, |byte| is_lower(byte) || byte == b'-', is_lower)
}

/// A name of a node.
pub(super) fn is_subdomain(text: &str) -> bool {
    text.len() <= LONG
        && text.split('.').all(|part| is_framed(part, |byte| is_lower(byte) || byte == b'-', is_lower))
}

fn is_name(text: &str) -> bool {
    text.len() <= SHORT
        && is_framed(
            text,
            |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'),
            |byte| byte.is_ascii_alphanumeric(),
        )
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Not empty, made of `inner`, and with `edge` at both ends.
fn is_framed(text: &str, inner: impl Fn(u8) -> bool, edge: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    edge(*first) && edge(*last) && bytes.iter().all(|byte| inner(*byte))
}
