//! The forms of object names, as Kubernetes defines them.
//!
//! Source: Kubernetes documentation, "Object Names and IDs".

#[cfg(test)]
mod tests;

/// Maximum length of a DNS label, in bytes.
const LABEL_LENGTH: usize = 63;
/// Maximum length of a DNS subdomain, in bytes.
const SUBDOMAIN_LENGTH: usize = 253;

/// Whether a text is a DNS label (RFC 1123), such as the name of a namespace: up to 63 lowercase letters,
/// digits and hyphens, with a letter or digit at both ends.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= LABEL_LENGTH && has_label_characters(text)
}

/// Whether a text is a DNS subdomain (RFC 1123), such as the name of a pool or a machine: up to 253
/// characters, and dots between parts of the characters of a DNS label.
pub fn is_dns_subdomain(text: &str) -> bool {
    // Kubernetes does not limit the length of the parts.
    text.len() <= SUBDOMAIN_LENGTH && text.split('.').all(has_label_characters)
}

fn has_label_characters(text: &str) -> bool {
    let is_edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(is_edge)
        && bytes.last().is_some_and(is_edge)
        && bytes.iter().all(|byte| is_edge(byte) || *byte == b'-')
}
