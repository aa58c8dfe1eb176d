//! The certificates of a TLS server: its own, and the certificate authorities of its clients. Both can be
//! replaced while the server runs.
//!
//! The only TLS library is rustls with ring. Except for [`ClientCas::follow`], this module reads no files:
//! [`crate::certificates`] provides the bytes.

mod clients;
mod error;
mod follow;
mod identity;
mod pem;
mod provider;

pub(crate) use clients::ClientCasSnapshot;
pub use clients::{ClientCas, PeerCertificate};
pub use error::TlsError;
pub use identity::ServingIdentity;
pub(crate) use pem::parse_certificates;
pub(crate) use provider::crypto_provider;

#[cfg(test)]
pub(crate) mod pki;
#[cfg(test)]
mod tests;
