//! `/livez`, `/readyz` and `/violations`.

use super::{
    config::{Error, HEARTBEAT},
    report::Violations,
};
use axum::{Json, Router, http::StatusCode, routing::get};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};
use tokio::{net::TcpListener, task::JoinSet, time::Instant};

/// After this many missed heartbeats, the loop is considered stuck.
const MISSED_BEATS: u64 = 6;

/// Whether the loop is alive, and whether it is ready.
#[derive(Debug)]
pub(super) struct SimulatorHealth {
    started: Instant,
    last_beat_seconds: AtomicU64,
    /// Platforms whose objects were not all listed yet.
    waiting: AtomicUsize,
}

impl SimulatorHealth {
    pub(super) fn new(platforms: usize) -> Self {
        Self {
            started: Instant::now(),
            last_beat_seconds: AtomicU64::new(0),
            waiting: AtomicUsize::new(platforms),
        }
    }

    /// Records a heartbeat of the loop.
    pub(super) fn beat(&self) {
        self.last_beat_seconds.store(self.started.elapsed().as_secs(), Ordering::Relaxed);
    }

    /// Records that all objects of one platform were listed.
    pub(super) fn ready(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    fn is_ready(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }

    /// Before the loop is ready it may wait for the API server, which is no reason for a restart.
    fn is_alive(&self) -> bool {
        let silence = self.started.elapsed().as_secs() - self.last_beat_seconds.load(Ordering::Relaxed);
        !self.is_ready() || silence <= MISSED_BEATS * HEARTBEAT.as_secs()
    }
}

/// Serves until its task is dropped.
pub(super) async fn serve_health(
    address: SocketAddr,
    health: Arc<SimulatorHealth>,
    violations: Violations,
    tasks: &mut JoinSet<&'static str>,
) -> Result<(), Error> {
    let listen = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    let local = listener.local_addr().map_err(listen)?;
    let live = health.clone();
    let router = Router::new()
        .route("/livez", get(move || async move { health_response(live.is_alive()) }))
        .route("/readyz", get(move || async move { health_response(health.is_ready()) }))
        .route("/violations", get(move || async move { Json(violations.list()) }));
    tracing::info!(address = %local, "serving /livez, /readyz and /violations");
    tasks.spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "serving health");
        }
        "the health server"
    });
    Ok(())
}

fn health_response(good: bool) -> (StatusCode, &'static str) {
    if good { (StatusCode::OK, "ok") } else { (StatusCode::SERVICE_UNAVAILABLE, "not yet") }
}
