//! The vmpool webhook: answers the API server's admission reviews about pools.
//!
//! ```text
//!  API server ──AdmissionReview──> router ──> review (decode) ──> admission of the platform ──> review (encode)
//!      ▲                                                              │ needs a class, images, the policy of a pool
//!      └──────────────── reads, live and with a deadline ─────────────┘
//! ```
//!
//! The rules are in `vmpool-platforms` and `vmpool-engine`. This crate decodes, reads and answers. It caches nothing and
//! writes nothing, so all replicas give the same answers.

mod arrival;
mod callers;
mod handlers;
mod memory;
pub mod metrics;
pub mod options;
mod reads;
mod review;
mod run;
mod tree;

use std::sync::Arc;

use axum::Router;
use axum::routing::post;
use kube::Client;
use vmpool_engine::admission::{Kind, Rules};
use vmpool_runtime::Env;

pub use callers::Callers;
pub use run::{RunError, run};

use memory::Memory;
use metrics::Metrics;
use reads::Reader;

/// The largest body that is read. A review holds an object twice, and the API server takes requests of 3 MiB.
pub const LARGEST_BODY: usize = 8 << 20;

/// Bytes of bodies that are held at a time. One client may have half of it, which has room for the largest.
const BODIES: usize = 3 * LARGEST_BODY;
/// Bytes of values that are held at a time. One client may have half of it, which has room for two of the largest objects.
const VALUES: usize = 4 * review::LARGEST_OBJECT;

/// What the handlers work with. Clones share it.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) rules: Arc<dyn Rules>,
    pub(crate) reader: Reader,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) env: Env,
    pub(crate) callers: Callers,
    pub(crate) bodies: Arc<Memory>,
    pub(crate) values: Arc<Memory>,
}

impl State {
    /// `rules` judges the requests. `client` is asked for classes, images, snapshots and pools. It should repeat nothing by itself.
    pub fn new(rules: Arc<dyn Rules>, client: Client, metrics: Arc<Metrics>, env: Env) -> Self {
        let reader = Reader::new(client, env.clone(), metrics.clone());
        let (bodies, values) = (Arc::new(Memory::new(BODIES)), Arc::new(Memory::new(VALUES)));
        Self { rules, reader, metrics, env, callers: Callers::default(), bodies, values }
    }

    /// Answers these clients only.
    #[must_use]
    pub fn answering(self, callers: Callers) -> Self {
        Self { callers, ..self }
    }
}

/// The two webhooks. Every other path is 404, every method but POST 405.
pub fn router(state: State) -> Router {
    let Kind { pool_path, scale_path, .. } = state.rules.kind();
    Router::new()
        .route(pool_path, post(handlers::pool))
        .route(scale_path, post(handlers::scale))
        .with_state(state)
}

/// What is served while the feature gate VirtualMachinePool is off: nothing, each path is 404.
pub fn closed() -> Router {
    Router::new()
}

#[cfg(test)]
mod tests;
