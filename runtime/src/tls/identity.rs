//! The serving certificate.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::RwLock;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::error::TlsError;
use super::pem::{parse_certificates, private_key};
use super::provider::crypto_provider;

/// The serving certificate and its key. They can be replaced while the server runs. Clones share them.
///
/// Handshakes after a replacement use the new certificate. Existing connections are not affected. Without a
/// certificate, handshakes fail.
#[derive(Clone, Default)]
pub struct ServingIdentity(Arc<RwLock<Option<Served>>>);

struct Served {
    key: Arc<CertifiedKey>,
    expires: Timestamp,
}

impl ServingIdentity {
    /// An identity without a certificate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the certificate for all following handshakes.
    ///
    /// `chain_pem` contains the certificate of the server, followed by the intermediate certificates.
    /// `key_pem` is its private key in PKCS#8, PKCS#1 or SEC1 format.
    ///
    /// # Errors
    /// [`TlsError`] if certificate or key are unusable or do not belong together. The certificate then stays
    /// unchanged.
    pub fn replace(&self, chain_pem: &[u8], key_pem: &[u8]) -> Result<(), TlsError> {
        const CHAIN: &str = "serving certificate";
        let chain = parse_certificates(CHAIN, chain_pem)?;
        let mut expires = Timestamp::MAX;
        for (index, der) in chain.iter().enumerate() {
            let invalid =
                |problem: String| TlsError::Certificate { what: CHAIN, position: index + 1, problem };
            let (_, parsed) = X509Certificate::from_der(der).map_err(|error| invalid(error.to_string()))?;
            let end = Timestamp::from_second(parsed.validity().not_after.timestamp())
                .map_err(|error| invalid(error.to_string()))?;
            // A chain is valid until its first certificate expires.
            expires = expires.min(end);
        }
        let key = private_key("private key", key_pem)?;
        let key = crypto_provider()
            .key_provider
            .load_private_key(key)
            .map_err(|error| TlsError::Key(error.to_string()))?;
        let certified = CertifiedKey::new(chain, key);
        certified.keys_match().map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => TlsError::Mismatch,
            other => TlsError::Key(other.to_string()),
        })?;
        *self.0.write() = Some(Served { key: Arc::new(certified), expires });
        Ok(())
    }

    /// When the chain expires. `None` while there is no certificate.
    pub fn expires(&self) -> Option<Timestamp> {
        self.0.read().as_ref().map(|served| served.expires)
    }

    /// The served certificates.
    #[cfg(test)]
    pub(crate) fn chain(&self) -> Vec<rustls::pki_types::CertificateDer<'static>> {
        self.0.read().as_ref().map_or_else(Vec::new, |served| served.key.cert.clone())
    }

    /// Whether there is a certificate.
    pub fn is_ready(&self) -> bool {
        self.0.read().is_some()
    }
}

impl ResolvesServerCert for ServingIdentity {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().as_ref().map(|shown| Arc::clone(&shown.key))
    }
}

impl fmt::Debug for ServingIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The output must not contain the key.
        f.debug_struct("Identity").field("expires", &self.expires()).finish_non_exhaustive()
    }
}
