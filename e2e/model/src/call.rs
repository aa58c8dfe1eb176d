//! A parsed request.

use std::fmt;

use http::request::Parts;
use http::{Method, header};
use serde_json::Value;

use crate::api_error::ApiError;

/// The verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads all objects.
    List,
    /// Watches changes.
    Watch,
    /// Creates an object.
    Create,
    /// Replaces an object.
    Update,
    /// Changes an object.
    Patch(PatchKind),
    /// Deletes an object.
    Delete,
}

/// The format of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PatchKind {
    /// RFC 7386.
    Merge,
    /// RFC 6902.
    Json,
}

/// A parsed request.
#[derive(Clone, Debug)]
pub struct Call {
    /// The sender: the name given to [`crate::ApiServerModel::client`].
    pub sender: String,
    /// The verb.
    pub verb: Verb,
    /// API group; empty for the core.
    pub group: String,
    /// API version.
    pub version: String,
    /// The plural name of the resource.
    pub resource: String,
    /// Empty for requests across all namespaces, and for cluster-scoped objects.
    pub namespace: String,
    /// Name of the object; empty for lists, and for creates whose name the server generates.
    pub name: String,
    /// Empty for the object itself.
    pub subresource: String,
    /// The decoded query parameters.
    pub query: Vec<(String, String)>,
    /// The body; null if there is none.
    pub body: Value,
}

impl Call {
    pub(crate) fn parse(sender: &str, parts: &Parts, body: &[u8]) -> Result<Self, ApiError> {
        let body = if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(body).map_err(|error| ApiError::bad_request(error.to_string()))?
        };
        let mut path = parts.uri.path().split('/').filter(|part| !part.is_empty());
        let mut next = || path.next().unwrap_or_default().to_owned();
        let (group, version) = match next().as_str() {
            "api" => (String::new(), next()),
            "apis" => (next(), next()),
            _ => return Err(ApiError::not_found("the server could not find the requested resource")),
        };
        let mut resource = next();
        let mut namespace = String::new();
        let mut name = next();
        let mut subresource = next();
        // `status` and `finalize` under /namespaces/<name> are subresources of the namespace itself.
        if resource == "namespaces"
            && !subresource.is_empty()
            && !["status", "finalize"].contains(&subresource.as_str())
        {
            (namespace, resource) = (name, subresource);
            name = next();
            subresource = next();
        }
        let query: Vec<(String, String)> = parts
            .uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (key.to_owned(), decoded(value)))
            .collect();
        let asks =
            |key: &str| query.iter().any(|(name, value)| name == key && (value == "true" || value == "1"));
        let content = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let verb = match (&parts.method, content) {
            (&Method::GET, _) if asks("watch") => Verb::Watch,
            (&Method::GET, _) if name.is_empty() => Verb::List,
            (&Method::GET, _) => Verb::Get,
            (&Method::POST, _) => Verb::Create,
            (&Method::PUT, _) => Verb::Update,
            (&Method::PATCH, Some("application/merge-patch+json")) => Verb::Patch(PatchKind::Merge),
            (&Method::PATCH, Some("application/json-patch+json")) => Verb::Patch(PatchKind::Json),
            (&Method::DELETE, _) if !name.is_empty() => Verb::Delete,
            (method, content) => {
                let message = format!("the model has no {method} of {content:?}");
                return Err(ApiError::new(415, "UnsupportedMediaType", message));
            }
        };
        if verb == Verb::Create && name.is_empty() {
            body["metadata"]["name"].as_str().unwrap_or_default().clone_into(&mut name);
        }
        let sender = sender.to_owned();
        Ok(Self { sender, verb, group, version, resource, namespace, name, subresource, query, body })
    }

    /// A parameter of the query.
    pub fn parameter(&self, key: &str) -> Option<&str> {
        self.query.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Whether the request may change stored objects: a write without `dryRun`.
    pub fn is_write(&self) -> bool {
        !matches!(self.verb, Verb::Get | Verb::List | Verb::Watch) && !self.is_dry()
    }

    /// Whether the request is a dry run.
    pub fn is_dry(&self) -> bool {
        match self.verb {
            Verb::Delete => self.deletes_how("dryRun").is_some(),
            _ => self.parameter("dryRun").is_some(),
        }
    }

    /// A deletion option. It is read from the query only if the request has no body.
    pub(crate) fn deletes_how(&self, option: &str) -> Option<&str> {
        match &self.body[option] {
            _ if self.body.is_null() => self.parameter(option),
            Value::Array(all) => all.first().and_then(Value::as_str),
            one => one.as_str(),
        }
    }

    /// Whether the request has this verb and resource, and no subresource.
    pub fn is(&self, verb: Verb, resource: &str) -> bool {
        self.verb == verb && self.resource == resource && self.subresource.is_empty()
    }
}

/// The form used in transcripts.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sender, verb, resource, namespace, name, subresource, .. } = self;
        let verb = match verb {
            Verb::Patch(_) => "patch".to_owned(),
            verb => format!("{verb:?}").to_lowercase(),
        };
        write!(f, "{sender}: {verb} {resource}")?;
        if !subresource.is_empty() {
            write!(f, "/{subresource}")?;
        }
        for part in [namespace, name].into_iter().filter(|part| !part.is_empty()) {
            write!(f, " {part}")?;
        }
        Ok(())
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits: String = rest.by_ref().take(2).map(char::from).collect();
                u8::from_str_radix(&digits, 16).unwrap_or(b'%')
            }
            other => other,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
