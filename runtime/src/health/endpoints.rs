//! The endpoints `/livez`, `/readyz` and `/metrics`.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use parking_lot::RwLock;

use super::metrics_access::MetricsAccess;
use super::unhealthy::Unhealthy;

/// The health endpoints. Clones share the checks, so checks can be added after the server has started.
///
/// If a liveness check fails, a restart may help. If a readiness check fails, the process cannot do its work
/// now. Without checks, the process is live and ready.
#[derive(Clone, Default)]
pub struct HealthEndpoints(Arc<RwLock<Probes>>);

#[derive(Default)]
struct Probes {
    live: Vec<Check>,
    ready: Vec<Check>,
    details: Vec<Detail>,
    metrics: Option<Arc<dyn Fn() -> String + Send + Sync>>,
    access: Option<Arc<MetricsAccess>>,
}

#[derive(Clone)]
struct Check {
    name: &'static str,
    probe: Arc<dyn Fn() -> Result<(), Unhealthy> + Send + Sync>,
}

/// A name, and a text for people.
type Detail = (&'static str, Arc<dyn Fn() -> String + Send + Sync>);

/// The media type of the output of prometheus-client.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl HealthEndpoints {
    /// Health without checks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check to `/livez`. It must not block. Every client of the endpoint can read its error.
    pub fn live(
        &self,
        name: &'static str,
        probe: impl Fn() -> Result<(), Unhealthy> + Send + Sync + 'static,
    ) {
        self.0.write().live.push(Check { name, probe: Arc::new(probe) });
    }

    /// Adds a check to `/readyz`. It must not block. Every client of the endpoint can read its error.
    pub fn ready(
        &self,
        name: &'static str,
        probe: impl Fn() -> Result<(), Unhealthy> + Send + Sync + 'static,
    ) {
        self.0.write().ready.push(Check { name, probe: Arc::new(probe) });
    }

    /// Adds a line to `/readyz`, which never fails. `text` must not block. Every client of the endpoint can
    /// read it.
    pub fn detail(&self, name: &'static str, text: impl Fn() -> String + Send + Sync + 'static) {
        self.0.write().details.push((name, Arc::new(text)));
    }

    /// Sets the function for `/metrics`, which returns the OpenMetrics text format. Without it the path
    /// returns 404.
    pub fn metrics(&self, text: impl Fn() -> String + Send + Sync + 'static) {
        self.0.write().metrics = Some(Arc::new(text));
    }

    /// Restricts `/metrics` to clients with a token.
    pub fn restrict_metrics(&self, access: MetricsAccess) {
        self.0.write().access = Some(Arc::new(access));
    }

    /// The endpoints as a router.
    pub fn router(&self) -> Router {
        let (live, ready, metrics) = (self.clone(), self.clone(), self.clone());
        let details = |health: &Self| health.0.read().details.clone();
        Router::new()
            .route(
                "/livez",
                get(async move |uri: Uri| {
                    health_check_response("livez", &live.checks(|probes| &probes.live), &[], &uri)
                }),
            )
            .route(
                "/readyz",
                get(async move |uri: Uri| {
                    health_check_response(
                        "readyz",
                        &ready.checks(|probes| &probes.ready),
                        &details(&ready),
                        &uri,
                    )
                }),
            )
            .route("/metrics", get(async move |headers: HeaderMap| metrics.metrics_page(&headers).await))
    }

    fn checks(&self, of: impl Fn(&Probes) -> &Vec<Check>) -> Vec<Check> {
        of(&self.0.read()).clone()
    }

    async fn metrics_page(&self, headers: &HeaderMap) -> Response {
        let (metrics, access) = {
            let probes = self.0.read();
            (probes.metrics.clone(), probes.access.clone())
        };
        if let Some(access) = access
            && let Some(refused) = access.refuse(headers).await
        {
            return refused;
        }
        match metrics {
            Some(text) => ([(header::CONTENT_TYPE, METRICS_TYPE)], text()).into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        }
    }
}

/// The text `ok`. If a check fails or the query contains `verbose`, the text lists all checks and details.
fn health_check_response(endpoint: &str, checks: &[Check], details: &[Detail], uri: &Uri) -> Response {
    let verbose = uri.query().is_some_and(|query| query.split('&').any(is_verbose));
    let mut text = String::new();
    let mut failed = Vec::new();
    for check in checks {
        let line = match (check.probe)() {
            Ok(()) => format!("[+]{} ok", check.name),
            Err(reason) => {
                failed.push(check.name);
                format!("[-]{} failed: {reason}", check.name)
            }
        };
        text.push_str(&line);
        text.push('\n');
    }
    for (name, detail) in details {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "[+]{name} ok: {}", detail());
    }
    let verdict = if failed.is_empty() { "passed" } else { "failed" };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{endpoint} check {verdict}");
    match (failed.is_empty(), verbose) {
        (true, false) => (StatusCode::OK, "ok".to_owned()).into_response(),
        (true, true) => (StatusCode::OK, text).into_response(),
        (false, _) => {
            tracing::debug!(endpoint, ?failed, "health check failed");
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

fn is_verbose(parameter: &str) -> bool {
    parameter == "verbose" || parameter.starts_with("verbose=")
}
