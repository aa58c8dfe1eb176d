//! The documents of the server: discovery in both formats, OpenAPI and version. They are created on first
//! use.

use std::fmt::Write as _;
use std::sync::OnceLock;

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIGroupList, GroupVersionForDiscovery};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use vmpool_platforms::removal::{Apis, GroupVersion};

use crate::error::Error;
use crate::negotiation::{DISCOVERY_V2, DISCOVERY_V2BETA1, ResponseFormat, accepted_format};
use crate::{discovery, openapi};

/// A serialized document.
struct Document {
    text: Vec<u8>,
    tag: HeaderValue,
    media_type: &'static str,
}

impl Document {
    fn new(media_type: &'static str, content: &impl Serialize) -> Self {
        let text = serde_json::to_vec(content).expect("documents can be serialized as JSON");
        let tag = HeaderValue::from_str(&format!("\"{}\"", document_hash(&text)))
            .expect("a quoted hash is a valid header value");
        Self { text, tag, media_type }
    }
}

/// All documents of a server.
pub(crate) struct Documents {
    all: Apis,
    now: Apis,
    content: OnceLock<Content>,
}

struct Content {
    plain: Vec<(String, Document)>,
    aggregated: [(ResponseFormat, Document); 2],
}

const JSON: &str = "application/json";

impl Content {
    fn new(all: Apis, now: Apis) -> Self {
        let mut plain = Vec::new();
        let mut add = |path: String, content: Value| plain.push((path, Document::new(JSON, &content)));
        let mut groups = Vec::new();
        for (name, versions) in discovery::groups_with_versions(all) {
            let group = discovery_group(name, &versions);
            add(format!("/apis/{name}"), to_json_value(&group));
            groups.push(group);
        }
        let mut index = serde_json::Map::new();
        for served in all.group_versions() {
            add(format!("/apis/{served}"), to_json_value(&discovery::api_resource_list(now, served)));
            let content = openapi::openapi_v3_document(now, served);
            let hash = document_hash(content.to_string().as_bytes());
            let path = format!("apis/{served}");
            index.insert(
                path.clone(),
                json!({ "serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}") }),
            );
            add(format!("/openapi/v3/{path}"), content);
        }
        add("/apis".to_owned(), to_json_value(&APIGroupList { groups }));
        add("/openapi/v3".to_owned(), json!({ "paths": index }));
        add("/openapi/v2".to_owned(), openapi::openapi_v2_document(now));
        add("/version".to_owned(), version_document());
        let mut paths: Vec<String> = plain.iter().map(|(path, _)| path.clone()).collect();
        paths.extend(["/healthz", "/livez", "/readyz"].map(str::to_owned));
        paths.sort();
        plain.push(("/".to_owned(), Document::new(JSON, &json!({ "paths": paths }))));
        let aggregated = [
            (ResponseFormat::DiscoveryV2, DISCOVERY_V2, "v2"),
            (ResponseFormat::DiscoveryV2Beta1, DISCOVERY_V2BETA1, "v2beta1"),
        ]
        .map(|(form, media_type, version)| {
            (form, Document::new(media_type, &discovery::aggregated_group_list(all, now, version)))
        });
        Self { plain, aggregated }
    }
}

impl Documents {
    /// The documents of a server with the groups of `all`, and the resources of `now`.
    pub(crate) fn new(all: Apis, now: Apis) -> Self {
        Self { all, now, content: OnceLock::new() }
    }

    fn content(&self) -> &Content {
        self.content.get_or_init(|| Content::new(self.all, self.now))
    }

    /// The response with the document at a path.
    ///
    /// # Errors
    /// [`Error::UnknownPath`] if there is no document, [`Error::MethodNotAllowed`] for methods other than GET
    /// and HEAD, [`Error::NotAcceptable`] if the caller does not accept JSON.
    pub(crate) fn respond(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<Response<Body>, Error> {
        let Content { plain, aggregated } = self.content();
        let (_, plain) = plain.iter().find(|(known, _)| known == path).ok_or(Error::UnknownPath)?;
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Err(Error::MethodNotAllowed { allowed: "GET, HEAD" });
        }
        let form = accepted_format(headers, path == "/apis")?;
        let document =
            aggregated.iter().find(|(known, _)| *known == form).map_or(plain, |(_, document)| document);
        Ok(document.respond(method, headers))
    }

    /// The text of the document at a path.
    #[cfg(test)]
    pub(crate) fn text(&self, path: &str) -> Option<&[u8]> {
        let known = &self.content().plain;
        known.iter().find(|(known, _)| known == path).map(|(_, document)| &*document.text)
    }
}

impl Document {
    fn respond(&self, method: &Method, headers: &HeaderMap) -> Response<Body> {
        let known = headers
            .get_all(header::IF_NONE_MATCH)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|tag| tag.trim().trim_start_matches("W/").as_bytes() == self.tag.as_bytes());
        let mut response = match (known, method) {
            (false, &Method::GET) => Response::new(Body::from(self.text.clone())),
            _ => Response::new(Body::empty()),
        };
        if known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let content = HeaderValue::from_static(self.media_type);
        for (name, value) in [
            (header::CONTENT_TYPE, content),
            (header::ETAG, self.tag.clone()),
            (header::VARY, HeaderValue::from_static("Accept")),
            // Proxies must revalidate the document. The tag makes that cheap.
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private")),
        ] {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

fn document_hash(text: &[u8]) -> String {
    let mut hash = String::new();
    for byte in Sha256::digest(text) {
        // Writing to a String cannot fail.
        let _ = write!(hash, "{byte:02X}");
    }
    hash
}

fn to_json_value(content: &impl Serialize) -> Value {
    serde_json::to_value(content).expect("documents can be serialized as JSON")
}

fn discovery_group(name: &str, versions: &[GroupVersion]) -> APIGroup {
    let versions: Vec<GroupVersionForDiscovery> = versions
        .iter()
        .map(|served| GroupVersionForDiscovery {
            group_version: served.to_string(),
            version: served.version.to_owned(),
        })
        .collect();
    APIGroup {
        name: name.to_owned(),
        preferred_version: versions.first().cloned(),
        versions,
        ..APIGroup::default()
    }
}

fn version_document() -> Value {
    let numbers: Vec<&str> = env!("CARGO_PKG_VERSION").split('.').collect();
    json!({
        "major": numbers[0],
        "minor": numbers[1],
        "gitVersion": concat!("v", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

#[cfg(test)]
mod tests;
