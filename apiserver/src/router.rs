//! One request, from its head to its answer.
//!
//! ```text
//!  request ─> health? ─> who calls? ─> what for? ─> may they? ─> document, pool or removal ─> answer
//!                          401            404           403              404, 405, 406 ...
//!                                               (gate on)
//! ```

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Value, json};
use tower::ServiceExt;
use vmpool_api::names::is_dns_subdomain;
use vmpool_runtime::health::Health;
use vmpool_runtime::https::Peer;

use crate::api::{self, GroupVersion, POOL_KIND, POOLS, REMOVAL};
use crate::audit::{AUDIT_ID, Audit, request_id};
use crate::authentication::User;
use crate::body::{self, LIMIT};
use crate::error::{Error, json};
use crate::metrics::{Resource, Verb};
use crate::negotiation::{accepted, sent_json};
use crate::removal::PoolName;
use crate::state::State;
use crate::success::success;
use crate::target::{Object, Target};

/// The whole API, as a service that [`vmpool_runtime::https`] can serve.
pub fn router(state: Arc<State>) -> Router {
    Router::new().fallback(move |request: Request| {
        let state = Arc::clone(&state);
        async move { state.answer(request).await }
    })
}

/// What a request turned out to be about, for the metrics.
#[derive(Clone, Copy)]
struct About {
    verb: Verb,
    resource: Resource,
}

impl State {
    async fn answer(&self, request: Request) -> Response<Body> {
        let begun = self.env.uptime();
        let id = request_id(request.headers(), &self.env);
        let target = Target::of(request.method(), request.uri());
        let about = about(target.as_ref());
        let result = match (about.resource, target) {
            (Resource::Health, _) => Ok(health(&self.health, request).await),
            (_, None) => Err(Error::UnknownPath),
            (_, Some(target)) => self.grant(request, target, &id).await,
        };
        let mut response = result.unwrap_or_else(|error| {
            tracing::debug!(request = ?id, code = error.code().as_u16(), %error, "refused");
            Response::from(&error)
        });
        if let Ok(id) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(AUDIT_ID, id);
        }
        let took = self.env.uptime().saturating_sub(begun);
        self.metrics.request(about.verb, about.resource, response.status(), took);
        response
    }

    async fn grant(&self, request: Request, target: Target, id: &str) -> Result<Response<Body>, Error> {
        let (parts, body) = request.into_parts();
        let user = self.authenticator.authenticate(parts.extensions.get::<Peer>(), &parts.headers)?;
        // Before authorization: the request for it, and the cached answer, would be as long as the name.
        possible(&target)?;
        // With the gate off there is no resource that needs a right, and this program may not request authorization. The
        // remaining answers are documents without resources, and "not found".
        if self.enabled {
            self.authorizer.authorize(&user, &target).await?;
        }
        match target {
            Target::Document { path, .. } => self.documents.answer(&parts.method, &path, &parts.headers),
            Target::Object(object) => {
                let served = served(&object).filter(|_| self.enabled).ok_or(Error::UnknownPath)?;
                if object.subresource.is_empty() {
                    self.read(served, object, &parts).await
                } else {
                    self.remove(object, user, id, parts, body).await
                }
            }
        }
    }

    /// The metadata of a pool.
    async fn read(
        &self,
        served: GroupVersion,
        object: Object,
        parts: &Parts,
    ) -> Result<Response<Body>, Error> {
        // There is nothing to be listed, so the collection exists for no method.
        if object.name.is_empty() {
            return Err(Error::MethodNotAllowed { allowed: "" });
        }
        if object.verb != "get" {
            return Err(Error::MethodNotAllowed { allowed: "GET, HEAD" });
        }
        accepted(&parts.headers, false)?;
        let Object { namespace, name, .. } = object;
        let not_found = || Error::PoolNotFound { group: served.group, pool: name.clone() };
        let pool: Value = match self.cluster.pool(&namespace, &name).await {
            Ok(pool) => pool,
            Err(error) if error.is_gone() => return Err(not_found()),
            Err(error) => return Err(Error::Internal(format!("reading pool \"{name}\": {error}"))),
        };
        let content = json!({
            "kind": POOL_KIND,
            "apiVersion": served.api_version(),
            "metadata": pool["metadata"],
        });
        Ok(json(StatusCode::OK, &content))
    }

    /// The removal of named machines.
    async fn remove(
        &self,
        object: Object,
        user: User,
        id: &str,
        parts: Parts,
        body: Body,
    ) -> Result<Response<Body>, Error> {
        if object.verb != "create" {
            return Err(Error::MethodNotAllowed { allowed: "POST" });
        }
        accepted(&parts.headers, false)?;
        sent_json(&parts.headers)?;
        let body = Limited::new(body, LIMIT).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() { Error::TooLarge { limit: LIMIT } } else { Error::BodyLost }
        })?;
        let Object { namespace, name, .. } = object;
        let query = parts.uri.query().unwrap_or_default();
        let wish = body::read(&body.to_bytes(), query, &namespace, &name)?;
        let dry_run = wish.dry_run;
        let audit = Audit { user, request: id.to_owned() };
        let pool = PoolName { namespace, name };
        let accepted = self.remover.remove(pool.clone(), wish, audit).await?;
        Ok(json(StatusCode::CREATED, &success(&pool.name, &accepted, dry_run)))
    }
}

/// Whether something of this name can exist.
///
/// # Errors
/// [`Error::UnknownPath`] and [`Error::PoolNotFound`].
fn possible(target: &Target) -> Result<(), Error> {
    if target.is_too_long() {
        return Err(Error::UnknownPath);
    }
    if let Target::Object(object) = target
        && let Some(served) = served(object)
        && !object.name.is_empty()
        && (!is_dns_subdomain(&object.name) || !is_dns_subdomain(&object.namespace))
    {
        return Err(Error::PoolNotFound { group: served.group, pool: object.name.clone() });
    }
    Ok(())
}

/// The version of the API that an object is of, if it is one that is served.
fn served(object: &Object) -> Option<GroupVersion> {
    let served = api::group(&object.group).filter(|served| served.version == object.version)?;
    let known = object.resource == POOLS
        && !object.namespace.is_empty()
        && !object.beyond
        && match &*object.subresource {
            "" => true,
            REMOVAL => !object.name.is_empty(),
            _ => false,
        };
    known.then_some(served)
}

fn about(target: Option<&Target>) -> About {
    match target {
        None => About { verb: Verb::Other, resource: Resource::Other },
        Some(Target::Document { path, verb }) => {
            let verb = if verb == "get" { Verb::Get } else { Verb::Other };
            let resource = match &**path {
                "/livez" | "/readyz" | "/healthz" => Resource::Health,
                path if ["/apis", "/openapi", "/version"].iter().any(|known| path.starts_with(known)) => {
                    Resource::Documents
                }
                _ => Resource::Other,
            };
            About { verb, resource }
        }
        Some(Target::Object(object)) => {
            let resource = match (served(object), &*object.subresource) {
                (Some(_), "") => Resource::Pools,
                (Some(_), _) => Resource::Removal,
                (None, _) => Resource::Other,
            };
            let verb = match object.verb {
                "get" => Verb::Get,
                "create" => Verb::Create,
                _ => Verb::Other,
            };
            About { verb, resource }
        }
    }
}

/// Health is everybody's business, as with Kubernetes' own servers. `/healthz` is the old name of `/livez`.
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
