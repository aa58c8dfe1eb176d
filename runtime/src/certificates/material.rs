//! The certificates and keys in a Secret, as far as they are valid and belong together.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use rcgen::{KeyPair, PublicKeyData as _};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::error::X509Error;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::tls::{ServingIdentity, TlsError, crypto_provider, parse_certificates};

/// Keys of the data of the Secret. The first two belong to the type `kubernetes.io/tls`.
pub(super) const TLS_CRT: &str = "tls.crt";
pub(super) const TLS_KEY: &str = "tls.key";
/// The bundle of authorities for clients.
pub(super) const CA_CRT: &str = "ca.crt";
/// The key of the authority that signs new certificates.
pub(super) const CA_KEY: &str = "ca.key";

/// A parsed certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Certificate {
    pub(super) der: CertificateDer<'static>,
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
    /// The DNS names and IP addresses.
    pub(super) names: Vec<String>,
    public_key: Vec<u8>,
}

/// The valid part of a Secret.
#[derive(Debug, Default)]
pub(super) struct Material {
    /// The authorities of the bundle.
    pub(super) bundle: Vec<Certificate>,
    /// The authority whose key is available, as index in the bundle.
    pub(super) signer: Option<(usize, KeyPair)>,
    /// The serving certificate, if its key is available.
    pub(super) serving: Option<Certificate>,
    /// The authority that signed the serving certificate, as index in the bundle.
    pub(super) issuer: Option<usize>,
    /// The problems of the invalid parts.
    pub(super) problems: Vec<String>,
}

/// Why a certificate cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum CertificateParseError {
    /// The PEM text around the certificate is invalid.
    #[error(transparent)]
    Pem(#[from] TlsError),
    /// The bytes are not an X.509 certificate.
    #[error(transparent)]
    Der(#[from] x509_parser::nom::Err<X509Error>),
    /// The extension with the names is invalid.
    #[error(transparent)]
    Names(#[from] X509Error),
    /// The validity is outside the range of timestamps.
    #[error(transparent)]
    Validity(#[from] jiff::Error),
}

impl Certificate {
    /// Parses a certificate.
    ///
    /// # Errors
    /// [`CertificateParseError`].
    pub(super) fn new(der: CertificateDer<'static>) -> Result<Self, CertificateParseError> {
        let (_, parsed) = X509Certificate::from_der(&der)?;
        let not_before = Timestamp::from_second(parsed.validity().not_before.timestamp())?;
        let not_after = Timestamp::from_second(parsed.validity().not_after.timestamp())?;
        let names = parsed.subject_alternative_name()?;
        let names = names
            .map(|extension| extension.value.general_names.iter().filter_map(general_name_text).collect());
        let public_key = parsed.public_key().raw.to_vec();
        Ok(Self { not_before, not_after, names: names.unwrap_or_default(), public_key, der })
    }

    /// Whether the certificate is valid at `now`.
    pub(super) fn is_valid(&self, now: Timestamp) -> bool {
        self.not_before <= now && now < self.not_after
    }

    /// Whether less than a third of the validity is left at `now`.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        let third =
            Duration::try_from(self.not_before.duration_until(self.not_after)).unwrap_or_default() / 3;
        now >= self.not_after - third
    }
}

fn general_name_text(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let address = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let address = address.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from));
            address.ok().map(|address| address.to_string())
        }
        _ => None,
    }
}

impl Material {
    /// Reads the valid parts. [`Material::problems`] lists the invalid parts.
    pub(super) fn read(secret: &Secret) -> Self {
        let mut material = Self::default();
        material.read_bundle(secret_data(secret, CA_CRT));
        material.read_signer(secret_data(secret, CA_KEY));
        material.read_serving(secret_data(secret, TLS_CRT), secret_data(secret, TLS_KEY));
        material
    }

    /// The authority that signs new certificates.
    pub(super) fn authority(&self) -> Option<&Certificate> {
        self.signer.as_ref().and_then(|(index, _)| self.bundle.get(*index))
    }

