//! Parsing of PEM, with errors that name the text and the reason.

use rustls::pki_types::pem::{Error, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::error::TlsError;

/// All certificates in a text, at least one, in their order. Sections of other kinds are ignored.
pub(crate) fn parse_certificates(
    what: &'static str,
    text: &[u8],
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .map_err(|error| invalid_pem_error(what, &error))?;
    if found.is_empty() { Err(TlsError::Missing { what, label: "CERTIFICATE" }) } else { Ok(found) }
}

/// The first private key in a text.
pub(crate) fn private_key(what: &'static str, text: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        Error::NoItemsFound => TlsError::Missing { what, label: "PRIVATE KEY" },
        error => invalid_pem_error(what, &error),
    })
}

fn invalid_pem_error(what: &'static str, error: &Error) -> TlsError {
    let problem = match error {
        Error::MissingSectionEnd { end_marker } => {
            format!("the line `-----END {}-----` is missing", String::from_utf8_lossy(end_marker).trim())
        }
        Error::IllegalSectionStart { line } => {
            format!("a section begins with the invalid line `{}`", String::from_utf8_lossy(line).trim())
        }
        Error::Base64Decode(problem) => format!("a section is not base64: {problem}"),
        other => other.to_string(),
    };
    TlsError::Pem { what, problem }
}
