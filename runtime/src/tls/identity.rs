//! The certificate that a server shows.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::RwLock;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::{TlsError, certificates, private_key, provider};

/// The certificate and key that a server shows, replaced while it serves. Clones share them.
///
/// Connections that exist keep the certificate that they began with; every handshake after a replacement uses the new
/// one. Without a certificate, handshakes fail.
#[derive(Clone, Default)]
pub struct Identity(Arc<RwLock<Option<Shown>>>);

struct Shown {
    key: Arc<CertifiedKey>,
    expires: Timestamp,
}

impl Identity {
    /// An identity without a certificate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows this certificate from the next handshake on.
    ///
    /// `chain_pem` begins with the server's own certificate, and those that signed it follow; `key_pem` is its private
    /// key, PKCS#8, PKCS#1 or SEC1.
    ///
    /// # Errors
    /// [`TlsError`] if they are unusable or do not belong together. What was shown before stays.
    pub fn replace(&self, chain_pem: &[u8], key_pem: &[u8]) -> Result<(), TlsError> {
        const CHAIN: &str = "serving certificate";
        let chain = certificates(CHAIN, chain_pem)?;
        let mut expires = Timestamp::MAX;
        for (index, der) in chain.iter().enumerate() {
            let invalid =
                |problem: String| TlsError::Certificate { what: CHAIN, position: index + 1, problem };
            let (_, parsed) = X509Certificate::from_der(der).map_err(|error| invalid(error.to_string()))?;
            let end = Timestamp::from_second(parsed.validity().not_after.timestamp())
                .map_err(|error| invalid(error.to_string()))?;
            // A chain is as good as its first part that ends.
            expires = expires.min(end);
        }
        let key = private_key("private key", key_pem)?;
        let key = provider()
            .key_provider
            .load_private_key(key)
            .map_err(|error| TlsError::Key(error.to_string()))?;
        let certified = CertifiedKey::new(chain, key);
        certified.keys_match().map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => TlsError::Mismatch,
            other => TlsError::Key(other.to_string()),
        })?;
        *self.0.write() = Some(Shown { key: Arc::new(certified), expires });
        Ok(())
    }

    /// When the certificate, or the first of its chain, ends; nothing while there is none.
    pub fn expires(&self) -> Option<Timestamp> {
        self.0.read().as_ref().map(|shown| shown.expires)
    }

    /// The certificates that are shown.
    #[cfg(test)]
    pub(crate) fn chain(&self) -> Vec<rustls::pki_types::CertificateDer<'static>> {
        self.0.read().as_ref().map_or_else(Vec::new, |shown| shown.key.cert.clone())
    }

    /// Whether there is a certificate to show.
    pub fn is_ready(&self) -> bool {
        self.0.read().is_some()
    }
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().as_ref().map(|shown| Arc::clone(&shown.key))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is nobody's business.
        f.debug_struct("Identity").field("expires", &self.expires()).finish_non_exhaustive()
    }
}
