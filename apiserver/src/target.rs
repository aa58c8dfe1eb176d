//! What a request asks for, read from its path and method the way that Kubernetes does it.

use http::{Method, Uri};
use percent_encoding::percent_decode_str;

/// A request, taken apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    /// A document of the server.
    Document {
        /// The path, without a slash at its end.
        path: String,
        /// The method in lower case, as authorizers name it.
        verb: String,
    },
    /// An object.
    Object(Object),
}

/// An object of an API, and what is done to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Object {
    pub(crate) group: String,
    pub(crate) version: String,
    /// Empty for an object without a namespace.
    pub(crate) namespace: String,
    pub(crate) resource: String,
    /// Empty for all.
    pub(crate) name: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
    /// As authorizers name it.
    pub(crate) verb: &'static str,
    /// What follows the subresource. There is nothing of the kind here.
    pub(crate) beyond: bool,
}

/// Bytes of the path of a document. Those that are served have fewer than a hundred.
const LONGEST_DOCUMENT: usize = 1024;
/// Bytes of a part of the path of an object, as in every name of Kubernetes.
const LONGEST_PART: usize = 253;

impl Object {
    /// The parts of its path.
    pub(crate) fn texts(&self) -> [&str; 6] {
        let Self { group, version, namespace, resource, name, subresource, verb: _, beyond: _ } = self;
        [group, version, namespace, resource, name, subresource]
    }
}

impl Target {
    /// Whether nothing can be there, since a part of the path is longer than any that is served.
    pub(crate) fn is_too_long(&self) -> bool {
        match self {
            Self::Document { path, verb } => path.len() > LONGEST_DOCUMENT || verb.len() > LONGEST_PART,
            Self::Object(object) => object.texts().iter().any(|text| text.len() > LONGEST_PART),
        }
    }

    /// `None` if the path is not UTF-8.
    pub(crate) fn of(method: &Method, uri: &Uri) -> Option<Self> {
        let path = uri.path();
        let mut parts = Vec::new();
        // Split first: a name with an encoded slash is one name, and an invalid one.
        for part in path.split('/').filter(|part| !part.is_empty()) {
            parts.push(percent_decode_str(part).decode_utf8().ok()?.into_owned());
        }
        let mut parts = parts.into_iter();
        let depth = parts.len();
        if depth < 4 || parts.next().as_deref() != Some("apis") {
            let path = path.trim_end_matches('/');
            let path = if path.is_empty() { "/".to_owned() } else { path.to_owned() };
            return Some(Self::Document { path, verb: method.as_str().to_ascii_lowercase() });
        }
        let mut next = || parts.next().unwrap_or_default();
        let (group, version) = (next(), next());
        let mut object = Object { group, version, ..Object::default() };
        let first = next();
        if first == "namespaces" && depth > 5 {
            object.namespace = next();
            object.resource = next();
        } else {
            object.resource = first;
        }
        object.name = next();
        object.subresource = next();
        object.beyond = parts.next().is_some();
        object.verb = verb(method, &object.name);
        Some(Self::Object(object))
    }
}

fn verb(method: &Method, name: &str) -> &'static str {
    match (method, name) {
        (&Method::GET | &Method::HEAD, "") => "list",
        (&Method::GET | &Method::HEAD, _) => "get",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, "") => "deletecollection",
        (&Method::DELETE, _) => "delete",
        // No role grants it.
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests;
