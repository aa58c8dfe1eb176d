//! Issues certificate authorities and serving certificates.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;

use super::material::{Certificate, CertificateParseError};
use super::timing::Timing;

/// Why a certificate was not issued.
#[derive(Debug, thiserror::Error)]
pub(super) enum IssueError {
    /// The library returned an error.
    #[error("issuing a certificate")]
    Issue(#[from] rcgen::Error),
    /// The new certificate cannot be parsed.
    #[error("parsing the new certificate")]
    Parse(#[source] CertificateParseError),
}

/// A certificate with its key.
#[derive(Debug)]
pub(super) struct Issued {
    pub(super) certificate: Certificate,
    pub(super) key: KeyPair,
}

/// An authority and the key with which it signs.
#[derive(Debug, Clone, Copy)]
pub(super) struct CertificateSigner<'a> {
    pub(super) certificate: &'a Certificate,
    pub(super) key: &'a KeyPair,
}

/// Issues a self-signed authority. Its name contains `id`, to distinguish it from other authorities.
pub(super) fn issue_authority(now: Timestamp, timing: &Timing, id: u64) -> Result<Issued, IssueError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = distinguished_name(&format!("vmpool CA {id:016x}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, now, timing, now + timing.authority);
    let key = KeyPair::generate()?;
    let der = params.self_signed(&key)?.der().clone();
    issued_certificate(der, key)
}

/// Issues a serving certificate for `names`, signed by `authority`. It expires no later than the authority.
pub(super) fn issue_serving_certificate(
    now: Timestamp,
    timing: &Timing,
    names: &[String],
    authority: CertificateSigner<'_>,
) -> Result<Issued, IssueError> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = distinguished_name("vmpool");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, now, timing, (now + timing.serving).min(authority.certificate.not_after));
    let key = KeyPair::generate()?;
    let issuer = Issuer::from_ca_cert_der(&authority.certificate.der, authority.key)?;
    let der = params.signed_by(&key, &issuer)?.der().clone();
    issued_certificate(der, key)
}

fn issued_certificate(der: CertificateDer<'static>, key: KeyPair) -> Result<Issued, IssueError> {
    Ok(Issued { certificate: Certificate::new(der).map_err(IssueError::Parse)?, key })
}

fn distinguished_name(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

fn set_validity(params: &mut CertificateParams, now: Timestamp, timing: &Timing, not_after: Timestamp) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let since =
        |moment: Timestamp| Duration::from_secs(u64::try_from(moment.as_second()).unwrap_or_default());
    params.not_before = epoch + since(now - timing.backdate);
    params.not_after = epoch + since(not_after);
}
