//! The authorities that client certificates are verified against.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::{TlsError, certificates, provider};

/// The authorities whose client certificates are accepted, replaced while a server uses them. Clones share them.
///
/// A connection without a client certificate is accepted and marked as such, unless certificates are
/// [demanded](Self::demanding); one with a certificate that none of the authorities vouches for is refused. Without
/// authorities, clients are not asked for certificates.
#[derive(Clone)]
pub struct ClientCas {
    current: Arc<RwLock<Snapshot>>,
    demanded: bool,
}

/// The authorities at one moment.
#[derive(Clone)]
pub(crate) struct Snapshot {
    /// Grows with every replacement.
    pub(crate) generation: u64,
    pub(crate) verifier: Arc<dyn ClientCertVerifier>,
    pem: Arc<[u8]>,
}

/// A client certificate that was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificate {
    /// The common name of its subject; nothing if it has none, or more than one, which could be read in several ways.
    pub common_name: Option<String>,
}

impl ClientCas {
    /// No authorities: nobody is asked for a certificate.
    pub fn none() -> Self {
        let verifier = WebPkiClientVerifier::no_client_auth();
        let snapshot = Snapshot { generation: 0, verifier, pem: Arc::default() };
        Self { current: Arc::new(RwLock::new(snapshot)), demanded: false }
    }

    /// No authorities. Once there are some, the handshake fails for a client that shows no certificate.
    pub fn demanding() -> Self {
        Self { demanded: true, ..Self::none() }
    }

    /// Accepts the clients of these authorities, and of no others, from now on. Returns whether that changed anything.
    ///
    /// Connections that began before are asked to end in order, so that their clients identify themselves anew; on
    /// them, a certificate that the new authorities do not vouch for counts as none.
    ///
    /// # Errors
    /// [`TlsError`] if the text holds no certificate or a broken one. What was there before stays.
    pub fn replace(&self, pem: &[u8]) -> Result<bool, TlsError> {
        const CAS: &str = "client CA bundle";
        if *self.current.read().pem == *pem {
            return Ok(false);
        }
        let mut roots = RootCertStore::empty();
        for (index, der) in certificates(CAS, pem)?.into_iter().enumerate() {
            roots.add(der).map_err(|error| TlsError::Certificate {
                what: CAS,
                position: index + 1,
                problem: error.to_string(),
            })?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
        let builder = if self.demanded { builder } else { builder.allow_unauthenticated() };
        let verifier =
            builder.build().map_err(|error| TlsError::Pem { what: CAS, problem: error.to_string() })?;
        let mut snapshot = self.current.write();
        *snapshot = Snapshot { generation: snapshot.generation + 1, verifier, pem: pem.into() };
        Ok(true)
    }

    /// Whether there are authorities.
    pub fn is_ready(&self) -> bool {
        self.snapshot().generation > 0
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.current.read().clone()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.current.read().generation
    }
}

impl Snapshot {
    /// What the certificate at the head of `chain` says, if the authorities vouch for it at `now`.
    pub(crate) fn verify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Option<PeerCertificate> {
        let (own, others) = chain.split_first()?;
        // Without authorities rustls has a verifier that may not be asked.
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
