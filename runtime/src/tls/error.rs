//! Errors of certificates and keys.

/// Why certificates, a key or certificate authorities are unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// The text is not valid PEM.
    #[error("the {what} is not valid PEM: {problem}")]
    Pem {
        /// Which text.
        what: &'static str,
        /// The reason.
        problem: String,
    },
    /// The PEM has no section of the required kind.
    #[error("the {what} has no `-----BEGIN {label}-----` section")]
    Missing {
        /// Which text.
        what: &'static str,
        /// The kind of section.
        label: &'static str,
    },
    /// A section is not a valid certificate.
    #[error("certificate {position} of the {what} is not a valid X.509 certificate: {problem}")]
    Certificate {
        /// Which text.
        what: &'static str,
        /// The number of the section, from 1.
        position: usize,
        /// The reason.
        problem: String,
    },
    /// The TLS library does not support the key.
    #[error("the private key is unusable: {0}")]
    Key(String),
    /// The key does not belong to the certificate.
    #[error("the private key does not belong to the certificate")]
    Mismatch,
}
