//! Making authorities and serving certificates.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;

use super::material::Facts;
use super::timing::Timing;

/// Why a certificate was not made.
#[derive(Debug, thiserror::Error)]
pub(super) enum IssueError {
    /// The library refused.
    #[error("making a certificate")]
    Make(#[from] rcgen::Error),
    /// What was made cannot be read.
    #[error("reading the certificate that was just made: {0}")]
    Read(String),
}

/// A certificate with its key.
#[derive(Debug)]
pub(super) struct Issued {
    pub(super) facts: Facts,
    pub(super) key: KeyPair,
}

/// Makes an authority. `mark` tells it from others in its name.
pub(super) fn authority(now: Timestamp, timing: &Timing, mark: u64) -> Result<Issued, IssueError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(&format!("vmpool CA {mark:016x}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    limit(&mut params, now, timing, now + timing.authority);
    let key = KeyPair::generate()?;
    let der = params.self_signed(&key)?.der().clone();
    issued(der, key)
}

/// Makes a serving certificate for `names`, signed by `authority`. It never outlives the authority.
pub(super) fn serving(
    now: Timestamp,
    timing: &Timing,
    names: &[String],
    authority: (&Facts, &KeyPair),
) -> Result<Issued, IssueError> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = named("vmpool");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    limit(&mut params, now, timing, (now + timing.serving).min(authority.0.ends));
    let key = KeyPair::generate()?;
    let issuer = Issuer::from_ca_cert_der(&authority.0.der, authority.1)?;
    let der = params.signed_by(&key, &issuer)?.der().clone();
    issued(der, key)
}

fn issued(der: CertificateDer<'static>, key: KeyPair) -> Result<Issued, IssueError> {
    Ok(Issued { facts: Facts::new(der).map_err(IssueError::Read)?, key })
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

fn limit(params: &mut CertificateParams, now: Timestamp, timing: &Timing, ends: Timestamp) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let since =
        |moment: Timestamp| Duration::from_secs(u64::try_from(moment.as_second()).unwrap_or_default());
    params.not_before = epoch + since(now - timing.backdate);
    params.not_after = epoch + since(ends);
}
