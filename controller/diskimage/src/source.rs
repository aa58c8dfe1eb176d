//! The URL of an image, and what it must not be.
//!
//! CDI downloads the URL with the network access of the cluster, and with credentials of the image's
//! namespace. Parsers disagree about unusual URLs: one normalizes a path that another one sends as it is.
//! Therefore this module does not normalize a URL; it refuses one that could be read in two ways.

use http::Uri;
use vmpool_api::diskimage::values::SourceType;

use local_host::is_local;

pub mod headers;
mod local_host;
#[cfg(test)]
mod tests;

/// Why a URL is refused. No text contains the query of the URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It is not a URL with scheme and host.
    #[error("the url is not a URL with scheme and host, for example https://images.example.com/disk.qcow2")]
    Malformed,
    /// Its scheme does not belong to the source type.
    #[error("the url of the sourceType {0} begins with {1}")]
    Scheme(SourceType, &'static str),
    /// It contains a user or a password.
    #[error("the url must not contain a user or password; put them into a Secret and name it in secretRef")]
    UserInfo,
    /// Programs could read it differently.
    #[error("the url must not contain {0}, because programs read it differently")]
    Ambiguous(&'static str),
    /// It leads into the node, the pod or the network's own services.
    #[error("the url must not contain a loopback, link-local, unspecified or metadata address")]
    LocalAddress,
    /// The administrator does not allow it.
    #[error("the url begins with no URL that the setting diskImage.allowedUrlPrefixes allows")]
    NotAllowed,
}

/// A URL that all programs read in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceUrl {
    scheme: String,
    host: String,
    port: Option<u16>,
    path: String,
}

impl SourceUrl {
    /// Reads a URL with scheme and host.
    ///
    /// # Errors
    /// If the text is not such a URL, or if programs could read it differently, or if it contains a user or a
    /// password.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.contains('\\') {
            return Err(UrlError::Ambiguous("a backslash"));
        }
        if text.chars().any(|letter| letter.is_control() || letter.is_whitespace()) {
            return Err(UrlError::Ambiguous("white space"));
        }
        if !text.is_ascii() {
            return Err(UrlError::Ambiguous("letters other than ASCII"));
        }
        let uri: Uri = text.parse().map_err(|_invalid| UrlError::Malformed)?;
        let authority = uri.authority().ok_or(UrlError::Malformed)?;
        if authority.as_str().contains('@') {
            return Err(UrlError::UserInfo);
        }
        let scheme = uri.scheme_str().ok_or(UrlError::Malformed)?.to_ascii_lowercase();
        let host = authority.host().trim_end_matches('.').to_ascii_lowercase();
        if host.is_empty() || host.contains('%') {
            return Err(UrlError::Malformed);
        }
        let port = match authority.port() {
            Some(port) => Some(port.as_u16()),
            None if authority.as_str().ends_with(':') => return Err(UrlError::Malformed),
            None => match scheme.as_str() {
                "http" => Some(80),
                "https" => Some(443),
                _ => None,
            },
        };
        let path = uri.path().to_owned();
        let lowercase = path.to_ascii_lowercase();
        if ["%2e", "%2f", "%5c"].iter().any(|encoded| lowercase.contains(encoded)) {
            return Err(UrlError::Ambiguous("encoded dots or slashes"));
        }
        if path.split('/').any(|segment| matches!(segment, "." | "..")) {
            return Err(UrlError::Ambiguous("the path segments . or .."));
        }
        if path.contains("//") {
            return Err(UrlError::Ambiguous("an empty path segment"));
        }
        Ok(Self { scheme, host, port, path })
    }

    /// Whether the URL begins with this one: the same scheme, host and port, and a path that is equal or
    /// continues after a slash.
    pub fn begins_with(&self, prefix: &Self) -> bool {
        let same = self.scheme == prefix.scheme && self.host == prefix.host && self.port == prefix.port;
        let folder = prefix.path.trim_end_matches('/');
        let below =
            self.path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        same && below
    }
}

/// Checks the URL of an image.
///
/// `allowed` are the URLs at which every URL must begin. If it is empty, all URLs are allowed.
///
/// # Errors
/// If the URL is malformed or ambiguous, does not fit the source type, leads to a local address, or is not
/// allowed.
pub fn check_source_url(source: SourceType, text: &str, allowed: &[SourceUrl]) -> Result<(), UrlError> {
    let (schemes, shown): (&[&str], _) = match source {
        SourceType::S3 | SourceType::Http => (&["http", "https"], "http:// or https://"),
        SourceType::Registry => (&["docker"], "docker:// or oci-archive:"),
        SourceType::Gcs => (&["gs", "https"], "gs:// or https://"),
        SourceType::Blank | SourceType::Pvc | SourceType::Snapshot | SourceType::Upload => return Ok(()),
    };
    if source == SourceType::Registry && text.starts_with("oci-archive:") {
        // A file in the importer, so no network is involved.
        return if allowed.is_empty() { Ok(()) } else { Err(UrlError::NotAllowed) };
    }
    let url = SourceUrl::parse(text)?;
    if !schemes.contains(&url.scheme.as_str()) {
        return Err(UrlError::Scheme(source, shown));
    }
    if is_local(&url.host) {
        return Err(UrlError::LocalAddress);
    }
    if !allowed.is_empty() && !allowed.iter().any(|prefix| url.begins_with(prefix)) {
        return Err(UrlError::NotAllowed);
    }
    Ok(())
}
