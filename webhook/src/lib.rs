//! The vmpool webhook: answers the API server's admission reviews about pools.
//!
//! ```text
//!  API server ──AdmissionReview──> router ──> review (decode) ──> vmpool_engine::admission ──> review (encode)
//!      ▲                                                              │ needs a class, images, the policy of a pool
//!      └──────────────── reads, live and with a deadline ─────────────┘
//! ```
//!
//! Every rule is in the engine. What is here is decoding, reading and answering; nothing is cached and nothing is
//! written, so that any number of replicas answer alike.

mod handlers;
pub mod metrics;
pub mod options;
mod reads;
mod review;
mod run;

use std::sync::Arc;

use axum::Router;
use axum::routing::post;
use kube::Client;
use vmpool_engine::admission::Settings;
use vmpool_runtime::Env;

pub use run::{RunError, run};

use metrics::Metrics;
use reads::Reader;

/// Where creates and updates of pools are reviewed.
pub const POOL_PATH: &str = "/validate-virtualization-deckhouse-io-v1alpha2-virtualmachinepool";
/// Where updates of the scale of pools are reviewed.
pub const SCALE_PATH: &str = "/validate-virtualization-deckhouse-io-v1alpha2-virtualmachinepool-scale";

/// The largest body that is read. A review holds an object twice, and the API server takes requests of 3 MiB.
pub const LARGEST_BODY: usize = 8 << 20;

/// What the handlers work with. Clones share it.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) settings: Arc<Settings>,
    pub(crate) reader: Reader,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) env: Env,
}

impl State {
    /// `client` is asked for classes, images, snapshots and pools. It should repeat nothing by itself.
    pub fn new(settings: Settings, client: Client, metrics: Arc<Metrics>, env: Env) -> Self {
        let reader = Reader::new(client, env.clone(), metrics.clone());
        Self { settings: Arc::new(settings), reader, metrics, env }
    }
}

/// The two webhooks. Every other path is 404, every method but POST 405.
pub fn router(state: State) -> Router {
    Router::new()
        .route(POOL_PATH, post(handlers::pool))
        .route(SCALE_PATH, post(handlers::scale))
        .with_state(state)
}

/// What is served while the feature gate VirtualMachinePool is off: nothing, each path is 404.
pub fn closed() -> Router {
    Router::new()
}

#[cfg(test)]
mod tests;
