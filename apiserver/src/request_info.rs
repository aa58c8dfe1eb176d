//! Path and method of a request as verb and resource, as Kubernetes reads them.

use http::{Method, Uri};
use percent_encoding::percent_decode_str;

/// The verb of a request, and what it applies to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RequestInfo {
    /// A request for a path that is no resource, such as a discovery document.
    NonResource {
        /// The path without a trailing slash.
        path: String,
        /// The verb for authorization: the method in lower case.
        verb: String,
    },
    /// A request for a resource.
    Resource(ResourceRequest),
}

/// A request for a resource of an API group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ResourceRequest {
    pub(crate) group: String,
    pub(crate) version: String,
    /// Empty for a cluster-scoped resource.
    pub(crate) namespace: String,
    pub(crate) resource: String,
    /// Empty for a request for the collection.
    pub(crate) name: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
    /// The verb for authorization.
    pub(crate) verb: &'static str,
    /// Whether the path continues after the subresource. No served path does.
    pub(crate) has_more_segments: bool,
}

/// The maximum length of a non-resource path in bytes. The served paths are shorter than 100 bytes.
const MAX_PATH: usize = 1024;
/// The maximum length of a segment of a resource path in bytes, which is that of Kubernetes names.
const MAX_SEGMENT: usize = 253;

impl ResourceRequest {
    /// The segments of the path.
    pub(crate) fn segments(&self) -> [&str; 6] {
        let Self { group, version, namespace, resource, name, subresource, verb: _, has_more_segments: _ } =
            self;
        [group, version, namespace, resource, name, subresource]
    }
}

impl RequestInfo {
    /// Whether the path is longer than all served paths.
    pub(crate) fn is_too_long(&self) -> bool {
        match self {
            Self::NonResource { path, verb } => path.len() > MAX_PATH || verb.len() > MAX_SEGMENT,
            Self::Resource(request) => request.segments().iter().any(|segment| segment.len() > MAX_SEGMENT),
        }
    }

    /// Reads the method and the path of a request. `None` if the path is not UTF-8.
    pub(crate) fn of(method: &Method, uri: &Uri) -> Option<Self> {
        let path = uri.path();
        let mut segments = Vec::new();
        // The path is split before it is decoded, so that a name with an encoded slash is one, invalid, name.
        for segment in path.split('/').filter(|segment| !segment.is_empty()) {
            segments.push(percent_decode_str(segment).decode_utf8().ok()?.into_owned());
        }
        let mut segments = segments.into_iter();
        let depth = segments.len();
        if depth < 4 || segments.next().as_deref() != Some("apis") {
            let path = path.trim_end_matches('/');
            let path = if path.is_empty() { "/".to_owned() } else { path.to_owned() };
            return Some(Self::NonResource { path, verb: method.as_str().to_ascii_lowercase() });
        }
        let mut next = || segments.next().unwrap_or_default();
        let (group, version) = (next(), next());
        let mut request = ResourceRequest { group, version, ..ResourceRequest::default() };
        let first = next();
        if first == "namespaces" && depth > 5 {
            request.namespace = next();
            request.resource = next();
        } else {
            request.resource = first;
        }
        request.name = next();
        request.subresource = next();
        request.has_more_segments = segments.next().is_some();
        request.verb = request_verb(method, &request.name);
        Some(Self::Resource(request))
    }
}

fn request_verb(method: &Method, name: &str) -> &'static str {
    match (method, name) {
        (&Method::GET | &Method::HEAD, "") => "list",
        (&Method::GET | &Method::HEAD, _) => "get",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, "") => "deletecollection",
        (&Method::DELETE, _) => "delete",
        // No role grants this verb.
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests;
