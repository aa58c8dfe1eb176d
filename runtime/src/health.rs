//! `/livez`, `/readyz` and `/metrics`, in the words and formats of Kubernetes' own components.

mod heartbeat;
mod server;

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use parking_lot::RwLock;

pub use heartbeat::Heartbeat;
pub use server::{HealthError, Server};

/// The answers of the health endpoints. Clones answer alike, so checks can be added after the server has started.
///
/// Live means that a restart would not help; ready means able to do the work. Without checks both are true.
#[derive(Clone, Default)]
pub struct Health(Arc<RwLock<Probes>>);

#[derive(Default)]
struct Probes {
    live: Vec<Check>,
    ready: Vec<Check>,
    metrics: Option<Arc<dyn Fn() -> String + Send + Sync>>,
}

#[derive(Clone)]
struct Check {
    name: &'static str,
    probe: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
}

/// Media type of the text that prometheus-client writes.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl Health {
    /// Health without checks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check to `/livez`. It must answer at once; its error is shown to whoever asks.
    pub fn live(&self, name: &'static str, probe: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.0.write().live.push(Check { name, probe: Arc::new(probe) });
    }

    /// Adds a check to `/readyz`. It must answer at once; its error is shown to whoever asks.
    pub fn ready(&self, name: &'static str, probe: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.0.write().ready.push(Check { name, probe: Arc::new(probe) });
    }

    /// What `/metrics` answers, in the OpenMetrics text format. Without it there is no such page.
    pub fn metrics(&self, text: impl Fn() -> String + Send + Sync + 'static) {
        self.0.write().metrics = Some(Arc::new(text));
    }

    /// The endpoints, to be served beside others or called by tests.
    pub fn router(&self) -> Router {
        let (live, ready, metrics) = (self.clone(), self.clone(), self.clone());
        Router::new()
            .route(
                "/livez",
                get(async move |uri: Uri| answer("livez", &live.checks(|probes| &probes.live), &uri)),
            )
            .route(
                "/readyz",
                get(async move |uri: Uri| answer("readyz", &ready.checks(|probes| &probes.ready), &uri)),
            )
            .route("/metrics", get(async move || metrics.metrics_page()))
    }

    fn checks(&self, of: impl Fn(&Probes) -> &Vec<Check>) -> Vec<Check> {
        of(&self.0.read()).clone()
    }

    fn metrics_page(&self) -> Response {
        let metrics = self.0.read().metrics.clone();
        match metrics {
            Some(text) => ([(header::CONTENT_TYPE, METRICS_TYPE)], text()).into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        }
    }
}

/// `ok`, or every check with its outcome if one failed or `?verbose` asks for it.
fn answer(endpoint: &str, checks: &[Check], uri: &Uri) -> Response {
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
    let verdict = if failed.is_empty() { "passed" } else { "failed" };
    // A String takes every write.
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

#[cfg(test)]
mod tests;
