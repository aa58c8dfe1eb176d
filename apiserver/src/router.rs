//! The handling of one request.
//!
//! ```text
//!  request ─> health? ─> authentication ─> valid path? ─> authorization ─> document, pool, removal, claim, expansion ─> response
//!                             401             404              403               404, 405, 406 ...
//!                                                    (if the gate is on)
//! ```

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Value, json};
use tower::ServiceExt;
use vmpool_api::names::is_dns_subdomain;
use vmpool_platforms::removal::{ExpansionApi, RemovalApi, Revision};
use vmpool_runtime::health::Health;
use vmpool_runtime::https::Peer;

use crate::api::{self, Apis, CLAIM, RELEASE, REMOVAL};
use crate::audit::{AUDIT_ID, AuditInfo, request_id};
use crate::authentication::User;
use crate::body::{self, MAX_LENGTH};
use crate::claims::{read_claim, read_release};
use crate::error::{Error, json};
use crate::expansion::{self, Target};
use crate::forced;
use crate::metrics::{Resource, Verb};
use crate::negotiation::{accepted, check_content_type};
use crate::removal::PoolName;
use crate::request_info::{RequestInfo, ResourceRequest};
use crate::response::{self, success};
use crate::state::State;

/// The API as a service for [`vmpool_runtime::https`].
pub fn router(state: Arc<State>) -> Router {
    Router::new().fallback(move |request: Request| {
        let state = Arc::clone(&state);
        async move { state.handle(request).await }
    })
}

/// The label values of a request.
#[derive(Clone, Copy)]
struct Labels {
    verb: Verb,
    resource: Resource,
}

impl State {
    async fn handle(&self, request: Request) -> Response<Body> {
        let start = self.env.uptime();
        let id = request_id(request.headers(), &self.env);
        let info = RequestInfo::of(request.method(), request.uri());
        let labels = labels(self.apis, info.as_ref());
        let result = match (labels.resource, info) {
            (Resource::Health, _) => Ok(health(&self.health, request).await),
            (_, None) => Err(Error::UnknownPath),
            (_, Some(info)) => self.respond(request, info, &id).await,
        };
        let mut response = result.unwrap_or_else(|error| {
            tracing::debug!(request = ?id, code = error.code().as_u16(), %error, "refused");
            Response::from(&error)
        });
        if let Ok(id) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(AUDIT_ID, id);
        }
        let duration = self.env.uptime().saturating_sub(start);
        self.metrics.request(labels.verb, labels.resource, response.status(), duration);
        response
    }

    async fn respond(&self, request: Request, info: RequestInfo, id: &str) -> Result<Response<Body>, Error> {
        let (parts, body) = request.into_parts();
        let user = self.authenticator.authenticate(parts.extensions.get::<Peer>(), &parts.headers)?;
        // Invalid names are refused before authorization, because the review and the cached decision would contain them.
        check_names(self.apis, &info)?;
        // If the gate is off, no resource needs a permission, and this program has no permission to create reviews. The
        // responses are then documents without resources, and "not found".
        if self.enabled {
            self.authorizer.authorize(&user, &info).await?;
        }
        match info {
            RequestInfo::NonResource { path, .. } => {
                self.documents.respond(&parts.method, &path, &parts.headers)
            }
            RequestInfo::Resource(request) => {
                let api = served(self.apis, &request).filter(|_| self.enabled).ok_or(Error::UnknownPath)?;
                if let Some((target, names)) = Target::of(api, &request) {
                    return self.expand(api, (target, names), request, parts, body).await;
                }
                match &*request.subresource {
                    "" => self.read(api, request, &parts).await,
                    REMOVAL => self.remove(api, request, user, id, parts, body).await,
                    _ => self.claim_or_release(api, request, user, id, parts, body).await,
                }
            }
        }
    }

    /// Returns the metadata of a pool.
    async fn read(
        &self,
        api: &RemovalApi,
        request: ResourceRequest,
        parts: &Parts,
    ) -> Result<Response<Body>, Error> {
        // Pools cannot be listed here, so the collection supports no method.
        if request.name.is_empty() {
            return Err(Error::MethodNotAllowed { allowed: "" });
        }
        if request.verb != "get" {
            return Err(Error::MethodNotAllowed { allowed: "GET, HEAD" });
        }
        accepted(&parts.headers, false)?;
        let ResourceRequest { namespace, name, .. } = request;
        let not_found = || Error::PoolNotFound { plural: api.plural, group: api.group, pool: name.clone() };
        let pool: Value = match self.cluster.pool(api.stored, &namespace, &name).await {
            Ok(pool) => pool,
            Err(error) if error.is_not_found() => return Err(not_found()),
            Err(error) => return Err(Error::Internal(format!("reading pool \"{name}\": {error}"))),
        };
        let content = json!({
            "kind": api.kind,
            "apiVersion": api.api_version(),
            "metadata": pool["metadata"],
        });
        Ok(json(StatusCode::OK, &content))
    }

    /// Returns a machine or a pool with instance type and preference written out.
    async fn expand(
        &self,
        api: &RemovalApi,
        (target, names): (Target, ExpansionApi),
        request: ResourceRequest,
        parts: Parts,
        body: Body,
    ) -> Result<Response<Body>, Error> {
        let (mut revision, mut index) = (Revision::Current, None);
        let object = if target.is_supplied() {
            let body = content(&request, ("update", "PUT"), &parts, body).await?;
            expansion::supplied(target, &body, &request.namespace)?
        } else {
            if request.verb != "get" {
                return Err(Error::MethodNotAllowed { allowed: "GET, HEAD" });
            }
            accepted(&parts.headers, false)?;
            if target == Target::StoredPool {
                (revision, index) = expansion::parameters(parts.uri.query().unwrap_or_default())?;
            }
            self.stored(api, (target, names), &request).await?
        };
        let which = (&revision, index);
        let expanded = expansion::expand(&self.cluster, (target, &object), &request.namespace, which).await?;
        Ok(json(StatusCode::OK, &expanded))
    }

    /// The stored machine or pool that a request names.
    async fn stored(
        &self,
        api: &RemovalApi,
        (target, names): (Target, ExpansionApi),
        request: &ResourceRequest,
    ) -> Result<Value, Error> {
        let ResourceRequest { namespace, name, .. } = request;
        let (read, plural, group): (Result<Value, _>, _, _) = if target == Target::StoredMachine {
            let read = self.cluster.whole_machine(api.stored, namespace, name).await;
            (read, names.machine, api.stored.machines.group)
        } else {
            (self.cluster.pool(api.stored, namespace, name).await, api.plural, api.group)
        };
        read.map_err(|error| {
            if error.is_not_found() {
                Error::PoolNotFound { plural, group, pool: name.clone() }
            } else {
                Error::Internal(format!("reading {plural} {name:?}: {error}"))
            }
        })
    }

    /// Handles a removal request.
    async fn remove(
        &self,
        api: &RemovalApi,
        request: ResourceRequest,
        user: User,
        id: &str,
        parts: Parts,
        body: Body,
    ) -> Result<Response<Body>, Error> {
        let body = content(&request, ("create", "POST"), &parts, body).await?;
        let query = parts.uri.query().unwrap_or_default();
        let names = (&*request.namespace, &*request.name);
        let removal = body::read(&body, query, (self.apis, api), names)?;
        let (dry_run, force) = (removal.dry_run, removal.force);
        if force {
            let forced = RequestInfo::Resource(ResourceRequest { verb: "force", ..request.clone() });
            self.authorizer.authorize(&user, &forced).await?;
        }
        let ResourceRequest { namespace, name, .. } = request;
        let audit = AuditInfo { user, request: id.to_owned() };
        let pool = PoolName { stored: api.stored, namespace, name };
        let accepted = self.remover.remove(pool.clone(), removal, audit.clone()).await?;
        if force && !dry_run {
            forced::report(&self.cluster, &self.env, api, &pool, &accepted, &audit.user.name).await;
        }
        Ok(json(StatusCode::CREATED, &success(&pool, &accepted, dry_run)))
    }

    /// Handles a claim of a machine, or the release of a claimed one.
    async fn claim_or_release(
        &self,
        api: &RemovalApi,
        request: ResourceRequest,
        user: User,
        id: &str,
        parts: Parts,
        body: Body,
    ) -> Result<Response<Body>, Error> {
        let body = content(&request, ("create", "POST"), &parts, body).await?;
        let dry_run = body::has_dry_run(parts.uri.query().unwrap_or_default()).map_err(Error::BadRequest)?;
        let ResourceRequest { namespace, name, subresource, .. } = request;
        let audit = AuditInfo { user, request: id.to_owned() };
        let pool = PoolName { stored: api.stored, namespace, name };
        if subresource == CLAIM {
            let claimed = self.claims.claim(pool, read_claim(&body, dry_run)?, audit).await?;
            let code = if claimed.renewed { StatusCode::OK } else { StatusCode::CREATED };
            return Ok(json(code, &response::claimed(api, &claimed)));
        }
        let released = self.claims.release(pool, read_release(&body, dry_run)?, audit).await?;
        Ok(json(StatusCode::OK, &response::released(api, &released)))
    }
}

