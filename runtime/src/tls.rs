//! What a TLS server is by: its own certificate and the authorities of its clients, both replaced while it serves.
//!
//! rustls with ring is the only stack. Nothing here reads files or waits but [`ClientCas::follow`]:
//! [`crate::certificates`] brings the bytes.

mod clients;
mod follow;
mod identity;
mod pem;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

pub(crate) use clients::Snapshot;
pub use clients::{ClientCas, PeerCertificate};
pub use identity::Identity;
pub(crate) use pem::{certificates, private_key};

/// Why bytes are no use as a certificate, a key or a set of authorities.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// The text is no PEM, or PEM that is broken.
    #[error("the {what} cannot be read as PEM: {problem}")]
    Pem {
        /// Which of the texts.
        what: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The PEM has no section of the wanted kind.
    #[error("the {what} has no `-----BEGIN {label}-----` section")]
    Missing {
        /// Which of the texts.
        what: &'static str,
        /// The kind of section.
        label: &'static str,
    },
    /// A section of the right kind holds something that is no certificate.
    #[error("certificate {position} of the {what} is not an X.509 certificate: {problem}")]
    Certificate {
        /// Which of the texts.
        what: &'static str,
        /// Which section, from 1.
        position: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The key is of a kind that the TLS stack cannot sign with.
    #[error("the private key cannot be used: {0}")]
    Key(String),
    /// The key belongs to another certificate.
    #[error("the private key does not belong to the certificate")]
    Mismatch,
}

/// The only cryptography of this process. Naming it at each use keeps the process-wide default out of it.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

#[cfg(test)]
pub(crate) mod pki;
#[cfg(test)]
mod tests;
