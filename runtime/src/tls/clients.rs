//! The certificate authorities of clients.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::error::TlsError;
use super::pem::parse_certificates;
use super::provider::crypto_provider;

/// The certificate authorities whose client certificates a server accepts. They can be replaced while the
/// server runs. Clones share them.
///
/// A connection without a client certificate is accepted, and its [`Peer`](crate::https::Peer) has no
/// certificate, unless certificates are [required](Self::requiring). A connection with a certificate of
/// another authority is refused. Without authorities, the server does not request client certificates.
#[derive(Clone)]
pub struct ClientCas {
    current: Arc<RwLock<ClientCasSnapshot>>,
    required: bool,
}

/// The authorities at a point in time.
#[derive(Clone)]
pub(crate) struct ClientCasSnapshot {
    /// Increases with every replacement.
    pub(crate) generation: u64,
    pub(crate) verifier: Arc<dyn ClientCertVerifier>,
    pem: Arc<[u8]>,
}

/// A verified client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificate {
    /// The common name of the subject. `None` if there is none or more than one, which would be ambiguous.
    pub common_name: Option<String>,
}

impl ClientCas {
    /// No authorities. The server does not request client certificates.
    pub fn none() -> Self {
        let verifier = WebPkiClientVerifier::no_client_auth();
        let snapshot = ClientCasSnapshot { generation: 0, verifier, pem: Arc::default() };
        Self { current: Arc::new(RwLock::new(snapshot)), required: false }
    }

    /// No authorities. After the first replacement, the handshake fails for clients without a certificate.
    pub fn requiring() -> Self {
        Self { required: true, ..Self::none() }
    }

    /// Replaces the authorities. Returns whether they changed.
    ///
    /// Existing connections are closed gracefully, so that their clients authenticate again. Until then,
    /// certificates of other authorities no longer count on these connections.
    ///
    /// # Errors
    /// [`TlsError`] if the text contains no certificate or an invalid one. The authorities then stay
    /// unchanged.
    pub fn replace(&self, pem: &[u8]) -> Result<bool, TlsError> {
        const CAS: &str = "client CA bundle";
        if *self.current.read().pem == *pem {
            return Ok(false);
        }
        let mut roots = RootCertStore::empty();
        for (index, der) in parse_certificates(CAS, pem)?.into_iter().enumerate() {
            roots.add(der).map_err(|error| TlsError::Certificate {
                what: CAS,
                position: index + 1,
                problem: error.to_string(),
            })?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), crypto_provider());
        let builder = if self.required { builder } else { builder.allow_unauthenticated() };
        let verifier =
            builder.build().map_err(|error| TlsError::Pem { what: CAS, problem: error.to_string() })?;
        let mut snapshot = self.current.write();
        *snapshot = ClientCasSnapshot { generation: snapshot.generation + 1, verifier, pem: pem.into() };
        Ok(true)
    }

    /// Whether there are authorities.
    pub fn is_ready(&self) -> bool {
        self.snapshot().generation > 0
    }

    pub(crate) fn snapshot(&self) -> ClientCasSnapshot {
        self.current.read().clone()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.current.read().generation
    }
}

impl ClientCasSnapshot {
    /// The first certificate of `chain`, if it is valid at `now` and an authority signed it.
    pub(crate) fn verify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Option<PeerCertificate> {
        let (own, others) = chain.split_first()?;
        // Without authorities, the verifier of rustls must not be called.
        if !self.verifier.offer_client_auth() {
            return None;
        }
        self.verifier.verify_client_cert(own, others, now).ok()?;
        Some(PeerCertificate { common_name: common_name(own) })
    }
}

fn common_name(der: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let mut names = certificate.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?.to_owned();
    names.next().is_none().then_some(name)
}

impl fmt::Debug for ClientCas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCas").field("generation", &self.generation()).finish_non_exhaustive()
    }
}
