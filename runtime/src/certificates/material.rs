//! What a Secret holds, as far as it can be read and belongs together.

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
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::tls::{Identity, certificates, provider};

/// Keys of the Secret's data. The first two are those of the type `kubernetes.io/tls`.
pub(super) const TLS_CRT: &str = "tls.crt";
pub(super) const TLS_KEY: &str = "tls.key";
/// The bundle that clients should trust.
pub(super) const CA_CRT: &str = "ca.crt";
/// The key of the authority that signs next.
pub(super) const CA_KEY: &str = "ca.key";

/// A certificate, and what there is to know about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) der: CertificateDer<'static>,
    pub(super) begins: Timestamp,
    pub(super) ends: Timestamp,
    /// DNS names and IP addresses that it is for.
    pub(super) names: Vec<String>,
    public_key: Vec<u8>,
}

/// The readable part of a Secret.
#[derive(Debug, Default)]
pub(super) struct Material {
    /// The authorities of the bundle.
    pub(super) bundle: Vec<Facts>,
    /// The one whose key is there: its place in the bundle.
    pub(super) signer: Option<(usize, KeyPair)>,
    /// The serving certificate, if its key is there.
    pub(super) serving: Option<Facts>,
    /// The authority that signed it: its place in the bundle.
    pub(super) issuer: Option<usize>,
    /// What could not be read, in words.
    pub(super) damage: Vec<String>,
}

impl Facts {
    /// # Errors
    /// What is wrong with the certificate, in words.
    pub(super) fn new(der: CertificateDer<'static>) -> Result<Self, String> {
        let (_, parsed) = X509Certificate::from_der(&der).map_err(|error| error.to_string())?;
        let moment = |time: i64| Timestamp::from_second(time).map_err(|error| error.to_string());
        let begins = moment(parsed.validity().not_before.timestamp())?;
        let ends = moment(parsed.validity().not_after.timestamp())?;
        let names = parsed.subject_alternative_name().map_err(|error| error.to_string())?;
        let names = names.map(|extension| extension.value.general_names.iter().filter_map(text).collect());
        let public_key = parsed.public_key().raw.to_vec();
        Ok(Self { begins, ends, names: names.unwrap_or_default(), public_key, der })
    }

    /// Whether it is valid at `now`.
    pub(super) fn holds(&self, now: Timestamp) -> bool {
        self.begins <= now && now < self.ends
    }

    /// Whether less than a third of it is left at `now`.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        let third = Duration::try_from(self.begins.duration_until(self.ends)).unwrap_or_default() / 3;
        now >= self.ends - third
    }
}

fn text(name: &GeneralName<'_>) -> Option<String> {
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
    /// Reads what can be read. What cannot is passed over and named in [`Material::damage`].
    pub(super) fn read(secret: &Secret) -> Self {
        let mut material = Self::default();
        material.read_bundle(data(secret, CA_CRT));
        material.read_signer(data(secret, CA_KEY));
        material.read_serving(data(secret, TLS_CRT), data(secret, TLS_KEY));
        material
    }

    /// The certificate of the authority that signs next.
    pub(super) fn authority(&self) -> Option<&Facts> {
        self.signer.as_ref().and_then(|(index, _)| self.bundle.get(*index))
    }

    fn read_bundle(&mut self, pem: &[u8]) {
        // One by one, so that one broken authority does not cost the others.
        for section in sections(pem) {
            let read = certificates("CA bundle", section).map_err(|error| error.to_string());
            let read = read.and_then(|ders| ders.into_iter().map(Facts::new).collect::<Result<Vec<_>, _>>());
            match read {
                Ok(read) => self.bundle.extend(read),
                Err(problem) => self.damage.push(format!("{CA_CRT}: {problem}")),
            }
        }
        if self.bundle.is_empty() {
            self.damage.push(format!("{CA_CRT} holds no authority"));
        }
    }

    fn read_signer(&mut self, pem: &[u8]) {
        let key = std::str::from_utf8(pem).ok().and_then(|pem| KeyPair::from_pem(pem).ok());
        let Some(key) = key else { return self.damage.push(format!("{CA_KEY} holds no key")) };
        let public = key.subject_public_key_info();
        match self.bundle.iter().position(|authority| authority.public_key == public) {
            Some(index) => self.signer = Some((index, key)),
            None => self.damage.push(format!("{CA_KEY} belongs to no authority of {CA_CRT}")),
        }
    }

    fn read_serving(&mut self, chain: &[u8], key: &[u8]) {
        // The same checks as when it is shown.
        if let Err(error) = Identity::new().replace(chain, key) {
            return self.damage.push(format!("{TLS_CRT}: {error}"));
        }
        let first = certificates("serving certificate", chain).ok().and_then(|ders| ders.into_iter().next());
        match first.map(Facts::new) {
            Some(Ok(facts)) => {
                self.issuer = self.bundle.iter().position(|authority| vouches(authority, &facts));
                if self.issuer.is_none() {
                    self.damage.push(format!("{TLS_CRT} was signed by no authority of {CA_CRT}"));
                }
                self.serving = Some(facts);
            }
            Some(Err(problem)) => self.damage.push(format!("{TLS_CRT}: {problem}")),
            None => {}
        }
    }
}

/// The bytes under `key`; none if it is missing.
pub(super) fn data<'a>(secret: &'a Secret, key: &str) -> &'a [u8] {
    secret.data.as_ref().and_then(|data| data.get(key)).map_or(&[], |ByteString(bytes)| bytes.as_slice())
}

/// Certificates as PEM.
pub(super) fn encode<'a>(all: impl Iterator<Item = &'a Facts>) -> Vec<u8> {
    let sections: Vec<_> = all.map(|facts| pem::Pem::new("CERTIFICATE", facts.der.to_vec())).collect();
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_many_config(&sections, config).into_bytes()
}

/// The parts of a PEM text that begin with a certificate.
fn sections(pem: &[u8]) -> impl Iterator<Item = &[u8]> {
    const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
    let starts: Vec<usize> = (0..pem.len()).filter(|&at| pem[at..].starts_with(BEGIN)).collect();
    let ends: Vec<usize> = starts.iter().copied().skip(1).chain([pem.len()]).collect();
    starts.into_iter().zip(ends).map(|(start, end)| &pem[start..end])
}

/// Whether a client that trusts `authority` alone would accept `serving`, at a moment when both are valid.
fn vouches(authority: &Facts, serving: &Facts) -> bool {
    let Some(name) = serving.names.first().and_then(|name| ServerName::try_from(name.as_str()).ok()) else {
        return false;
    };
    let mut roots = RootCertStore::empty();
    if roots.add(authority.der.clone()).is_err() {
        return false;
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build();
    let moment = authority.begins.max(serving.begins).as_second();
    let moment = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(moment).unwrap_or_default()));
    verifier.is_ok_and(|verifier| verifier.verify_server_cert(&serving.der, &[], &name, &[], moment).is_ok())
}