    fn read_bundle(&mut self, pem: &[u8]) {
        // Each authority is read separately, so that an invalid one does not affect the others.
        for section in pem_sections(pem) {
            match parse_authorities(section) {
                Ok(authorities) => self.bundle.extend(authorities),
                Err(problem) => self.problems.push(format!("{CA_CRT}: {problem}")),
            }
        }
        if self.bundle.is_empty() {
            self.problems.push(format!("{CA_CRT} contains no authority"));
        }
    }

    fn read_signer(&mut self, pem: &[u8]) {
        let key = std::str::from_utf8(pem).ok().and_then(|pem| KeyPair::from_pem(pem).ok());
        let Some(key) = key else { return self.problems.push(format!("{CA_KEY} contains no key")) };
        let public = key.subject_public_key_info();
        match self.bundle.iter().position(|authority| authority.public_key == public) {
            Some(index) => self.signer = Some((index, key)),
            None => self.problems.push(format!("{CA_KEY} does not belong to an authority in {CA_CRT}")),
        }
    }

    fn read_serving(&mut self, chain: &[u8], key: &[u8]) {
        // The same checks as for serving.
        if let Err(error) = ServingIdentity::new().replace(chain, key) {
            return self.problems.push(format!("{TLS_CRT}: {error}"));
        }
        let first =
            parse_certificates("serving certificate", chain).ok().and_then(|ders| ders.into_iter().next());
        match first.map(Certificate::new) {
            Some(Ok(certificate)) => {
                self.issuer = self.bundle.iter().position(|authority| has_signed(authority, &certificate));
                if self.issuer.is_none() {
                    self.problems.push(format!("no authority in {CA_CRT} signed {TLS_CRT}"));
                }
                self.serving = Some(certificate);
            }
            Some(Err(problem)) => self.problems.push(format!("{TLS_CRT}: {problem}")),
            None => {}
        }
    }
}

/// The authorities in a section of the bundle.
fn parse_authorities(section: &[u8]) -> Result<Vec<Certificate>, CertificateParseError> {
    parse_certificates("CA bundle", section)?.into_iter().map(Certificate::new).collect()
}

/// The bytes of a key of the data; empty if the key is missing.
pub(super) fn secret_data<'a>(secret: &'a Secret, key: &str) -> &'a [u8] {
    secret.data.as_ref().and_then(|data| data.get(key)).map_or(&[], |ByteString(bytes)| bytes.as_slice())
}

/// Encodes certificates as PEM.
pub(super) fn encode_certificates<'a>(all: impl Iterator<Item = &'a Certificate>) -> Vec<u8> {
    let sections: Vec<_> =
        all.map(|certificate| pem::Pem::new("CERTIFICATE", certificate.der.to_vec())).collect();
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_many_config(&sections, config).into_bytes()
}

/// The sections of a PEM text, each from the beginning of a certificate to the next.
fn pem_sections(pem: &[u8]) -> impl Iterator<Item = &[u8]> {
    const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
    let starts: Vec<usize> = (0..pem.len()).filter(|&at| pem[at..].starts_with(BEGIN)).collect();
    let ends: Vec<usize> = starts.iter().copied().skip(1).chain([pem.len()]).collect();
    starts.into_iter().zip(ends).map(|(start, end)| &pem[start..end])
}

/// Whether a client that trusts only `authority` accepts `serving` while both are valid.
fn has_signed(authority: &Certificate, serving: &Certificate) -> bool {
    let Some(name) = serving.names.first().and_then(|name| ServerName::try_from(name.as_str()).ok()) else {
        return false;
    };
    let mut roots = RootCertStore::empty();
    if roots.add(authority.der.clone()).is_err() {
        return false;
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), crypto_provider()).build();
    let moment = authority.not_before.max(serving.not_before).as_second();
    let moment = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(moment).unwrap_or_default()));
    verifier.is_ok_and(|verifier| verifier.verify_server_cert(&serving.der, &[], &name, &[], moment).is_ok())
}
