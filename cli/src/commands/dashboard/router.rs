//! The responses of the dashboard.

use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use vmpool_runtime::Env;

use super::objects::WatchedObjects;
use super::page_files::{content_security_policy, find_page_file};
use super::plans::{PlanOrder, PlannedScale};
use super::session::{DashboardSession, VisitRefusal, VisitorAdmission};
use super::stream::{render_board, stream_board};

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// The page that a browser sees while it gets its cookie. It goes on by itself, so that the request for the
/// dashboard comes from this site, and the browser sends the cookie also after a link in another program.
const ENTRY: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
    <meta http-equiv=\"refresh\" content=\"0; url=/\"><link rel=\"icon\" href=\"/icon.svg\"><title>vmpool</title>\
    <p><a href=\"/\">Open the dashboard</a></p></html>\n";

/// What all requests share.
pub(super) struct DashboardState {
    pub(super) session: DashboardSession,
    pub(super) watched: watch::Receiver<WatchedObjects>,
    pub(super) plans: mpsc::Sender<PlanOrder>,
    pub(super) env: Env,
}

/// The dashboard as a service.
pub(super) fn dashboard_router(state: Arc<DashboardState>) -> Router {
    Router::new().fallback(move |request: Request| {
        let state = Arc::clone(&state);
        async move { state.respond(request).await }
    })
}

impl DashboardState {
    async fn respond(&self, request: Request) -> Response<Body> {
        let (parts, _) = request.into_parts();
        let mut response = match self.session.admit(&parts) {
            VisitorAdmission::Admitted => self.respond_to_path(parts.uri.path(), parts.uri.query()).await,
            VisitorAdmission::Entered { cookie } => enter_page(&cookie),
            VisitorAdmission::Refused(refusal) => refuse_request(refusal),
        };
        add_security_headers(&mut response);
        response
    }

    async fn respond_to_path(&self, path: &str, query: Option<&str>) -> Response<Body> {
        match path {
            "/api/board" => {
                let board = render_board(&mut self.watched.clone(), &self.env);
                make_response(StatusCode::OK, JSON, board)
            }
            "/api/changes" => {
                let body = stream_board(self.watched.clone(), self.env.clone());
                make_response(StatusCode::OK, EVENTS, body)
            }
            "/api/plan" => match self.plan(query.unwrap_or_default()).await {
                Ok(plan) => make_response(StatusCode::OK, JSON, plan.to_string()),
                Err(error) => {
                    let body = json!({ "error": format!("{error:#}") }).to_string();
                    make_response(StatusCode::BAD_REQUEST, JSON, body)
                }
            },
            _ => match find_page_file(path) {
                Some(file) => make_response(StatusCode::OK, file.media_type, file.text),
                None => make_response(StatusCode::NOT_FOUND, TEXT, "The dashboard has no such page.\n"),
            },
        }
    }

    /// Requests a plan.
    async fn plan(&self, query: &str) -> Result<Value> {
        let scale = PlannedScale::parse(query)?;
        let (reply, planned) = oneshot::channel();
        let order = PlanOrder { scale, reply };
        self.plans.try_send(order).map_err(|_| anyhow!("too many plans are requested: try again"))?;
        planned.await.context("the dashboard ends")?
    }
}

fn enter_page(cookie: &str) -> Response<Body> {
    let mut response = make_response(StatusCode::OK, HTML, ENTRY);
    // The cookie is made of digits and letters of this program.
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

fn refuse_request(refusal: VisitRefusal) -> Response<Body> {
    let mut response = make_response(refusal.status(), TEXT, format!("{}\n", refusal.message()));
    if refusal == VisitRefusal::Method {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
    }
    response
}

fn make_response(status: StatusCode, media_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Headers that each response has. None permits other sites to read it.
fn add_security_headers(response: &mut Response<Body>) {
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, content_security_policy()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests;
