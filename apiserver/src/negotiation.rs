//! Content negotiation: the media types that the caller accepts and sends.

use http::{HeaderMap, header};

use crate::error::Error;

/// The aggregated discovery format.
pub(crate) const DISCOVERY_V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// The first version of the aggregated format, which older API servers request. The documents of this server
/// are the same in both versions.
pub(crate) const DISCOVERY_V2BETA1: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// The requested format of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseFormat {
    /// Plain JSON.
    Plain,
    /// Aggregated discovery, `v2`.
    DiscoveryV2,
    /// Aggregated discovery, `v2beta1`.
    DiscoveryV2Beta1,
}

/// The format of the first supported media type in `Accept`. As in Kubernetes, weights and unknown parameters
/// are ignored. Without the header, the format is plain JSON.
///
/// # Errors
/// [`Error::NotAcceptable`] if no media type is supported.
pub(crate) fn accepted_format(headers: &HeaderMap, discovery: bool) -> Result<ResponseFormat, Error> {
    let mut accepted = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|value| !value.is_empty())
        .peekable();
    if accepted.peek().is_none() {
        return Ok(ResponseFormat::Plain);
    }
    accepted.find_map(|value| format_of_media_type(value, discovery)).ok_or(Error::NotAcceptable)
}

fn format_of_media_type(value: &str, discovery: bool) -> Option<ResponseFormat> {
    let mut parts = value.split(';').map(str::trim);
    let media_type = parts.next()?.to_ascii_lowercase();
    if !matches!(&*media_type, "application/json" | "application/*" | "*/*") {
        return None;
    }
    let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
    let parameter =
        |name| parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| *value);
    let Some(kind) = parameter("as") else { return Some(ResponseFormat::Plain) };
    match (discovery, kind, parameter("g"), parameter("v")) {
        (true, "APIGroupDiscoveryList", Some("apidiscovery.k8s.io"), Some("v2")) => {
            Some(ResponseFormat::DiscoveryV2)
        }
        (true, "APIGroupDiscoveryList", Some("apidiscovery.k8s.io"), Some("v2beta1")) => {
            Some(ResponseFormat::DiscoveryV2Beta1)
        }
        // For example Table. Callers that request it also accept plain JSON.
        _ => None,
    }
}

/// Checks that the body is JSON. Without the header, such as with `kubectl create --raw`, the body counts as
/// JSON.
///
/// # Errors
/// [`Error::UnsupportedMediaType`].
pub(crate) fn check_content_type(headers: &HeaderMap) -> Result<(), Error> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let media_type = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Error::UnsupportedMediaType)
}

#[cfg(test)]
mod tests;
