//! What a request asks for.

use http::request::Parts;
use http::{Method, header};
use serde_json::Value;

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    MergePatch,
    JsonPatch,
    Delete,
}

/// One request, understood.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) verb: Verb,
    /// The resource in the plural.
    pub(crate) resource: String,
    /// Empty for all namespaces.
    pub(crate) namespace: String,
    /// Name of the object; for a create that of the body.
    pub(crate) name: String,
    pub(crate) subresource: String,
    pub(crate) query: String,
    pub(crate) body: Value,
}

impl Call {
    pub(super) fn parse(parts: &Parts, body: &[u8]) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let query = parts.uri.query().unwrap_or_default().to_owned();
        // /apis/<group>/<version>/[namespaces/<namespace>/]<resource>[/<name>[/<subresource>]]
        let mut path = parts.uri.path().split('/').skip(4).peekable();
        let mut next = || path.next().unwrap_or_default().to_owned();
        let first = next();
        let (namespace, resource) =
            if first == "namespaces" { (next(), next()) } else { (String::new(), first) };
        let (mut name, subresource) = (next(), next());
        let content = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let verb = match (&parts.method, content) {
            (&Method::GET, _) if query.contains("watch=true") => Verb::Watch,
            (&Method::GET, _) if name.is_empty() => Verb::List,
            (&Method::GET, _) => Verb::Get,
            (&Method::POST, _) => Verb::Create,
            (&Method::PATCH, Some("application/merge-patch+json")) => Verb::MergePatch,
            (&Method::PATCH, Some("application/json-patch+json")) => Verb::JsonPatch,
            (&Method::DELETE, _) => Verb::Delete,
            (method, content) => panic!("the controller has no use for {method} of {content:?}"),
        };
        if verb == Verb::Create {
            body["metadata"]["name"].as_str().unwrap_or_default().clone_into(&mut name);
        }
        Self { verb, resource, namespace, name, subresource, query, body }
    }

    /// Whether it asks for a change.
    pub(crate) fn is_write(&self) -> bool {
        !matches!(self.verb, Verb::Get | Verb::List | Verb::Watch)
    }

    /// Whether it is about an event.
    pub(crate) fn is_event(&self) -> bool {
        self.resource == "events"
    }

    /// Whether it is this verb on this resource, not on a subresource.
    pub(crate) fn is(&self, verb: Verb, resource: &str) -> bool {
        self.verb == verb && self.resource == resource && self.subresource.is_empty()
    }
}

/// As it stands in the messages of failed tests.
impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { verb, resource, namespace, name, subresource, .. } = self;
        let slash = if subresource.is_empty() { "" } else { "/" };
        write!(f, "{verb:?} {resource}{slash}{subresource} {namespace}/{name}")
    }
}
