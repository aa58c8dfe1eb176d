//! Which resource a request is for.

use vmpool_api::names::is_dns_subdomain;
use vmpool_platforms::removal::{Apis, ExpansionApi, RemovalApi};

use crate::api::{CLAIM, RELEASE, REMOVAL};
use crate::error::Error;
use crate::expansion::ExpansionTarget;
use crate::metrics::{Resource, Verb};
use crate::request_info::{RequestInfo, ResourceRequest};

/// A served resource.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Route {
    /// The metadata of a pool, or a removal or a claim of its machines.
    Pool(&'static RemovalApi),
    /// An expansion.
    Expansion(&'static ExpansionApi, ExpansionTarget),
}

impl Route {
    /// The error for an object of this name that does not exist.
    pub(crate) fn not_found(self, name: &str) -> Error {
        let (plural, group) = match self {
            Self::Pool(api) => (api.plural, api.group),
            Self::Expansion(api, ExpansionTarget::StoredMachine | ExpansionTarget::Machine) => {
                (api.machine, api.stored.machines.group)
            }
            Self::Expansion(api, ExpansionTarget::StoredPool | ExpansionTarget::Pool) => {
                (api.stored.pools.plural, api.group)
            }
        };
        Error::PoolNotFound { plural, group, pool: name.to_owned() }
    }
}

/// The label values of a request.
#[derive(Clone, Copy)]
pub(crate) struct RequestLabelValues {
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
        && let Some(route) = find_route(apis, request)
        && (!is_dns_subdomain(&request.namespace)
            || !request.name.is_empty() && !is_dns_subdomain(&request.name))
    {
        if request.name.is_empty() {
            return Err(Error::UnknownPath);
        }
        return Err(route.not_found(&request.name));
    }
    Ok(())
}

/// The resource of a request, if it is served.
pub(crate) fn find_route(apis: Apis, request: &ResourceRequest) -> Option<Route> {
    if request.namespace.is_empty() || request.has_more_segments {
        return None;
    }
    let (group, version) = (&*request.group, &*request.version);
    let mut expansions = apis.expansions().filter(|api| (api.group, api.version) == (group, version));
    let expansion = expansions
        .find_map(|api| ExpansionTarget::of(api, request).map(|target| Route::Expansion(api, target)));
    expansion.or_else(|| {
        let api = apis.removal.iter().find(|api| (api.group, api.version) == (group, version))?;
        let is_known = match &*request.subresource {
            "" => true,
            REMOVAL | CLAIM | RELEASE => !request.name.is_empty(),
            _ => false,
        };
        (request.resource == api.plural && is_known).then_some(Route::Pool(api))
    })
}

/// The label values of a request.
pub(crate) fn request_label_values(apis: Apis, info: Option<&RequestInfo>) -> RequestLabelValues {
    match info {
        None => RequestLabelValues { verb: Verb::Other, resource: Resource::Other },
        Some(RequestInfo::NonResource { path, verb }) => {
            let verb = if verb == "get" { Verb::Get } else { Verb::Other };
            let resource = match &**path {
                "/livez" | "/readyz" | "/healthz" => Resource::Health,
                path if ["/apis", "/openapi", "/version"].iter().any(|known| path.starts_with(known)) => {
                    Resource::Documents
                }
                _ => Resource::Other,
            };
            RequestLabelValues { verb, resource }
        }
        Some(RequestInfo::Resource(request)) => {
            let resource = match (find_route(apis, request), &*request.subresource) {
                (Some(Route::Expansion(_, ExpansionTarget::StoredMachine)), _) => Resource::ExpandedMachine,
                (Some(Route::Expansion(_, ExpansionTarget::Machine)), _) => Resource::ExpandMachine,
                (Some(Route::Expansion(_, ExpansionTarget::StoredPool)), _) => Resource::ExpandedPool,
                (Some(Route::Expansion(_, ExpansionTarget::Pool)), _) => Resource::ExpandPool,
                (Some(Route::Pool(_)), "") => Resource::Pools,
                (Some(Route::Pool(_)), CLAIM) => Resource::Claim,
                (Some(Route::Pool(_)), RELEASE) => Resource::Release,
                (Some(Route::Pool(_)), _) => Resource::Removal,
                (None, _) => Resource::Other,
            };
            let verb = match request.verb {
                "get" => Verb::Get,
                "create" => Verb::Create,
                "update" => Verb::Update,
                _ => Verb::Other,
            };
            RequestLabelValues { verb, resource }
        }
    }
}
