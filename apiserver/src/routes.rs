//! Which resource a request is for.

use vmpool_api::names::is_dns_subdomain;
use vmpool_platforms::removal::RemovalApi;

use crate::api::{self, Apis, CLAIM, RELEASE, REMOVAL};
use crate::error::Error;
use crate::expansion::Target;
use crate::metrics::{Resource, Verb};
use crate::request_info::{RequestInfo, ResourceRequest};

/// The label values of a request.
#[derive(Clone, Copy)]
pub(crate) struct Labels {
    pub(crate) verb: Verb,
    pub(crate) resource: Resource,
}

/// Checks that an object with these names can exist.
///
/// # Errors
/// [`Error::UnknownPath`] and [`Error::PoolNotFound`].
pub(crate) fn check_names(apis: Apis, info: &RequestInfo) -> Result<(), Error> {
    if info.is_too_long() {
        return Err(Error::UnknownPath);
    }
    if let RequestInfo::Resource(request) = info
        && let Some(api) = served(apis, request)
        && (!is_dns_subdomain(&request.namespace)
            || !request.name.is_empty() && !is_dns_subdomain(&request.name))
    {
        if request.name.is_empty() {
            return Err(Error::UnknownPath);
        }
        return Err(Error::PoolNotFound { plural: api.plural, group: api.group, pool: request.name.clone() });
    }
    Ok(())
}

/// The API of a request, if its resource is served.
pub(crate) fn served(apis: Apis, request: &ResourceRequest) -> Option<&'static RemovalApi> {
    let api = api::find(apis, &request.group, &request.version)?;
    if request.namespace.is_empty() || request.has_more_segments {
        return None;
    }
    let known = Target::of(api, request).is_some()
        || request.resource == api.plural
            && match &*request.subresource {
                "" => true,
                REMOVAL | CLAIM | RELEASE => !request.name.is_empty(),
                _ => false,
            };
    known.then_some(api)
}

/// The label values of a request.
pub(crate) fn labels(apis: Apis, info: Option<&RequestInfo>) -> Labels {
    match info {
        None => Labels { verb: Verb::Other, resource: Resource::Other },
        Some(RequestInfo::NonResource { path, verb }) => {
            let verb = if verb == "get" { Verb::Get } else { Verb::Other };
            let resource = match &**path {
                "/livez" | "/readyz" | "/healthz" => Resource::Health,
                path if ["/apis", "/openapi", "/version"].iter().any(|known| path.starts_with(known)) => {
                    Resource::Documents
                }
                _ => Resource::Other,
            };
            Labels { verb, resource }
        }
        Some(RequestInfo::Resource(request)) => {
            let target = |api: &'static RemovalApi| Target::of(api, request).map(|(target, _)| target);
            let resource = match (served(apis, request), &*request.subresource) {
                (Some(api), _) if target(api) == Some(Target::StoredMachine) => Resource::ExpandedMachine,
                (Some(api), _) if target(api) == Some(Target::Machine) => Resource::ExpandMachine,
                (Some(api), _) if target(api) == Some(Target::StoredPool) => Resource::ExpandedPool,
                (Some(api), _) if target(api) == Some(Target::Pool) => Resource::ExpandPool,
                (Some(_), "") => Resource::Pools,
                (Some(_), CLAIM) => Resource::Claim,
                (Some(_), RELEASE) => Resource::Release,
                (Some(_), _) => Resource::Removal,
                (None, _) => Resource::Other,
            };
            let verb = match request.verb {
                "get" => Verb::Get,
                "create" => Verb::Create,
                "update" => Verb::Update,
                _ => Verb::Other,
            };
            Labels { verb, resource }
        }
    }
}
