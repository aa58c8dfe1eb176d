//! The syntax of keys and values of labels in Kubernetes.

use vmpool_api::names::is_dns_subdomain;

/// Maximum length of the name part of a key, and of a value, in bytes.
const LONGEST: usize = 63;

/// What a key can be, for error messages.
pub const KEYS: &str =
    "use at most 63 letters, digits, '-', '_' and '.', with a DNS name and a slash in front if you like";
/// What a value can be, for error messages.
pub const VALUES: &str =
    "use at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends";

/// Whether `text` is a key of a label: a name with an optional prefix, which is a DNS subdomain and a slash.
pub fn is_key(text: &str) -> bool {
    match text.split_once('/') {
        None => is_name(text),
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_name(name),
    }
}

/// Whether `text` is a value of a label.
pub fn is_value(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    text.len() <= LONGEST
        && first.is_ascii_alphanumeric()
        && last.is_ascii_alphanumeric()
        && bytes.iter().all(inner)
}
