//! The handling of one request.
//!
//! ```text
//!  request ─> health? ─> authentication ─> valid path? ─> authorization ─> document, pool, removal, claim, expansion ─> response
//!                             401             404              403               404, 405, 406 ...
//!                                                    (if the gate is on)
//! ```

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use http::{HeaderValue, Response, StatusCode};
use tower::ServiceExt;
use vmpool_platforms::removal::Apis;
use vmpool_runtime::health::HealthEndpoints;
use vmpool_runtime::https::Peer;

use crate::api::REMOVAL;
use crate::audit::{AUDIT_ID, request_id};
use crate::error::Error;
use crate::handlers::PoolPost;
use crate::metrics::Resource;
use crate::request_info::RequestInfo;
use crate::routes::{Route, check_names, find_route, request_label_values};
use crate::state::ApiServerState;

/// The API as a service for [`vmpool_runtime::https`].
pub fn api_router(state: Arc<ApiServerState>) -> Router {
    Router::new().fallback(move |request: Request| {
        let state = Arc::clone(&state);
        async move { state.handle(request).await }
    })
}

impl ApiServerState {
    async fn handle(&self, request: Request) -> Response<Body> {
        let start = self.env.uptime();
        let id = request_id(request.headers(), &self.env);
        let info = RequestInfo::of(request.method(), request.uri());
        let apis = self.apis.now();
        let labels = request_label_values(apis, info.as_ref());
        let result = match (labels.resource, info) {
            (Resource::Health, _) => Ok(health_response(&self.health, request).await),
            (_, None) => Err(Error::UnknownPath),
            (_, Some(info)) => self.respond(apis, request, info, &id).await,
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

    async fn respond(
        &self,
        apis: Apis,
        request: Request,
        info: RequestInfo,
        id: &str,
    ) -> Result<Response<Body>, Error> {
        let (parts, body) = request.into_parts();
        let user = self.authenticator.authenticate(parts.extensions.get::<Peer>(), &parts.headers)?;
        // Invalid names are refused before authorization, because the review and the cached decision would
        // contain them.
        check_names(apis, &info)?;
        // If the gate is off, no resource needs a permission, and this program has no permission to create
        // reviews. The responses are then documents without resources, and "not found".
        if self.apis.is_enabled() {
            self.authorizer.authorize(&user, &info).await?;
        }
        match info {
            RequestInfo::NonResource { path, .. } => {
                let documents = self.documents(apis);
                documents.respond(&parts.method, &path, &parts.headers)
            }
            RequestInfo::Resource(request) => match find_route(apis, &request).ok_or(Error::UnknownPath)? {
                Route::Expansion(api, target) => self.expand(api, target, request, &user, parts, body).await,
                Route::Pool(api) if request.subresource.is_empty() => self.read(api, request, &parts).await,
                Route::Pool(api) => {
                    let post = PoolPost { request, user, id: id.to_owned(), parts };
                    match &*post.request.subresource {
                        REMOVAL => self.remove(api, post, body).await,
                        _ => self.claim_or_release(api, post, body).await,
                    }
                }
            },
        }
    }
}

/// Health endpoints need no authentication, as in kube-apiserver. `/healthz` is the older name of `/livez`.
async fn health_response(health: &HealthEndpoints, mut request: Request) -> Response<Body> {
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
