//! Media types: which the caller understands, and which it sends.

use http::{HeaderMap, header};

use crate::error::Error;

/// The aggregated form of discovery.
pub(crate) const DISCOVERY_V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// Its first version, which older API servers ask for; documents of this size are the same in both.
pub(crate) const DISCOVERY_V2BETA1: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// In which form an answer is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Plain JSON.
    Plain,
    /// Aggregated discovery, `v2`.
    DiscoveryV2,
    /// Aggregated discovery, `v2beta1`.
    DiscoveryV2Beta1,
}

/// The first media type of `Accept` that is served. Weights are left out, as Kubernetes does; so are unknown parameters.
///
/// # Errors
/// [`Error::NotAcceptable`] if there is none. Without the header everything is accepted.
pub(crate) fn accepted(headers: &HeaderMap, discovery: bool) -> Result<Form, Error> {
    let mut wanted = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|value| !value.is_empty())
        .peekable();
    if wanted.peek().is_none() {
        return Ok(Form::Plain);
    }
    wanted.find_map(|value| form(value, discovery)).ok_or(Error::NotAcceptable)
}

fn form(value: &str, discovery: bool) -> Option<Form> {
    let mut parts = value.split(';').map(str::trim);
    let media_type = parts.next()?.to_ascii_lowercase();
    if !matches!(&*media_type, "application/json" | "application/*" | "*/*") {
        return None;
    }
    let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
    let parameter =
        |name| parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| *value);
    let Some(kind) = parameter("as") else { return Some(Form::Plain) };
    match (discovery, kind, parameter("g"), parameter("v")) {
        (true, "APIGroupDiscoveryList", Some("apidiscovery.k8s.io"), Some("v2")) => Some(Form::DiscoveryV2),
        (true, "APIGroupDiscoveryList", Some("apidiscovery.k8s.io"), Some("v2beta1")) => {
            Some(Form::DiscoveryV2Beta1)
        }
        // Such as Table: the caller then names plain JSON, too.
        _ => None,
    }
}

/// Checks that the body is JSON. A caller that says nothing about it, such as `kubectl create --raw`, is believed.
///
/// # Errors
/// [`Error::UnsupportedMediaType`].
pub(crate) fn sent_json(headers: &HeaderMap) -> Result<(), Error> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let media_type = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Error::UnsupportedMediaType)
}

#[cfg(test)]
mod tests;