/// The body of a request with this verb, which a client sends by this method.
///
/// # Errors
/// The error about the method, the media types or the length.
async fn content(
    request: &ResourceRequest,
    (verb, allowed): (&str, &'static str),
    parts: &Parts,
    body: Body,
) -> Result<Bytes, Error> {
    if request.verb != verb {
        return Err(Error::MethodNotAllowed { allowed });
    }
    accepted(&parts.headers, false)?;
    check_content_type(&parts.headers)?;
    let body = Limited::new(body, MAX_LENGTH).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() {
            Error::TooLarge { limit: MAX_LENGTH }
        } else {
            Error::IncompleteBody
        }
    })?;
    Ok(body.to_bytes())
}

/// Checks that an object with these names can exist.
///
/// # Errors
/// [`Error::UnknownPath`] and [`Error::PoolNotFound`].
fn check_names(apis: Apis, info: &RequestInfo) -> Result<(), Error> {
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
fn served(apis: Apis, request: &ResourceRequest) -> Option<&'static RemovalApi> {
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

fn labels(apis: Apis, info: Option<&RequestInfo>) -> Labels {
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

/// Health endpoints need no authentication, as in kube-apiserver. `/healthz` is the older name of `/livez`.
async fn health(health: &Health, mut request: Request) -> Response<Body> {
    let path = request.uri().path().trim_end_matches('/');
    let path = if path == "/healthz" { "/livez" } else { path };
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    match format!("{path}{query}").parse() {
        Ok(uri) => *request.uri_mut() = uri,
        Err(_) => return Response::from(&Error::UnknownPath),
    }
    match health.router().oneshot(request).await {
        Ok(response) if response.status() == StatusCode::METHOD_NOT_ALLOWED => {
            Response::from(&Error::MethodNotAllowed { allowed: "GET, HEAD" })
        }
        Ok(response) => response,
        Err(never) => match never {},
    }
}

#[cfg(test)]
mod tests;
