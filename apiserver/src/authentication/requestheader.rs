//! How a connection of the front proxy is recognized, and the headers in which it passes the caller.

use std::collections::{BTreeMap, BTreeSet};

use http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;

use super::user::AuthenticatedUser;

/// The front proxy settings of the ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestHeaders {
    /// The certificate authorities of the proxy's client certificate, in PEM.
    pub(super) client_ca: String,
    /// The accepted common names of the client certificate. If empty, all are accepted.
    allowed_names: BTreeSet<String>,
    user: Vec<HeaderName>,
    uid: Vec<HeaderName>,
    group: Vec<HeaderName>,
    /// Prefixes of header names, in lower case.
    extra_prefixes: Vec<String>,
}

/// Why the ConfigMap cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("{0} is missing: enable the aggregation layer of the API server")]
    Missing(&'static str),
    #[error("{key} is not a JSON list of strings")]
    NotAList { key: &'static str },
    #[error("{key} contains {name:?}, which is not a valid header name")]
    NotAHeader { key: &'static str, name: String },
}

const CLIENT_CA: &str = "requestheader-client-ca-file";
const ALLOWED_NAMES: &str = "requestheader-allowed-names";
const USERNAME: &str = "requestheader-username-headers";
const UID: &str = "requestheader-uid-headers";
const GROUP: &str = "requestheader-group-headers";
const EXTRA: &str = "requestheader-extra-headers-prefix";

impl RequestHeaders {
    /// Reads the data of the ConfigMap.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub(crate) fn parse(data: &BTreeMap<String, String>) -> Result<Self, ConfigError> {
        let list = |key: &'static str| -> Result<Vec<String>, ConfigError> {
            let text = data.get(key).map_or("[]", |text| if text.is_empty() { "[]" } else { text });
            serde_json::from_str(text).map_err(|_| ConfigError::NotAList { key })
        };
        let headers = |key| -> Result<Vec<HeaderName>, ConfigError> {
            let name = |name: String| {
                HeaderName::from_bytes(name.as_bytes()).map_err(|_| ConfigError::NotAHeader { key, name })
            };
            list(key)?.into_iter().map(name).collect()
        };
        let client_ca = data.get(CLIENT_CA).filter(|pem| !pem.is_empty());
        let config = Self {
            client_ca: client_ca.ok_or(ConfigError::Missing(CLIENT_CA))?.clone(),
            allowed_names: list(ALLOWED_NAMES)?.into_iter().collect(),
            user: headers(USERNAME)?,
            uid: headers(UID)?,
            group: headers(GROUP)?,
            extra_prefixes: list(EXTRA)?
                .into_iter()
                .map(|prefix| prefix.to_ascii_lowercase())
                // With an empty prefix, every header would become an extra field.
                .filter(|prefix| !prefix.is_empty())
                .collect(),
        };
        if config.user.is_empty() { Err(ConfigError::Missing(USERNAME)) } else { Ok(config) }
    }

    /// Whether a verified certificate with this common name belongs to the front proxy.
    pub(super) fn accepts(&self, common_name: Option<&str>) -> bool {
        self.allowed_names.is_empty() || common_name.is_some_and(|name| self.allowed_names.contains(name))
    }

    /// The caller in the headers; `None` if they contain no user name.
    pub(super) fn user(&self, headers: &HeaderMap) -> Option<AuthenticatedUser> {
        let first = |names: &[HeaderName]| {
            names.iter().find_map(|name| header_text(headers.get(name)?)).filter(|text| !text.is_empty())
        };
        Some(AuthenticatedUser {
            name: first(&self.user)?,
            uid: first(&self.uid).unwrap_or_default(),
            groups: self
                .group
                .iter()
                .flat_map(|name| headers.get_all(name))
                .filter_map(header_text)
                .collect(),
            extra: self.extra(headers),
        })
    }

    fn extra(&self, headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in headers {
            for prefix in &self.extra_prefixes {
                let Some(key) = name.as_str().strip_prefix(prefix.as_str()) else { continue };
                // As in Go, a key that does not decode to UTF-8 stays encoded.
                let key = percent_decode_str(key)
                    .decode_utf8()
                    .map_or_else(|_| key.to_owned(), std::borrow::Cow::into_owned);
                extra.entry(key).or_default().extend(header_text(value));
            }
        }
        extra
    }
}

/// The value of a header as UTF-8. User names may contain characters beyond ASCII; other values are ignored.
fn header_text(value: &http::HeaderValue) -> Option<String> {
    std::str::from_utf8(value.as_bytes()).ok().map(str::to_owned)
}
